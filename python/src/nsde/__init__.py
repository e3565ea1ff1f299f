"""Calibrated forecast distributions from neural stochastic differential equations, without sampling.

Models are built from layers or from PyTorch modules (:class:`NeuralSDE`), fitted to time series
(:class:`NSDEForecaster`) or tables (:class:`NSDERegressor`, :class:`NSDEClassifier`), and scored (:mod:`nsde.metrics`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import metrics
from ._core import Error, __version__
from ._layers import (
    ELU,
    GELU,
    Dropout,
    Exp,
    Identity,
    Layer,
    LeakyReLU,
    Linear,
    ReLU,
    Residual,
    Sigmoid,
    SiLU,
    Sin,
    Softplus,
    Tanh,
)
from ._model import GuardWarning, NeuralSDE, Prediction
from ._network import NetworkMoments, evaluate, moments

if TYPE_CHECKING:
    from ._forecast import Forecast
    from ._forecaster import NSDEForecaster
    from ._table import NSDEClassifier, NSDERegressor
    from ._training import Progress

__all__ = [
    "ELU",
    "Dropout",
    "Error",
    "Exp",
    "Forecast",
    "GELU",
    "GuardWarning",
    "Identity",
    "Layer",
    "LeakyReLU",
    "Linear",
    "NSDEClassifier",
    "NSDEForecaster",
    "NSDERegressor",
    "NetworkMoments",
    "NeuralSDE",
    "Prediction",
    "Progress",
    "ReLU",
    "Residual",
    "SiLU",
    "Sigmoid",
    "Sin",
    "Softplus",
    "Tanh",
    "__version__",
    "evaluate",
    "from_torch",
    "metrics",
    "moments",
]

from_torch = NeuralSDE.from_torch

# The estimators need scikit-learn, which takes a second to import: they wait until somebody asks.
_LATER = {
    "Forecast": "_forecast",
    "NSDEForecaster": "_forecaster",
    "NSDEClassifier": "_table",
    "NSDERegressor": "_table",
    "Progress": "_training",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
