"""Models: a neural SDE ``dx = f(x, u) dt + L(x) dw`` with its step size and units."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, Union, cast

import numpy as np

from . import _core
from ._arrays import ArrayLike, FloatArray, Start, floats, shaped, start, units
from ._core import Error
from ._layers import Layer, from_specs, specs, widths
from ._options import SAMPLES, TERMS, Covariance, Method, Moments, Options, Precision

if TYPE_CHECKING:
    from torch import nn

#: Layers (a network), a constant ``L`` ([D] or lower-triangular [D, D]), or nothing.
Diffusion = Union[Sequence[Layer], FloatArray, None]

_Batch = tuple[FloatArray, Union[FloatArray, None], FloatArray, Union[FloatArray, None]]


class GuardWarning(UserWarning):
    """A guard changed a number: a variance was raised, an exponential cut, a pivot taken as zero."""


class Prediction(NamedTuple):
    """Moments after each step; unpacks into means and covariances."""

    #: Means, shape [steps, batch, D].
    mean: FloatArray
    #: Covariances, shape [steps, batch, D, D].
    cov: FloatArray

    @property
    def std(self) -> FloatArray:
        """Standard deviations, shape [steps, batch, D]."""
        variances = np.einsum("...ii->...i", self.cov)
        return cast(FloatArray, np.sqrt(np.maximum(variances, 0.0)))


class NeuralSDE:
    """A neural SDE ``dx = f(x, u) dt + L(x) dw``.

    ``drift`` reads the state and, if it is wider, the control inputs ``u``. ``diffusion`` is a network that gives the
    diagonal of ``L`` (or the rows of a lower-triangular one), a constant ``L`` as an array, or ``None``.

    With ``scaling = (mean, std)`` the networks see ``(x − mean)/std``; whatever goes in or comes out is in the units
    of the data.

    An Ornstein–Uhlenbeck process ``dx = −x dt + 0.5 dw`` and its law after 300 steps:

    >>> import numpy as np, nsde
    >>> ou = nsde.NeuralSDE([nsde.Linear(1, 1, weight=[[-1.0]], bias=[0.0])], [0.5], dt=0.01)
    >>> means, covs = ou.predict([2.0], steps=300)
    >>> means.shape, covs.shape
    ((300, 1, 1), (300, 1, 1, 1))
    >>> round(float(covs[-1, 0, 0, 0]), 3)  # stationary: 0.5² / 2
    0.125
    """

    _inner: _core.Model

    def __init__(
        self,
        drift: Sequence[Layer],
        diffusion: Sequence[Layer] | ArrayLike | None = None,
        *,
        dt: float = 1.0,
        init_var: float = 1e-6,
        scaling: tuple[ArrayLike, ArrayLike] | None = None,
        inputs_scaling: tuple[ArrayLike, ArrayLike] | None = None,
        columns: Sequence[str] | None = None,
        state: int | None = None,
    ) -> None:
        ends = widths(drift)
        if state is None:
            if ends is None:
                raise Error("drift: no layer tells the width of the state; give state=")
            state = ends[1]
        inputs = (ends[0] if ends is not None else state) - state
        if inputs < 0:
            raise Error(f"drift: expected at least {state} inputs (those of the state), found {state + inputs}")
        self._inner = _core.Model.build(
            state,
            inputs,
            specs("drift", drift),
            _diffusion(diffusion, state),
            float(dt),
            float(init_var),
            units("scaling", scaling, state),
            units("inputs_scaling", inputs_scaling, inputs),
            None if columns is None else [str(c) for c in columns],
        )

    @classmethod
    def _wrap(cls, core: _core.Model) -> NeuralSDE:
        model = cls.__new__(cls)
        model._inner = core
        return model

    @classmethod
    def from_torch(
        cls, drift: nn.Module, diffusion: nn.Module | ArrayLike | None = None, **settings: Any
    ) -> NeuralSDE:
        """The same networks as these PyTorch modules (``nn.Sequential`` of layers that :mod:`nsde` has).

        The parameters are copied; :class:`nsde.torch.BMM` shares them. ``settings`` are those of the constructor.
        """
        from .torch import layers

        own: Sequence[Layer] | ArrayLike | None
        if diffusion is None or isinstance(diffusion, (np.ndarray, list, tuple, float)):
            own = cast(Any, diffusion)
        else:
            own = layers(cast(Any, diffusion), "diffusion")
        return cls(layers(drift, "drift"), own, **settings)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> NeuralSDE:
        """Reads a model file, as :meth:`save` or the command line wrote it; of an ensemble its first member."""
        core = _core.Model.load(path)
        members = core.extra("members")
        if members not in (None, "1"):
            warnings.warn(f"{path}: an ensemble of {members}; its first member is used", UserWarning, stacklevel=2)
        return cls._wrap(core)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a model file that the command line ``nsde`` reads too."""
        self._inner.save(path)

    @classmethod
    def from_bytes(cls, data: bytes) -> NeuralSDE:
        """Reads the bytes of a model file."""
        return cls._wrap(_core.Model.from_bytes(data))

    def to_bytes(self) -> bytes:
        """The bytes of a model file."""
        return self._inner.to_bytes()

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self).from_bytes, (self.to_bytes(),))

    def __repr__(self) -> str:
        return f"NeuralSDE(state={self.state}, inputs={self.inputs}, parameters={self.parameter_count}, dt={self.dt:g})"

    @property
    def state(self) -> int:
        """Number of state dimensions ``D``."""
        return self._inner.state

    @property
    def inputs(self) -> int:
        """Number of control inputs ``U``."""
        return self._inner.inputs

    @property
    def dt(self) -> float:
        """The step size it was made for."""
        return self._inner.dt

    @property
    def init_var(self) -> float:
        """Variance of a start that is known as a point."""
        return self._inner.init_var

    @property
    def columns(self) -> list[str] | None:
        """Names of the state's dimensions; those of the inputs may follow."""
        return self._inner.columns

    @property
    def scaling(self) -> tuple[FloatArray, FloatArray] | None:
        """Mean and deviation of the state in training."""
        return self._inner.scaling

    @property
    def drift(self) -> list[Layer]:
        """The layers of the drift."""
        return from_specs(self._inner.drift)

    @property
    def diffusion(self) -> Diffusion:
        """The layers of the diffusion, or its constant ``L``, or ``None``."""
        found = self._inner.diffusion
        return from_specs(found) if isinstance(found, list) else found

    @property
    def info(self) -> dict[str, Any]:
        """What training wrote about itself into the model file."""
        text = self._inner.extra("training")
        return {} if text is None else cast("dict[str, Any]", json.loads(text))

    @property
    def parameters(self) -> dict[str, FloatArray]:
        """Copies of all parameters by name: ``drift.0.weight``, …; see :meth:`set_parameters`."""
        return self._inner.parameters()

    @property
    def parameter_count(self) -> int:
        """Number of parameters."""
        return sum(p.size for p in self.parameters.values())

    def set_parameters(self, parameters: Mapping[str, ArrayLike]) -> None:
        """Takes over the arrays that are given; the others stay.

        >>> import nsde
        >>> model = nsde.NeuralSDE([nsde.Linear(1, 1, seed=0)], [1.0])
        >>> model.set_parameters({"drift.0.weight": [[-2.0]]})
        >>> model.parameters["drift.0.weight"]
        array([[-2.]])
        """
        self._inner.set_parameters({name: floats(name, value) for name, value in parameters.items()})

    def predict(
        self,
        x0: Start,
        steps: int,
        dt: ArrayLike | None = None,
        inputs: ArrayLike | None = None,
        *,
        method: Method = "bmm",
        moments: Moments = "series",
        terms: int = TERMS,
        covariance: Covariance = "full",
        precision: Precision = "f64",
        samples: int = SAMPLES,
        seed: int = 0,
    ) -> Prediction:
        """Means [steps, batch, D] and covariances [steps, batch, D, D] after each step.

        ``x0`` is a point [D], points [batch, D], or ``(mean, cov)``. ``dt`` is a step size or one for each step
        [steps]; without it, that of the model. ``inputs`` are [steps, U], or [steps, batch, U].
        """
        options = (method, moments, terms, covariance, precision, samples, seed)
        means, covs, acted = _core.predict(self._inner, self._batch(x0, steps, dt, inputs), options)
        if any(acted) or method == "cubature":
            self._warn(acted, method)
        return Prediction(means, covs)

    def sample(
        self,
        x0: Start,
        steps: int,
        dt: ArrayLike | None = None,
        inputs: ArrayLike | None = None,
        *,
        samples: int = SAMPLES,
        seed: int = 0,
        precision: Precision = "f64",
    ) -> FloatArray:
        """Euler–Maruyama paths, shape [samples, steps, batch, D]; dropout masks are drawn anew at every step.

        >>> import nsde
        >>> ou = nsde.NeuralSDE([nsde.Linear(1, 1, weight=[[-1.0]], bias=[0.0])], [0.5], dt=0.01)
        >>> ou.sample([2.0], steps=10, samples=4).shape
        (4, 10, 1, 1)
        """
        options = ("mc", "series", TERMS, "full", precision, samples, seed)
        return _core.sample(self._inner, self._batch(x0, steps, dt, inputs), options)

    def nll(
        self,
        x0: Start,
        y: ArrayLike,
        dt: ArrayLike | None = None,
        inputs: ArrayLike | None = None,
        *,
        method: Method = "bmm",
        moments: Moments = "series",
        terms: int = TERMS,
        covariance: Covariance = "full",
        precision: Precision = "f64",
        samples: int = SAMPLES,
        seed: int = 0,
    ) -> float:
        """Negative log-likelihood of observations ``y``, [steps, D] or [steps, batch, D], one after each step.

        Summed over the dimensions and averaged over the rows; NaN is what was not observed.
        """
        options = (method, moments, terms, covariance, precision, samples, seed)
        arrays, y = self._observed(x0, y, dt, inputs)
        return _core.nll(self._inner, arrays, y, options)

    def nll_and_grad(
        self,
        x0: Start,
        y: ArrayLike,
        dt: ArrayLike | None = None,
        inputs: ArrayLike | None = None,
        *,
        method: Method = "bmm",
        moments: Moments = "series",
        terms: int = TERMS,
        covariance: Covariance = "full",
        precision: Precision = "f64",
        samples: int = SAMPLES,
        seed: int = 0,
    ) -> tuple[float, dict[str, FloatArray]]:
        """:meth:`nll` and its gradient in every parameter, by name.

        >>> import nsde
        >>> ou = nsde.NeuralSDE([nsde.Linear(1, 1, weight=[[-1.0]], bias=[0.0])], [0.5], dt=0.1)
        >>> value, grad = ou.nll_and_grad([2.0], [[1.7], [1.6]])
        >>> sorted(grad)
        ['diffusion.scale', 'drift.0.bias', 'drift.0.weight']
        """
        options: Options = (method, moments, terms, covariance, precision, samples, seed)
        arrays, y = self._observed(x0, y, dt, inputs)
        return _core.nll_and_grad(self._inner, arrays, y, options)

    def _observed(
        self, x0: Start, y: ArrayLike, dt: ArrayLike | None, inputs: ArrayLike | None
    ) -> tuple[_Batch, FloatArray]:
        y = floats("y", y)
        if y.ndim == 2:
            y = y[:, np.newaxis, :]
        if y.ndim != 3:
            raise Error(f"y: expected shape [steps, D] or [steps, batch, D], found {list(y.shape)}")
        return self._batch(x0, len(y), dt, inputs), y

    def _batch(self, x0: Start, steps: int, dt: ArrayLike | None, inputs: ArrayLike | None) -> _Batch:
        """Arrays for the Rust side, which checks their shapes against the model."""
        mean, cov = start(x0)
        if steps < 1:
            raise Error(f"steps: expected at least 1, found {steps}")
        if dt is None or isinstance(dt, (int, float)):
            dts = np.full(steps, self._inner.dt if dt is None else dt, dtype=np.float64)
        else:
            dts = floats("dt", dt)
            dts = np.full(steps, dts) if dts.ndim == 0 else shaped("dt", dts, (steps,))
        return mean, cov, dts, None if inputs is None else floats("inputs", inputs)

    def _warn(self, acted: tuple[int, int, int], method: Method) -> None:
        if any(acted):
            raised, clamped, zero = acted
            warnings.warn(
                f"guards acted: {raised} variances raised, {clamped} exponentials cut, {zero} zero pivots",
                GuardWarning,
                stacklevel=3,
            )
        if method == "cubature" and self._inner.has_dropout:
            warnings.warn(
                "dropout acts as the identity under 'cubature'; 'bmm' and 'mc' carry its noise",
                UserWarning,
                stacklevel=3,
            )


def _diffusion(
    given: Sequence[Layer] | ArrayLike | None, state: int
) -> None | FloatArray | tuple[int, list[tuple[Any, ...]]]:
    if given is None:
        return None
    if isinstance(given, (list, tuple)) and given and isinstance(given[0], Layer):
        net = cast(Sequence[Layer], given)
        ends = widths(net)
        return (state if ends is None else ends[0], specs("diffusion", net))
    scale = floats("diffusion", cast(Any, given))
    if scale.ndim not in (1, 2):
        raise Error(f"diffusion: expected layers, or a constant of shape [D] or [D, D], found {list(scale.shape)}")
    return scale
