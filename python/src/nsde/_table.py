"""Regression and classification with an SDE as a layer, in scikit-learn's conventions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _core, metrics
from ._arrays import ArrayLike, FloatArray
from ._core import Error
from ._model import NeuralSDE
from ._options import TERMS, Covariance, Method, Moments, Precision
from ._training import ProgressOption, optimiser, seed_of, to_json, train


class _TableEstimator(BaseEstimator):
    """What regression and classification share."""

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (40,),
        latent: int | None = None,
        flow_steps: int = 8,
        flow_dt: float = 0.5,
        activation: str = "relu",
        keep: float = 0.9,
        diffusion: str = "diagonal",
        steps: int = 1500,
        batch: int = 32,
        rate: float = 0.01,
        weight_decay: float = 0.0,
        validation: float = 0.1,
        validate_every: int | None = None,
        patience: int = 0,
        method: Method = "bmm",
        moments: Moments = "series",
        covariance: Covariance = "full",
        precision: Precision = "f64",
        random_state: int | np.random.RandomState | None = 0,
        progress: ProgressOption = None,
    ) -> None:
        self.hidden = hidden
        self.latent = latent
        self.flow_steps = flow_steps
        self.flow_dt = flow_dt
        self.activation = activation
        self.keep = keep
        self.diffusion = diffusion
        self.steps = steps
        self.batch = batch
        self.rate = rate
        self.weight_decay = weight_decay
        self.validation = validation
        self.validate_every = validate_every
        self.patience = patience
        self.method = method
        self.moments = moments
        self.covariance = covariance
        self.precision = precision
        self.random_state = random_state
        self.progress = progress

    def _settings(self, seed: int) -> str:
        return to_json(
            {
                "networks": {
                    "hidden": self.hidden,
                    "noise_hidden": self.hidden,
                    "activation": self.activation,
                    "keep": self.keep,
                    "diffusion": self.diffusion,
                },
                "optimiser": optimiser(
                    steps=self.steps,
                    batch=self.batch,
                    rate=self.rate,
                    weight_decay=self.weight_decay,
                    patience=self.patience,
                    validate_every=self.validate_every,
                    seed=seed,
                ),
                "solver": self._options(seed),
                "latent": self.latent,
                "flow_steps": self.flow_steps,
                "flow_dt": self.flow_dt,
            }
        )

    def _options(self, seed: int = 0) -> tuple[str, str, int, str, str, int, int]:
        return (self.method, self.moments, TERMS, self.covariance, self.precision, 64, seed)

    def _held_out(self, rows: int, seed: int) -> npt.NDArray[np.intp]:
        """Rows for validation; a handful of examples has none to spare."""
        if not 0.0 <= self.validation < 1.0:
            raise Error(f"validation: expected a share in [0, 1), found {self.validation}")
        if self.validation == 0.0 or rows < 10:
            return np.zeros(0, dtype=np.intp)
        count = max(1, round(self.validation * rows))
        return np.sort(np.random.default_rng(seed).choice(rows, count, replace=False))

    def _scale_features(self, X: FloatArray, held_out: npt.NDArray[np.intp]) -> FloatArray:
        self._x_mean, self._x_std = _scaling(np.delete(X, held_out, axis=0))
        return self._scaled(X)

    def _scaled(self, X: FloatArray) -> FloatArray:
        return np.ascontiguousarray((X - self._x_mean) / self._x_std)

    def _checked(self, X: Any) -> FloatArray:
        check_is_fitted(self, "model_")
        return self._scaled(cast(FloatArray, validate_data(self, X, dtype=np.float64, reset=False)))

    def _finish(self, trainer: _core.Trainer, about: dict[str, Any]) -> None:
        self.interrupted_ = train(trainer, self.progress)
        core = trainer.model()
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{i}" for i in range(len(self._x_mean))]
        table = {
            **about,
            "features": [str(name) for name in names],
            "feature_mean": self._x_mean,
            "feature_std": self._x_std,
        }
        # So that the command line can use the model too.
        core.set_extra("table", to_json(table))
        #: The fitted SDE, its head and its units, as a model file holds them.
        self.model_ = NeuralSDE._wrap(core)
        self.history_ = trainer.history
        self.n_iter_ = trainer.step


class NSDERegressor(RegressorMixin, _TableEstimator):
    """Regression with a predictive distribution: features flow through a neural SDE, a linear head reads its end.

    >>> import numpy as np, nsde
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> model = nsde.NSDERegressor(steps=200).fit(X, X[:, 0] ** 2)
    >>> mean, std = model.predict(X, return_std=True)
    >>> mean.shape, std.shape
    ((100,), (100,))

    Parameters are those of :class:`NSDEForecaster` where they have the same name; ``latent`` is the number of
    dimensions of the SDE (``None``: as many as features), ``flow_steps`` and ``flow_dt`` are its depth.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> NSDERegressor:
        """Fits to features [N, F] and targets [N] or [N, O]; Ctrl-C keeps the best model so far."""
        names = _target_names(y)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        self._flat = y.ndim == 1
        targets = y.reshape(len(y), -1)
        seed = seed_of(self.random_state)
        held_out = self._held_out(len(y), seed)
        features = self._scale_features(X, held_out)
        self._y_mean, self._y_std = _scaling(np.delete(targets, held_out, axis=0))
        scaled = np.ascontiguousarray((targets - self._y_mean) / self._y_std)
        trainer = _core.regression_trainer(features, scaled, held_out.tolist(), self._settings(seed))
        if names is None or len(names) != targets.shape[1]:
            names = ["y"] if self._flat else [f"y{i}" for i in range(targets.shape[1])]
        about = {"kind": "regression", "targets": names, "target_mean": self._y_mean, "target_std": self._y_std}
        self._finish(trainer, about)
        return self

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> Union[FloatArray, tuple[FloatArray, FloatArray]]:
        """Means of the targets; with ``return_std`` or ``return_cov`` also their deviations or covariances."""
        mean, cov = self._laws(X)
        flat = mean[:, 0] if self._flat else mean
        if return_cov:
            return flat, cov
        if return_std:
            std = np.sqrt(np.einsum("nii->ni", cov))
            return flat, std[:, 0] if self._flat else std
        return flat

    def nll(self, X: Any, y: ArrayLike) -> float:
        """Mean negative log-likelihood of targets, in their units."""
        mean, cov = self._laws(X)
        return metrics.nll(mean, cov, np.asarray(y, dtype=np.float64).reshape(mean.shape))

    def _laws(self, X: Any) -> tuple[FloatArray, FloatArray]:
        features = self._checked(X)
        mean, cov = _core.regress(self.model_._inner, features, self._options())
        units = self._y_std[:, np.newaxis] * self._y_std
        return self._y_mean + self._y_std * mean, cov * units


