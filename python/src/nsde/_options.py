"""The options of a solver."""

from __future__ import annotations

from typing import Literal

#: How a Gaussian is carried over one step: moment matching, the unscented transform, Monte Carlo.
Method = Literal["bmm", "cubature", "mc"]
#: How the covariance of activations is computed.
Moments = Literal["series", "exact", "paper"]
#: How much of the covariance of hidden units ``bmm`` carries.
Covariance = Literal["full", "structured", "diagonal"]
#: Scalar type of the kernels.
Precision = Literal["f64", "f32"]

#: As the Rust side reads them: method, moments, terms, covariance, precision, samples, seed.
Options = tuple[str, str, int, str, str, int, int]

#: Terms of the series unless somebody says otherwise.
TERMS = 8
#: Particles of Monte Carlo unless somebody says otherwise.
SAMPLES = 1000
