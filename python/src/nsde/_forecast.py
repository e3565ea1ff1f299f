"""A forecast: the law of the state at each future time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from . import _core
from ._arrays import FloatArray
from ._core import Error
from ._model import NeuralSDE, Prediction
from ._series import Clock, Series

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Rollout:
    """How a forecast was made, so that paths can be drawn in the same way."""

    start: tuple[FloatArray, FloatArray]
    steps: int
    dt: float
    #: Steps of the model between two times of the forecast.
    every: int
    inputs: FloatArray | None


class Forecast:
    """Gaussians at future times.

    Arrays are [steps, D] for one series, [steps, series, D] for a list of series.
    """

    def __init__(
        self,
        model: NeuralSDE,
        rollout: Rollout,
        moments: Prediction,
        times: FloatArray,
        past: list[Series],
        columns: list[str],
        clock: Clock,
        single: bool,
    ) -> None:
        self._model, self._rollout, self._moments = model, rollout, moments
        self._times, self._past, self._clock, self._single = times, past, clock, single
        #: Names of the dimensions.
        self.columns = columns

    def __repr__(self) -> str:
        many = "" if self._single else f", series={len(self._past)}"
        return f"Forecast(steps={self._rollout.steps}{many}, columns={self.columns})"

    def _pick(self, array: FloatArray) -> FloatArray:
        return array[:, 0] if self._single else array

    @property
    def t(self) -> npt.NDArray[Any]:
        """The times: [steps], or [steps, series]; stamps if the data had stamps."""
        return self._clock.stamps(self._pick(self._times))

    @property
    def mean(self) -> FloatArray:
        """Means, [steps, D]."""
        return self._pick(self._moments.mean)

    @property
    def cov(self) -> FloatArray:
        """Covariances, [steps, D, D]."""
        return self._pick(self._moments.cov)

    @property
    def std(self) -> FloatArray:
        """Standard deviations, [steps, D]."""
        return self._pick(self._moments.std)

    def quantiles(self, levels: Iterable[float] = (0.05, 0.5, 0.95)) -> FloatArray:
        """Quantiles of each dimension, [levels, steps, D]."""
        found = []
        for level in levels:
            if not 0.0 < level < 1.0:
                raise Error(f"levels: expected numbers strictly between 0 and 1, found {level}")
            found.append(self.mean + _core.normal_quantile(level) * self.std)
        return np.stack(found)

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of the central interval of each dimension, [steps, D] each."""
        low, high = self.quantiles([0.5 * (1.0 - level), 0.5 * (1.0 + level)])
        return low, high

    def sample(self, samples: int = 100, *, seed: int = 0) -> FloatArray:
        """Paths of the SDE itself, [samples, steps, D]: not Gaussian, and correlated in time."""
        r = self._rollout
        paths = self._model.sample(
            r.start, r.steps * r.every, r.dt / r.every, r.inputs, samples=samples, seed=seed
        )[:, r.every - 1 :: r.every]
        return paths[:, :, 0] if self._single else paths

    def to_pandas(self, level: float = 0.9) -> pd.DataFrame:
        """A table with the mean, deviation and interval of each column, one row per time (and series)."""
        import pandas as pd

        low, high = (q.reshape(self._moments.mean.shape) for q in self.interval(level))
        frames = []
        for n in range(len(self._past)):
            columns: dict[str, FloatArray] = {}
            for i, name in enumerate(self.columns):
                columns[f"{name}_mean"] = self._moments.mean[:, n, i]
                columns[f"{name}_std"] = self._moments.std[:, n, i]
                columns[f"{name}_low"] = low[:, n, i]
                columns[f"{name}_high"] = high[:, n, i]
            index = pd.Index(self._clock.stamps(self._times[:, n]), name="t")
            frames.append(pd.DataFrame(columns, index=index))
        if self._single:
            return frames[0]
        return pd.concat(frames, keys=range(len(frames)), names=["series"])

    def plot(self, level: float = 0.9, *, series: int = 0, past: int = 50, axes: Any = None) -> Any:
        """Draws mean and central interval of each dimension behind the last ``past`` rows; needs matplotlib.

        Returns the axes, one per dimension.
        """
        import matplotlib.pyplot as plt

        d = len(self.columns)
        if axes is None:
            _, axes = plt.subplots(d, 1, sharex=True, figsize=(7, 1 + 2 * d), layout="constrained")
        axes = np.atleast_1d(axes)
        if len(axes) != d:
            raise Error(f"axes: expected {d}, one for each of {', '.join(self.columns)}, found {len(axes)}")
        low, high = (q.reshape(self._moments.mean.shape)[:, series] for q in self.interval(level))
        mean, before = self._moments.mean[:, series], self._past[series]
        t, t_before = self._clock.stamps(self._times[:, series]), self._clock.stamps(before.times[-past:])
        for i, ax in enumerate(axes):
            ax.plot(t_before, before.values[-past:, i], color="0.3", label="measured")
            ax.fill_between(t, low[:, i], high[:, i], alpha=0.3, linewidth=0, label=f"{level:.0%} interval")
            ax.plot(t, mean[:, i], label="mean")
            ax.set_ylabel(self.columns[i])
        axes[0].legend(loc="best", fontsize="small")
        axes[-1].set_xlabel("t")
        return cast(Any, axes)
