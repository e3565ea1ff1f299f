"""PyTorch: modules as layers of :mod:`nsde`, and our kernels as a module of PyTorch.

:class:`BMM` runs the kernels of this package forward and their adjoints backward; the parameters are those of the
modules it was given, so that any optimiser, Lightning and ``DistributedDataParallel`` can train them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from . import _core, _layers
from ._arrays import FloatArray
from ._core import Error
from ._model import NeuralSDE
from ._options import SAMPLES, TERMS, Covariance, Method, Moments, Options, Precision

__all__ = ["BMM", "Exp", "Residual", "Sin", "layers"]


class Sin(nn.Module):
    """``sin h``, which PyTorch has no module for."""

    def forward(self, h: Tensor) -> Tensor:
        return torch.sin(h)


class Exp(nn.Module):
    """``eʰ``, which PyTorch has no module for."""

    def forward(self, h: Tensor) -> Tensor:
        return torch.exp(h)


class Residual(nn.Module):
    """``h + layers(h)``."""

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, h: Tensor) -> Tensor:
        return cast(Tensor, h + self.layers(h))


_PLAIN: dict[type, type[_layers.Layer]] = {
    nn.Identity: _layers.Identity,
    nn.ReLU: _layers.ReLU,
    nn.SiLU: _layers.SiLU,
    nn.Tanh: _layers.Tanh,
    nn.Sigmoid: _layers.Sigmoid,
    Sin: _layers.Sin,
    Exp: _layers.Exp,
}


def layers(module: nn.Module, name: str = "net") -> list[_layers.Layer]:
    """The same layers in :mod:`nsde`, with copies of the parameters.

    Dropout is a part of the model here, in training and after: ``module.eval()`` does not switch it off.
    """
    return [_layer(one, where) for one, where in _walk(module, name)]


def _walk(module: nn.Module, name: str) -> Iterator[tuple[nn.Module, str]]:
    """The layers of nested ``nn.Sequential``, one after the other."""
    if isinstance(module, nn.Sequential):
        for place, child in module.named_children():
            yield from _walk(child, f"{name}.{place}")
    else:
        yield module, name


def _layer(module: nn.Module, name: str) -> _layers.Layer:
    if isinstance(module, nn.Linear):
        bias = np.zeros(module.out_features) if module.bias is None else _numpy(module.bias)
        return _layers.Linear(module.in_features, module.out_features, weight=_numpy(module.weight), bias=bias)
    if isinstance(module, nn.Dropout):
        return _layers.Dropout(keep=1.0 - module.p)
    if isinstance(module, nn.LeakyReLU):
        return _layers.LeakyReLU(module.negative_slope)
    if isinstance(module, nn.ELU) and module.alpha == 1.0:
        return _layers.ELU()
    if isinstance(module, nn.GELU) and module.approximate == "none":
        return _layers.GELU()
    if isinstance(module, nn.Softplus) and module.beta == 1:
        return _layers.Softplus()
    if isinstance(module, Residual):
        return _layers.Residual(layers(module.layers, f"{name}.layers"))
    if type(module) in _PLAIN:
        return _PLAIN[type(module)]()
    known = "Linear, Dropout, Identity, ReLU, LeakyReLU, ELU(alpha=1), GELU(approximate='none'), SiLU, Tanh, Sigmoid"
    raise Error(
        f"{name}: {module} has no counterpart; there are nn.Sequential of {known}, Softplus(beta=1), "
        "and nsde.torch.Sin, Exp and Residual"
    )


def _numpy(tensor: Tensor) -> FloatArray:
    return tensor.detach().to(device="cpu", dtype=torch.float64).contiguous().numpy()


def _parameters(module: nn.Module, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Names in the model, and the parameters of the modules."""
    for place, (one, _) in enumerate(_walk(module, prefix)):
        if isinstance(one, nn.Linear):
            yield f"{prefix}.{place}.weight", one.weight
            if one.bias is not None:
                yield f"{prefix}.{place}.bias", one.bias
        elif isinstance(one, Residual):
            yield from _parameters(one.layers, f"{prefix}.{place}.layers")


