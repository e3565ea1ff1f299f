"""Scores of predictive distributions over plain arrays.

Predictions are Gaussians: ``mean`` [..., D] with ``cov`` [..., D, D], or with variances [..., D] for independent
coordinates. One-dimensional arrays are scalar predictions. A coordinate that was not observed is NaN in ``y`` and is
left out, the prediction being marginalised over it.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from . import _core
from ._arrays import ArrayLike, FloatArray, floats
from ._core import Error

__all__ = ["LEVELS", "CalibrationCurve", "calibration_curve", "coverage", "crps", "ece", "ecpe", "mse", "nll", "pit"]

#: The ten confidence levels of ECPE; the last is met by everything.
LEVELS: FloatArray = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])


class CalibrationCurve(NamedTuple):
    """What the predictions claim, and what came true."""

    #: Levels that are claimed.
    level: FloatArray
    #: Share of the observations inside the region of each level.
    empirical: FloatArray


def nll(mean: ArrayLike, cov: ArrayLike, y: ArrayLike) -> float:
    """Mean of ``½(log det 2πΣ + (y − μ)ᵀ Σ⁻¹ (y − μ))`` over the points; no hidden constants, no jitter.

    >>> round(nll([0.0], [1.0], [0.0]), 4)  # ½ log 2π
    0.9189
    """
    return float(np.nanmean(_scores(mean, cov, y)[0]))


def mse(mean: ArrayLike, y: ArrayLike) -> float:
    """Mean squared error over all observed coordinates.

    >>> mse([[0.0, 1.0]], [[1.0, float("nan")]])
    1.0
    """
    mean, y = floats("mean", mean), floats("y", y)
    if mean.shape != y.shape:
        raise Error(f"y: expected shape {list(mean.shape)}, found {list(y.shape)}")
    return float(np.nanmean((mean - y) ** 2))


def calibration_curve(mean: ArrayLike, cov: ArrayLike, y: ArrayLike) -> CalibrationCurve:
    """Coverage of the χ² ellipsoids of each level of :data:`LEVELS` (Eqs. 37–38)."""
    region = _scores(mean, cov, y)[2]
    region = region[~np.isnan(region)]
    inside = np.array([np.mean(region <= level) for level in LEVELS])
    return CalibrationCurve(LEVELS.copy(), inside)


def ecpe(mean: ArrayLike, cov: ArrayLike, y: ArrayLike) -> float:
    """Expected coverage error: ``1/10 Σ_j |p̂_j − p_j|`` over :data:`LEVELS` (Eq. 36).

    >>> import numpy as np
    >>> y = np.random.default_rng(0).normal(size=10_000)
    >>> ecpe(np.zeros(10_000), np.ones(10_000), y) < 0.01
    True
    """
    curve = calibration_curve(mean, cov, y)
    return float(np.mean(np.abs(curve.empirical - curve.level)))


def coverage(mean: ArrayLike, cov: ArrayLike, y: ArrayLike, level: float = 0.9) -> float:
    """Share of the observed coordinates inside their central interval of this level."""
    if not 0.0 <= level <= 1.0:
        raise Error(f"level: expected a number between 0 and 1, found {level}")
    p = pit(mean, cov, y)
    p = p[~np.isnan(p)]
    return float(np.mean(np.abs(p - 0.5) <= 0.5 * level))


def crps(mean: ArrayLike, cov: ArrayLike, y: ArrayLike) -> float:
    """Mean continuous ranked probability score over all observed coordinates, in the units of ``y``.

    >>> round(crps([0.0], [1.0], [0.0]), 4)
    0.2337
    """
    return float(np.nanmean(_marginals(mean, cov, y)[0]))


def pit(mean: ArrayLike, cov: ArrayLike, y: ArrayLike) -> FloatArray:
    """Probability integral transform ``F(y)`` of every coordinate, in the shape of ``y``: uniform if all is right.

    >>> pit([0.0], [1.0], [0.0])
    array([0.5])
    """
    return _marginals(mean, cov, y)[1].reshape(np.shape(y))


def ece(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Expected calibration error of class probabilities [N, classes] in ten bins of confidence (Eq. 39).

    ``labels`` are numbers of classes, 0 … classes − 1.

    >>> ece([[0.5, 0.5], [0.5, 0.5]], [0, 1])
    0.0
    """
    p = floats("probabilities", probabilities)
    if p.ndim != 2:
        raise Error(f"probabilities: expected shape [N, classes], found {list(p.shape)}")
    y = np.asarray(labels)
    if y.dtype.kind not in "iub" or y.shape != (len(p),):
        raise Error(f"labels: expected {len(p)} whole numbers, found {y.dtype} of shape {list(y.shape)}")
    if y.size and (y.min() < 0 or y.max() >= p.shape[1]):
        raise Error(f"labels: expected numbers from 0 to {p.shape[1] - 1}, found {y.min()} to {y.max()}")
    return _core.classification(p, y.astype(np.int64))[2]


def _read(mean: ArrayLike, cov: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means [N, D], covariances [N, D, D] or variances [N, D], observations [N, D]."""
    mean, cov, y = floats("mean", mean), floats("cov", cov), floats("y", y)
    if mean.shape != y.shape:
        raise Error(f"y: expected shape {list(mean.shape)}, found {list(y.shape)}")
    d = mean.shape[-1] if mean.ndim > 1 else 1
    if cov.shape == mean.shape:
        cov = cov.reshape(-1, d)
    elif mean.ndim > 1 and cov.shape == (*mean.shape, d):
        cov = cov.reshape(-1, d, d)
    else:
        full = f"{[*mean.shape, d]} (covariances) or " if mean.ndim > 1 else ""
        raise Error(f"cov: expected shape {full}{list(mean.shape)} (variances), found {list(cov.shape)}")
    return mean.reshape(-1, d), cov, y.reshape(-1, d)


def _scores(mean: ArrayLike, cov: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    mean, cov, y = _read(mean, cov, y)
    if cov.ndim == 2:
        cov = cov[:, :, np.newaxis] * np.eye(cov.shape[1])
    return _core.scores(mean, np.ascontiguousarray(cov), y)


def _marginals(mean: ArrayLike, cov: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    mean, cov, y = _read(mean, cov, y)
    var = np.einsum("nii->ni", cov) if cov.ndim == 3 else cov
    return _core.marginals(mean.ravel(), cast(FloatArray, np.ascontiguousarray(var)).ravel(), y.ravel())
