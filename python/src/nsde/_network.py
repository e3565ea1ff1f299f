"""One network on its own: a Gaussian through its layers, or points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import _core
from ._arrays import ArrayLike, FloatArray, shaped
from ._layers import Layer, specs
from ._options import TERMS, Moments


class NetworkMoments(NamedTuple):
    """Moments of a network's output for a Gaussian input."""

    #: ``E[f(x)]``, shape [out].
    mean: FloatArray
    #: ``Cov[f(x)]``, shape [out, out].
    cov: FloatArray
    #: ``E[∂f/∂x]``, shape [out, in].
    jac: FloatArray


def moments(
    net: Sequence[Layer], mean: ArrayLike, cov: ArrayLike, *, moments: Moments = "series", terms: int = TERMS
) -> NetworkMoments:
    """Mean, covariance and expected Jacobian of ``net(x)`` for ``x ~ N(mean, cov)``: one pass down its layers.

    >>> import nsde
    >>> nsde.moments([nsde.ReLU()], [0.0], [[1.0]]).mean  # 1/√(2π)
    array([0.39894228])
    """
    mean = shaped("mean", mean, (None,))
    cov = shaped("cov", cov, (len(mean), len(mean)))
    return NetworkMoments(*_core.moments(specs("net", net), mean, cov, moments, terms))


def evaluate(net: Sequence[Layer], x: ArrayLike) -> FloatArray:
    """The network on points [N, in]: [N, out]; dropout acts as the identity.

    >>> import nsde
    >>> nsde.evaluate([nsde.ReLU()], [[-1.0, 2.0]])
    array([[0., 2.]])
    """
    return _core.evaluate(specs("net", net), shaped("x", x, (None, None)))
