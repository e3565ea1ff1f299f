"""BMM, Monte Carlo and torchsde in PyTorch, as one would write them for a batch; and our model file.

Shapes: a batch of `n` trajectories, state `D`, hidden width `H`. Moments are `mean [n, D]`, `cov [n, D, D]`.
"""

import json
import math
from pathlib import Path

import torch
import torchsde
from safetensors.torch import save_file
from torch import Tensor, nn

from configs import CONSTANT_SCALE, DT, INPUT, KEEP, Config

RHO_MAX = 1 - 1e-6  # the derivative of the paper's formula grows like 1/√(1−ρ²)
RHO_SERIES = 0.05  # below, quotients of the paper's formula are 0/0 and a series serves
VAR_MIN = 1e-12  # smallest variance that is divided by


def normal_cdf(z: Tensor) -> Tensor:
    """Φ, accurate in the left tail."""
    return 0.5 * torch.erfc(z * -math.sqrt(0.5))


def relu_dropout(mean: Tensor, cov: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and covariance behind ReLU and dropout by the paper's formula, and the diagonal of the Jacobian.

    Cov = σ_iσ_j ρ (Φ_iΦ_j + g/2π · exp(−q)), g = asin ρ − ρ/(1+ρ̄), ρ̄ = √(1−ρ²),
    q = ρ (α_i² + α_j²)/(2g(1+ρ̄)) − (asin ρ − ρ) α_iα_j/(gρ), and the exact variance on the diagonal.
    """
    var = torch.diagonal(cov, dim1=-2, dim2=-1).clamp_min(VAR_MIN)
    sd = var.sqrt()
    a = mean / sd
    up = normal_cdf(a)
    soft = torch.exp(-0.5 * a * a) / math.sqrt(2 * math.pi) + a * up
    rho = (cov / (sd.unsqueeze(-1) * sd.unsqueeze(-2))).clamp(-RHO_MAX, RHO_MAX)
    bar = ((1 - rho) * (1 + rho)).sqrt()
    u = rho / (1 + bar)
    angle = 2 * torch.atan(u)  # asin ρ
    g = angle - u
    small = rho.abs() < RHO_SERIES
    g_safe = torch.where(small, 1.0, g)
    rho_safe = torch.where(small, 1.0, rho)
    squares = torch.where(small, 0.5 + u * u / 3, 0.5 * u / g_safe)
    product = torch.where(small, rho * (1 / 3 + 11 / 90 * rho * rho), (angle - rho) / (g_safe * rho_safe))
    a2 = a * a
    q = squares * (a2.unsqueeze(-1) + a2.unsqueeze(-2)) - product * (a.unsqueeze(-1) * a.unsqueeze(-2))
    out = cov * (up.unsqueeze(-1) * up.unsqueeze(-2) + g * torch.exp(-q) / (2 * math.pi))
    out_mean = sd * soft
    out_var = var * (up + a * soft - soft * soft)
    out_var = out_var + (1 - KEEP) / KEEP * (out_var + out_mean * out_mean)
    return out_mean, torch.diagonal_scatter(out, out_var, dim1=-2, dim2=-1), up


def perceptron(widths: tuple[int, ...]) -> nn.Sequential:
    """Linear layers with ReLU and dropout between them."""
    layers: list[nn.Module] = []
    for n, m in zip(widths, widths[1:]):
        layers += [nn.Linear(n, m), nn.ReLU(), nn.Dropout(1 - KEEP)]
    return nn.Sequential(*layers[:-2])


class Sde(nn.Module):
    """Drift and diffusion of one configuration, and the ways to carry a distribution over a step."""

    noise_type = "diagonal"  # these two are for torchsde
    sde_type = "ito"

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.config = c
        self.drift = perceptron((c.dim + c.inputs, *c.drift, c.dim))
        if c.diffusion is None:
            self.scale = nn.Parameter(torch.full((c.dim,), CONSTANT_SCALE))
        else:
            self.diffusion = perceptron((c.dim + c.inputs, *c.diffusion, c.dim))

    def first(self, net: nn.Sequential, mean: Tensor, cov: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moments behind the first layer, which also reads the control inputs, and its Jacobian."""
        c, layer = self.config, net[0]
        w = layer.weight[:, : c.dim]
        bias = layer.bias + layer.weight[:, c.dim :].sum(1) * INPUT if c.inputs else layer.bias
        return mean @ w.T + bias, w @ cov @ w.T, w

    def drift_moments(self, mean: Tensor, cov: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`E[f]`, `Cov[f]` and `E[∂f/∂x]`."""
        a, b, jac = self.first(self.drift, mean, cov)
        for layer in list(self.drift)[3::3]:
            a, b, up = relu_dropout(a, b)
            w = layer.weight
            a, b, jac = a @ w.T + layer.bias, w @ b @ w.T, w @ (up.unsqueeze(-1) * jac)
        return a, b, jac

    def noise(self, mean: Tensor, cov: Tensor) -> Tensor:
        """The diagonal of `E[L Lᵀ]`; of the last covariance only the diagonal is formed."""
        if self.config.diffusion is None:
            return (self.scale**2).expand_as(mean)
        layers = list(self.diffusion)[3::3]
        a, b, _ = self.first(self.diffusion, mean, cov)
        for layer in layers[:-1]:
            a, b, _ = relu_dropout(a, b)
            a, b = a @ layer.weight.T + layer.bias, layer.weight @ b @ layer.weight.T
        a, b, _ = relu_dropout(a, b)
        w = layers[-1].weight
        return ((w @ b) * w).sum(-1) + (a @ w.T + layers[-1].bias) ** 2

    def step(self, mean: Tensor, cov: Tensor) -> tuple[Tensor, Tensor]:
        """One step of BMM: Σ' = Σ + Δt² B + Δt (JΣ + ΣJᵀ) + Δt Q."""
        a, b, jac = self.drift_moments(mean, cov)
        cross = jac @ cov
        cov_next = cov + DT**2 * b + DT * (cross + cross.mT) + DT * torch.diag_embed(self.noise(mean, cov))
        return mean + DT * a, cov_next

    def with_inputs(self, x: Tensor) -> Tensor:
        """`[x, u]`."""
        return nn.functional.pad(x, (0, self.config.inputs), value=INPUT)

    def f(self, _t: Tensor, x: Tensor) -> Tensor:
        """Drift at points, with a fresh dropout mask."""
        return self.drift(self.with_inputs(x))

    def g(self, _t: Tensor, x: Tensor) -> Tensor:
        """Diagonal of the diffusion at points, with a fresh dropout mask."""
        return self.scale.expand_as(x) if self.config.diffusion is None else self.diffusion(self.with_inputs(x))


def bmm(sde: Sde, step, mean: Tensor, cov: Tensor) -> tuple[Tensor, Tensor]:
    """Moments after every step, `[K, n, D]` and `[K, n, D, D]`; `step` is `sde.step`, perhaps compiled."""
    means, covs = [], []
    for _ in range(sde.config.steps):
        mean, cov = step(mean, cov)
        means.append(mean)
        covs.append(cov)
    return torch.stack(means), torch.stack(covs)


def sample_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance over the particles of `[..., particles, D]`."""
    mean = x.mean(-2)
    centred = x - mean.unsqueeze(-2)
    return mean, centred.mT @ centred / (x.shape[-2] - 1)


def monte_carlo(sde: Sde, particles: int, mean: Tensor, var: float) -> tuple[Tensor, Tensor]:
    """Moments after every step from Euler–Maruyama paths, masks and noise redrawn at every step."""
    now = torch.zeros(())
    x = mean.unsqueeze(1) + math.sqrt(var) * torch.randn(mean.shape[0], particles, mean.shape[1])
    path = []
    for _ in range(sde.config.steps):
        x = x + DT * sde.f(now, x) + math.sqrt(DT) * sde.g(now, x) * torch.randn_like(x)
        path.append(x)
    return sample_moments(torch.stack(path))


def torchsde_moments(sde: Sde, particles: int, mean: Tensor, var: float) -> tuple[Tensor, Tensor]:
    """The same through `torchsde.sdeint` with its Euler scheme."""
    n, d = mean.shape
    x = (mean.unsqueeze(1) + math.sqrt(var) * torch.randn(n, particles, d)).reshape(n * particles, d)
    times = torch.arange(sde.config.steps + 1) * DT
    path = torchsde.sdeint(sde, x, times, method="euler", dt=DT)
    return sample_moments(path[1:].reshape(-1, n, particles, d))


def objective(moments: tuple[Tensor, Tensor]) -> Tensor:
    """The scalar that both peers differentiate: the sum of all moments after the last step."""
    return moments[0][-1].sum() + moments[1][-1].sum()


def save_model(sde: Sde, path: Path) -> None:
    """Writes the model file of `nsde` (docs/model-file.md)."""
    c = sde.config

    def layers(net: nn.Sequential) -> list[dict]:
        kinds = {nn.ReLU: {"type": "relu"}, nn.Dropout: {"type": "dropout", "keep": KEEP}}
        return [
            {"type": "linear", "in": m.in_features, "out": m.out_features}
            if isinstance(m, nn.Linear)
            else kinds[type(m)]
            for m in net
        ]

    if c.diffusion is None:
        diffusion: dict = {"kind": "constant"}
    else:
        diffusion = {"kind": "diagonal", "inputs": c.inputs > 0, "layers": layers(sde.diffusion)}
    head = {"version": 1, "state": c.dim, "inputs": c.inputs, "dt": DT, "init_var": 0.1}
    head |= {"drift": layers(sde.drift), "diffusion": diffusion}
    tensors = {model_name(k): v.detach().contiguous() for k, v in sde.named_parameters()}
    save_file(tensors, path, metadata={"nsde": json.dumps(head)})


def model_name(parameter: str) -> str:
    """The name of a parameter in the model file."""
    return "diffusion.scale" if parameter == "scale" else parameter