class _Call(NamedTuple):
    """What one forward pass is about, beside its tensors."""

    model: NeuralSDE
    names: list[str]
    options: Options
    dts: FloatArray
    inputs: FloatArray | None


class _Rollout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, mean: Tensor, cov: Tensor | None, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        # A copy, so that threads and later passes do not disturb each other.
        core = call.model._inner.copy()
        core.set_parameters({name: _numpy(p) for name, p in zip(call.names, parameters)})
        arrays = (_numpy(mean), None if cov is None else _numpy(cov), call.dts, call.inputs)
        means, covs, acted = _core.predict(core, arrays, call.options)
        if any(acted):
            call.model._warn(acted, "bmm")
        ctx.call, ctx.core, ctx.has_cov = call, core, cov is not None
        ctx.save_for_backward(*([mean, cov] if cov is not None else [mean]), *parameters)
        return mean.new_tensor(means), mean.new_tensor(covs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *bars: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        call = cast(_Call, ctx.call)
        mean, *parameters = ctx.saved_tensors
        cov = parameters.pop(0) if ctx.has_cov else None
        arrays = (_numpy(mean), None if cov is None else _numpy(cov), call.dts, call.inputs)
        grads, mean_bar, cov_bar = _core.vjp(ctx.core, arrays, _numpy(bars[0]), _numpy(bars[1]), call.options)
        cov_grad = None
        if cov is not None:
            cov_grad = cov.new_tensor(cov_bar if cov.dim() == 3 else cov_bar.sum(axis=0))
        own = [p.new_tensor(grads[name]) for name, p in zip(call.names, parameters)]
        return (None, mean.new_tensor(mean_bar), cov_grad, *own)


class BMM(nn.Module):
    """Bidimensional moment matching as a module: from a start to means and covariances after each step.

    Gradients flow to the parameters of ``drift`` and ``diffusion``, to the start, and not to ``inputs``.

    >>> import torch, nsde.torch
    >>> drift = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    >>> diffusion = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Softplus())
    >>> bmm = nsde.torch.BMM(drift, diffusion, dt=0.1)
    >>> means, covs = bmm(torch.zeros(8, 2), steps=5)
    >>> means.shape, covs.shape
    (torch.Size([5, 8, 2]), torch.Size([5, 8, 2, 2]))
    >>> means.square().mean().backward()
    >>> drift[0].weight.grad.shape
    torch.Size([16, 2])
    """

    def __init__(
        self,
        drift: nn.Module,
        diffusion: nn.Module | None = None,
        *,
        dt: float = 1.0,
        init_var: float = 1e-6,
        method: Method = "bmm",
        moments: Moments = "series",
        terms: int = TERMS,
        covariance: Covariance = "full",
        precision: Precision = "f64",
        samples: int = SAMPLES,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.drift = drift
        self.diffusion = diffusion
        self.dt, self.init_var = dt, init_var
        self._options: Options = (method, moments, terms, covariance, precision, samples, seed)
        self._model = self.model()

    def model(self) -> NeuralSDE:
        """A model with copies of the parameters as they are now, to be saved."""
        return NeuralSDE.from_torch(self.drift, self.diffusion, dt=self.dt, init_var=self.init_var)

    def forward(
        self,
        mean: Tensor,
        cov: Tensor | None = None,
        *,
        steps: int,
        dt: Any = None,
        inputs: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Means [steps, batch, D] and covariances [steps, batch, D, D] from starts [batch, D] (and [batch, D, D])."""
        if inputs is not None and inputs.requires_grad:
            raise Error("inputs: there are no gradients with respect to control inputs; use inputs.detach()")
        if mean.dim() != 2 or mean.shape[1] != self._model.state:
            raise Error(f"mean: expected shape [batch, {self._model.state}], found {list(mean.shape)}")
        named = dict(_parameters(self.drift, "drift"))
        if self.diffusion is not None:
            named.update(_parameters(self.diffusion, "diffusion"))
        _, _, dts, u = self._model._batch(_numpy(mean), steps, dt, None if inputs is None else _numpy(inputs))
        call = _Call(self._model, list(named), self._options, dts, u)
        found = cast(Any, _Rollout).apply(call, mean, cov, *named.values())
        return cast("tuple[Tensor, Tensor]", found)
