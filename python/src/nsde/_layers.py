"""The layers of a network, named as PyTorch names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ._arrays import ArrayLike, FloatArray, shaped
from ._core import Error


class Layer:
    """One layer of a network. Those without parameters compare equal to their like."""

    #: Name in the model file.
    kind: str = ""

    def _arguments(self) -> tuple[Any, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layer) and self.kind == other.kind and self._arguments() == other._arguments()

    def __hash__(self) -> int:
        return hash((self.kind, len(self._arguments())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(a) for a in self._arguments())})"

    def _spec(self) -> tuple[Any, ...]:
        return (self.kind, *self._arguments())


class Linear(Layer):
    """``W h + b``. Without ``weight`` and ``bias`` both are uniform in ``±1/√in``, as in PyTorch.

    >>> Linear(2, 3, seed=0).weight.shape
    (3, 2)
    >>> Linear(1, 1, weight=[[-1.0]], bias=[0.0])
    Linear(1, 1)
    """

    kind = "linear"

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        weight: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        if in_features < 1 or out_features < 1:
            raise Error(f"Linear: expected positive widths, found {in_features} and {out_features}")
        self.in_features = in_features
        self.out_features = out_features
        rng, bound = np.random.default_rng(seed), in_features**-0.5
        if weight is None:
            weight = rng.uniform(-bound, bound, (out_features, in_features))
        if bias is None:
            bias = rng.uniform(-bound, bound, out_features)
        #: ``W``, shape [out_features, in_features].
        self.weight: FloatArray = shaped("weight", weight, (out_features, in_features))
        #: ``b``, shape [out_features].
        self.bias: FloatArray = shaped("bias", bias, (out_features,))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Linear)
            and np.array_equal(self.weight, other.weight)
            and np.array_equal(self.bias, other.bias)
        )

    __hash__ = Layer.__hash__

    def __repr__(self) -> str:
        return f"Linear({self.in_features}, {self.out_features})"

    def _arguments(self) -> tuple[Any, ...]:
        return (self.weight, self.bias)


class Dropout(Layer):
    """``h ⊙ β / keep`` with fresh Bernoulli(``keep``) masks at every step; a dropout *rate* is ``1 − keep``.

    >>> Dropout(keep=0.8)
    Dropout(0.8)
    """

    kind = "dropout"

    def __init__(self, keep: float) -> None:
        self.keep = float(keep)

    def _arguments(self) -> tuple[Any, ...]:
        return (self.keep,)


class Identity(Layer):
    """``h``."""

    kind = "identity"


class ReLU(Layer):
    """``max(0, h)``."""

    kind = "relu"


class LeakyReLU(Layer):
    """``h`` above zero, ``slope·h`` below."""

    kind = "leaky_relu"

    def __init__(self, slope: float = 0.01) -> None:
        self.slope = float(slope)

    def _arguments(self) -> tuple[Any, ...]:
        return (self.slope,)


class ELU(Layer):
    """``h`` above zero, ``eʰ − 1`` below."""

    kind = "elu"


class GELU(Layer):
    """``h Φ(h)``, the exact one."""

    kind = "gelu"


class SiLU(Layer):
    """``h / (1 + e^{−h})``."""

    kind = "silu"


class Tanh(Layer):
    """``tanh h``."""

    kind = "tanh"


class Sigmoid(Layer):
    """``1 / (1 + e^{−h})``."""

    kind = "sigmoid"


class Softplus(Layer):
    """``ln(1 + eʰ)``."""

    kind = "softplus"


class Sin(Layer):
    """``sin h``."""

    kind = "sin"


class Exp(Layer):
    """``eʰ``."""

    kind = "exp"


class Residual(Layer):
    """``h + layers(h)``.

    >>> Residual([Linear(2, 2, seed=0), Tanh()])
    Residual([Linear(2, 2), Tanh()])
    """

    kind = "residual"

    def __init__(self, layers: Iterable[Layer]) -> None:
        self.layers: list[Layer] = list(layers)

    def _arguments(self) -> tuple[Any, ...]:
        return (self.layers,)

    def _spec(self) -> tuple[Any, ...]:
        return (self.kind, specs("residual", self.layers))


_PLAIN: dict[str, type[Layer]] = {
    c.kind: c for c in (Identity, ReLU, ELU, GELU, SiLU, Tanh, Sigmoid, Softplus, Sin, Exp)
}


def specs(name: str, layers: Sequence[Layer]) -> list[tuple[Any, ...]]:
    """Layers as the Rust side reads them."""
    for place, layer in enumerate(layers):
        if not isinstance(layer, Layer):
            found = type(layer).__name__
            raise Error(f"{name}.{place}: expected a layer such as nsde.Linear or nsde.ReLU, found {found}")
    return [layer._spec() for layer in layers]


def from_specs(given: Sequence[tuple[Any, ...]]) -> list[Layer]:
    """Undoes :func:`specs`."""
    return [_from_spec(spec) for spec in given]


def _from_spec(spec: tuple[Any, ...]) -> Layer:
    kind = spec[0]
    if kind == "linear":
        out, width = spec[1].shape
        return Linear(width, out, weight=spec[1], bias=spec[2])
    if kind == "dropout":
        return Dropout(spec[1])
    if kind == "leaky_relu":
        return LeakyReLU(spec[1])
    if kind == "residual":
        return Residual(from_specs(spec[1]))
    return _PLAIN[kind]()


def widths(layers: Iterable[Layer]) -> tuple[int, int] | None:
    """Number of inputs and outputs, as the linear layers tell; ``None`` if there are none."""
    found: tuple[int, int] | None = None
    for layer in layers:
        ends = None
        if isinstance(layer, Linear):
            ends = (layer.in_features, layer.out_features)
        elif isinstance(layer, Residual):
            ends = widths(layer.layers)
        if ends is not None:
            found = (ends[0] if found is None else found[0], ends[1])
    return found