class NSDEClassifier(ClassifierMixin, _TableEstimator):
    """Classification: features flow through a neural SDE, the expected softmax of its end gives the probabilities.

    >>> import numpy as np, nsde
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 10)
    >>> y = np.array(["no", "yes", "yes", "no"] * 10)
    >>> model = nsde.NSDEClassifier(steps=100).fit(X, y)
    >>> model.predict_proba(X).shape
    (40, 2)

    Parameters as in :class:`NSDERegressor`.
    """

    def fit(self, X: Any, y: Any) -> NSDEClassifier:
        """Fits to features [N, F] and one label each; Ctrl-C keeps the best model so far."""
        label = _target_names(y)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        #: The labels, in the order of :meth:`predict_proba`.
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise Error(f"y: expected at least two classes, found one class only: {self.classes_[0]!r}")
        seed = seed_of(self.random_state)
        held_out = self._held_out(len(labels), seed)
        features = self._scale_features(X, held_out)
        trainer = _core.classification_trainer(
            features,
            labels.astype(np.int64),
            len(self.classes_),
            held_out.tolist(),
            self._settings(seed),
        )
        classes = [str(c) for c in self.classes_]
        self._finish(trainer, {"kind": "classification", "label": (label or ["y"])[0], "classes": classes})
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes, [N, classes]."""
        features = self._checked(X)
        return _core.classify(self.model_._inner, features, self._options())

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return cast("npt.NDArray[Any]", self.classes_[best])


def _scaling(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of the columns; a constant column has deviation one."""
    mean, std = values.mean(axis=0), values.std(axis=0)
    return mean, np.where(std > 1e-12 * np.abs(mean), np.where(std > 0.0, std, 1.0), 1.0)


def _target_names(y: Any) -> list[str] | None:
    if hasattr(y, "columns"):
        return [str(c) for c in y.columns]
    name = getattr(y, "name", None)
    return [name] if isinstance(name, str) and name else None
