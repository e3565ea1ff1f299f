"""Scores, against formulas written out in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nsde
from nsde import metrics


def laws(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    root = rng.normal(size=(n, d, d))
    return rng.normal(size=(n, d)), root @ root.transpose(0, 2, 1) + np.eye(d), rng.normal(size=(n, d))


def test_nll_is_the_gaussian_one(rng: np.random.Generator) -> None:
    mean, cov, y = laws(rng, 50, 3)
    by_hand = 0.5 * np.mean(
        np.linalg.slogdet(2 * np.pi * cov)[1]
        + np.einsum("ni,nij,nj->n", y - mean, np.linalg.inv(cov), y - mean)
    )
    assert metrics.nll(mean, cov, y) == pytest.approx(by_hand, rel=1e-12)
    shape = (5, 10, 3)
    assert metrics.nll(mean.reshape(shape), cov.reshape(*shape, 3), y.reshape(shape)) == pytest.approx(by_hand)


def test_variances_stand_for_diagonal_covariances(rng: np.random.Generator) -> None:
    mean, cov, y = laws(rng, 20, 2)
    var = np.einsum("nii->ni", cov)
    diagonal = var[:, :, None] * np.eye(2)
    for score in (metrics.nll, metrics.ecpe, metrics.crps, metrics.coverage):
        assert score(mean, var, y) == pytest.approx(score(mean, diagonal, y), rel=1e-12)
    assert metrics.crps(mean[:, 0], var[:, 0], y[:, 0]) == pytest.approx(metrics.crps(mean[:, :1], var[:, :1], y[:, :1]))


def test_crps_and_pit_of_a_scalar() -> None:
    for z in (-2.0, 0.0, 0.7):
        cdf = 0.5 * math.erfc(-z / math.sqrt(2))
        pdf = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        crps = 2.0 * (z * (2 * cdf - 1) + 2 * pdf - 1 / math.sqrt(math.pi))
        assert metrics.crps([1.0], [4.0], [1.0 + 2 * z]) == pytest.approx(crps)
        assert metrics.pit([1.0], [4.0], [1.0 + 2 * z])[0] == pytest.approx(cdf)


def test_right_predictions_are_calibrated(rng: np.random.Generator) -> None:
    n = 20_000
    mean, cov = rng.normal(size=(n, 2)), np.array([[2.0, 0.6], [0.6, 0.5]])
    y = mean + rng.multivariate_normal([0, 0], cov, n)
    covs = np.broadcast_to(cov, (n, 2, 2))
    assert metrics.ecpe(mean, covs, y) < 0.01
    assert metrics.ecpe(mean, 4 * covs, y) > 0.1
    assert metrics.coverage(mean, covs, y, 0.8) == pytest.approx(0.8, abs=0.01)
    counts, _ = np.histogram(metrics.pit(mean, covs, y), bins=10, range=(0, 1))
    assert (np.abs(counts / counts.sum() - 0.1) < 0.01).all()
    curve = metrics.calibration_curve(mean, covs, y)
    assert curve.empirical[-1] == 1.0 and curve.level[0] == 0.1


def test_what_was_not_observed_is_left_out() -> None:
    mean, cov = np.zeros((3, 2)), np.broadcast_to(np.eye(2), (3, 2, 2))
    y = np.array([[1.0, np.nan], [np.nan, np.nan], [0.0, 0.0]])
    half = 0.5 * math.log(2 * math.pi)
    assert metrics.nll(mean, cov, y) == pytest.approx(((half + 0.5) + 2 * half) / 2)
    assert np.isnan(metrics.pit(mean, cov, y)).sum() == 3
    assert metrics.mse(mean, y) == pytest.approx(1 / 3)


def test_ece_of_five_samples() -> None:
    p = np.array([[0.95, 0.05], [0.92, 0.08], [0.3, 0.7], [0.65, 0.35], [0.62, 0.38]])
    # Bins of confidence: {0.95, 0.92} one right, {0.7} right, {0.65, 0.62} one right.
    by_hand = (abs(1 - 1.87) + abs(1 - 0.7) + abs(1 - 1.27)) / 5
    assert metrics.ece(p, [0, 1, 1, 0, 1]) == pytest.approx(by_hand)


def test_errors_say_what_was_expected() -> None:
    with pytest.raises(nsde.Error, match=r"y: expected shape \[3, 2\], found \[3\]"):
        metrics.nll(np.zeros((3, 2)), np.ones((3, 2)), np.zeros(3))
    with pytest.raises(nsde.Error, match=r"cov: expected shape \[3, 2, 2\] \(covariances\) or \[3, 2\] \(variances\)"):
        metrics.nll(np.zeros((3, 2)), np.eye(2), np.zeros((3, 2)))
    with pytest.raises(nsde.Error, match="not positive definite"):
        metrics.nll([0.0], [0.0], [0.0])
    with pytest.raises(nsde.Error, match="labels: expected numbers from 0 to 1"):
        metrics.ece([[0.5, 0.5]], [2])
    with pytest.raises(nsde.Error, match="labels: expected 1 whole numbers"):
        metrics.ece([[0.5, 0.5]], [0.5])
