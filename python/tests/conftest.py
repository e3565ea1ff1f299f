"""What the tests share."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import nsde


#: Test files, and the packages that they need.
OPTIONAL = {"test_torch.py": "torch", "test_distributed.py": "ray"}
collect_ignore = [name for name, package in OPTIONAL.items() if find_spec(package) is None]


def pytest_report_header() -> list[str]:
    return [f"!! SKIPPED: {name}, because {OPTIONAL[name]} is not installed" for name in collect_ignore]


def cli() -> str | None:
    """The command line of the same sources: ``NSDE_CLI``, or what was built in ``target``."""
    given = os.environ.get("NSDE_CLI")
    built = Path(__file__).parents[2] / "target" / "release" / "nsde"
    return given or (str(built) if built.exists() else None) or shutil.which("nsde")


@pytest.fixture
def model() -> nsde.NeuralSDE:
    """Two states, one input, dropout, a diffusion network, units."""
    drift = [nsde.Linear(3, 12, seed=1), nsde.ReLU(), nsde.Dropout(0.9), nsde.Linear(12, 2, seed=2)]
    diffusion = [nsde.Linear(2, 6, seed=3), nsde.Tanh(), nsde.Linear(6, 2, seed=4), nsde.Softplus()]
    return nsde.NeuralSDE(
        drift,
        diffusion,
        dt=0.05,
        scaling=([1.0, -2.0], [2.0, 0.5]),
        inputs_scaling=([3.0], [4.0]),
        columns=["a", "b", "u"],
    )


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
