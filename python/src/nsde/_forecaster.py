"""Forecasting time series, in scikit-learn's conventions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._arrays import ArrayLike, FloatArray, floats
from ._core import Error
from ._forecast import Forecast, Rollout
from ._model import NeuralSDE
from ._options import SAMPLES, TERMS, Covariance, Method, Moments, Precision
from ._series import Data, Series, read
from ._training import ProgressOption, optimiser, seed_of, to_json, train


class NSDEForecaster(BaseEstimator):
    """Fits a neural SDE to one or many time series and forecasts their distribution.

    >>> import numpy as np, nsde
    >>> t = np.arange(200) * 0.1
    >>> model = nsde.NSDEForecaster(hidden=(16,), steps=50).fit(np.sin(t), t)
    >>> forecast = model.forecast(steps=5)
    >>> forecast.mean.shape
    (5, 1)
    >>> low, high = forecast.interval(0.9)
    >>> bool((low < high).all())
    True

    Parameters
    ----------
    hidden, noise_hidden:
        Widths of the hidden layers of drift and diffusion.
    activation:
        Activation of the hidden layers: ``"relu"``, ``"tanh"``, ``"softplus"``, …
    keep:
        Probability to keep a hidden unit; 1 for no dropout.
    diffusion:
        ``"diagonal"``, ``"full"``, ``"constant"`` or ``"none"``.
    horizon:
        Rows after the start of a training window; several for a curriculum; ``None``: ten, or what the data allow.
    steps, batch, rate, weight_decay:
        Updates, windows per update, peak learning rate, decoupled weight decay.
    validation, validate_every, patience:
        Share of the data held out at the end, updates between validations, and how many of them without
        improvement end the training (0: never).
    standardise:
        Whether the networks see standardised data.
    init_var, max_dt:
        Variance of a measured start; largest step (``None``: the median spacing).
    objective:
        ``"likelihood"``, or ``"squarederror"`` for a neural ODE.
    method, moments, covariance, precision:
        The solver, see :meth:`nsde.NeuralSDE.predict`.
    random_state:
        Seed of everything.
    progress:
        ``True`` for a bar of tqdm, a class like ``tqdm.tqdm``, or a function of :class:`nsde.Progress` that may
        return ``True`` to stop.
    """

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (50, 50),
        noise_hidden: Sequence[int] = (50,),
        activation: str = "relu",
        keep: float = 1.0,
        diffusion: str = "diagonal",
        horizon: int | Sequence[int] | None = None,
        steps: int = 3000,
        batch: int = 16,
        rate: float = 3e-3,
        weight_decay: float = 0.0,
        validation: float = 0.1,
        validate_every: int | None = None,
        patience: int = 0,
        standardise: bool = True,
        init_var: float = 1e-6,
        max_dt: float | None = None,
        objective: str = "likelihood",
        method: Method = "bmm",
        moments: Moments = "series",
        covariance: Covariance = "full",
        precision: Precision = "f64",
        random_state: int | np.random.RandomState | None = 0,
        progress: ProgressOption = None,
    ) -> None:
        self.hidden = hidden
        self.noise_hidden = noise_hidden
        self.activation = activation
        self.keep = keep
        self.diffusion = diffusion
        self.horizon = horizon
        self.steps = steps
        self.batch = batch
        self.rate = rate
        self.weight_decay = weight_decay
        self.validation = validation
        self.validate_every = validate_every
        self.patience = patience
        self.standardise = standardise
        self.init_var = init_var
        self.max_dt = max_dt
        self.objective = objective
        self.method: Method = method
        self.moments: Moments = moments
        self.covariance: Covariance = covariance
        self.precision: Precision = precision
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, t: Any = None, inputs: Any = None, *, series: str | None = None) -> NSDEForecaster:
        """Fits to ``X``: an array [rows, D], a DataFrame (pandas or polars), or a list of either.

        ``t`` are the times, numbers or stamps: arrays, or the name of a column; without it a pandas index of stamps,
        or 0, 1, 2, … ``inputs`` are control inputs: arrays [rows, U], or names of columns; row ``n`` acts between
        the times ``n`` and ``n + 1``. ``series`` is the column that tells series apart. NaN is what was not measured.

        Ctrl-C ends the training and keeps the best model so far.
        """
        data = read(X, t, inputs, series)
        horizon = [] if self.horizon is None else np.atleast_1d(np.asarray(self.horizon)).tolist()
        seed = seed_of(self.random_state)
        settings = {
            "networks": {
                "hidden": self.hidden,
                "noise_hidden": self.noise_hidden,
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
            "objective": self.objective,
            "horizon": horizon,
            "validation": self.validation,
            "standardise": self.standardise,
            "init_var": self.init_var,
            "max_dt": self.max_dt,
        }
        parts = [(s.times, s.values, s.inputs) for s in data.series]
        trainer = _core.forecast_trainer(parts, data.columns, data.input_columns, to_json(settings))
        self.interrupted_ = train(trainer, self.progress)
        self.model_ = NeuralSDE._wrap(trainer.model())
        self.history_ = trainer.history
        self.columns_, self.input_columns_ = data.columns, data.input_columns
        self.n_features_in_ = len(data.columns)
        self._clock, self._train, self._single = data.clock, data.series, data.single
        return self

    def _options(self, seed: int = 0) -> tuple[str, str, int, str, str, int, int]:
        # Monte Carlo in training has few particles: its gradients are noisy anyway.
        return (self.method, self.moments, TERMS, self.covariance, self.precision, 64, seed)

    def forecast(
        self,
        steps: int = 10,
        X: Any = None,
        t: Any = None,
        inputs: ArrayLike | None = None,
        *,
        dt: float | None = None,
        series: str | None = None,
        method: Method | None = None,
        samples: int = SAMPLES,
        seed: int = 0,
    ) -> Forecast:
        """Forecasts ``steps`` times ahead from the last row of each series in ``X``, or of the training data.

        Times are ``dt`` apart (without it, as far as in training). ``inputs`` are the future control inputs
        [steps, U], or [steps, series, U]: row 0 acts from the last row to the first forecast.
        """
        check_is_fitted(self, "model_")
        if X is None:
            past, single = self._train, self._single
        else:
            own = self.input_columns_ if self.input_columns_ and _has(X, self.input_columns_) else None
            data = self._read(X, t, own, series)
            past, single = data.series, data.single
        model = self.model_
        dt = model.dt if dt is None else float(dt)
        if not (math.isfinite(dt) and dt > 0.0):
            raise Error(f"dt: expected a positive number, found {dt}")
        # A spacing that is a whole number of steps up to rounding takes just that number.
        every = max(1, math.ceil(dt / model.dt - 1e-9))
        u = None
        if inputs is not None:
            u = floats("inputs", inputs)
            if len(u) != steps:
                raise Error(f"inputs: expected {steps} rows, one for each step, found {len(u)}")
            u = np.repeat(u[:, np.newaxis] if u.ndim == 1 else u, every, axis=0)
        starts = [self._start(n, s) for n, s in enumerate(past)]
        start = (np.stack([s[1] for s in starts]), np.stack([s[2] for s in starts]))
        moments = model.predict(
            start,
            steps * every,
            dt / every,
            u,
            method=self.method if method is None else method,
            moments=self.moments,
            covariance=self.covariance,
            precision=self.precision,
            samples=samples,
            seed=seed,
        )
        moments = type(moments)(moments.mean[every - 1 :: every], moments.cov[every - 1 :: every])
        times = np.array([s[0] for s in starts]) + dt * np.arange(1.0, steps + 1.0)[:, np.newaxis]
        rollout = Rollout(start, steps, dt, every, u)
        return Forecast(model, rollout, moments, times, past, self.columns_, self._clock, single)

    def _start(self, n: int, series: Series) -> tuple[float, FloatArray, FloatArray]:
        """Time, mean and covariance at the last row where anything was measured."""
        measured = np.flatnonzero(~np.isnan(series.values).all(axis=1))
        if not measured.size:
            raise Error(f"X: nothing was measured in series {n}")
        x = series.values[measured[-1]]
        # The best guess at what was not measured is what the training data were like.
        scaling = self.model_.scaling
        mean, std = (np.zeros_like(x), np.ones_like(x)) if scaling is None else scaling
        missing = np.isnan(x)
        variance = np.where(missing, std**2, self.model_.init_var)
        return float(series.times[measured[-1]]), np.where(missing, mean, x), np.diag(variance)

    def score(self, X: Any, t: Any = None, inputs: Any = None, *, series: str | None = None) -> float:
        """Mean log-likelihood per row of forecasts one row ahead: larger is better."""
        check_is_fitted(self, "model_")
        # Rows with the same time to the next one go together.
        gaps: dict[float, list[tuple[FloatArray, FloatArray, FloatArray, FloatArray]]] = {}
        for n, one in enumerate(self._read(X, t, inputs, series).series):
            seen = np.flatnonzero(~np.isnan(one.values).all(axis=1))
            for k in seen[:-1][np.diff(seen) == 1].tolist():
                here = Series(one.times[: k + 1], one.values[: k + 1], one.inputs[: k + 1])
                _, mean, cov = self._start(n, here)
                gap = float(f"{one.times[k + 1] - one.times[k]:.12g}")
                gaps.setdefault(gap, []).append((mean, cov, one.inputs[k], one.values[k + 1]))
        total, rows = 0.0, 0
        for gap, group in gaps.items():
            mean, cov, u, y = (np.stack(part) for part in zip(*group))
            every = max(1, math.ceil(gap / self.model_.dt - 1e-9))
            observed = np.full((every, *y.shape), np.nan)
            observed[-1] = y
            held = np.repeat(u[np.newaxis], every, axis=0) if self.model_.inputs else None
            total -= self.model_.nll((mean, cov), observed, gap / every, held) * len(group)
            rows += len(group)
        if rows == 0:
            raise Error("X: there are no two rows in succession to score")
        return total / rows

    def _read(self, X: Any, t: Any, inputs: Any, series: str | None) -> Data:
        """Data with the columns of training, in their order."""
        data = read(X, t, inputs, series, self._clock)
        if data.columns == self.columns_:
            return data
        if sorted(data.columns) == sorted(self.columns_):
            order = [data.columns.index(name) for name in self.columns_]
            data.series = [Series(s.times, np.ascontiguousarray(s.values[:, order]), s.inputs) for s in data.series]
        elif data.named or len(data.columns) != len(self.columns_):
            raise Error(f"X: expected the columns {self.columns_}, found {data.columns}")
        return data


def _has(X: Any, names: Sequence[str]) -> bool:
    """Whether a frame (or the first of many) has these columns."""
    first: Any = X[0] if isinstance(X, (list, tuple)) and X else X
    return hasattr(first, "columns") and all(name in [str(c) for c in first.columns] for name in names)
