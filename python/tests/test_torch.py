"""PyTorch: modules as models, our kernels as a module."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

import nsde
import nsde.torch

pytestmark = pytest.mark.torch


def networks(dropout: float = 0.0) -> tuple[nn.Sequential, nn.Sequential]:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(12, 12), nn.SiLU())
    drift = nn.Sequential(
        nn.Sequential(nn.Linear(3, 12), nn.Tanh()),
        nn.Dropout(dropout) if dropout else nn.Identity(),
        nsde.torch.Residual(inner),
        nn.Linear(12, 2, bias=False),
    )
    diffusion = nn.Sequential(nn.Linear(2, 8), nn.GELU(), nn.Linear(8, 2), nn.Softplus())
    return drift.double(), diffusion.double()


@pytest.mark.parametrize(
    "activation",
    [nn.ReLU(), nn.LeakyReLU(0.1), nn.ELU(), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Sigmoid(), nn.Softplus(), nn.Identity()]
    + [nsde.torch.Sin(), nsde.torch.Exp()],
    ids=lambda a: type(a).__name__,
)
def test_points_agree_with_pytorch(activation: nn.Module) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(3, 20), activation, nn.Linear(20, 3)).double()
    x = torch.randn(50, 3, dtype=torch.float64)
    own = nsde.torch.layers(net)
    np.testing.assert_allclose(nsde.evaluate(own, x.numpy()), net(x).detach().numpy(), rtol=1e-6, atol=1e-8)
    at_points = np.stack([nsde.moments(own, p, np.zeros((3, 3))).mean for p in x.numpy()])
    np.testing.assert_allclose(at_points, net(x).detach().numpy(), rtol=1e-6, atol=1e-8)


def test_moments_agree_with_monte_carlo_through_pytorch() -> None:
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2)).double()
    root = torch.tensor([[0.7, 0.0], [0.3, 0.4]], dtype=torch.float64)
    mean = torch.tensor([0.2, -0.5], dtype=torch.float64)
    n = 400_000
    with torch.no_grad():
        y = net.train()(mean + torch.randn(n, 2, dtype=torch.float64) @ root.T).numpy()
    own = nsde.moments(nsde.torch.layers(net), mean.numpy(), (root @ root.T).numpy())
    spread = np.sqrt(np.diag(own.cov))
    assert (np.abs(own.mean - y.mean(axis=0)) < 5 * spread / np.sqrt(n)).all()
    # The covariance of the series is good to a few per mille of the variances.
    np.testing.assert_allclose(own.cov, np.cov(y.T), atol=0.01 * float(np.max(spread**2)))


def test_a_whole_rollout_agrees_with_monte_carlo_through_pytorch() -> None:
    drift, diffusion = networks(dropout=0.1)
    model = nsde.from_torch(drift, diffusion, dt=0.1)
    n, steps = 100_000, 5
    u = torch.linspace(-1, 1, steps, dtype=torch.float64)
    torch.manual_seed(3)
    with torch.no_grad():
        x = torch.zeros(n, 2, dtype=torch.float64)
        for k in range(steps):
            inputs = torch.cat([x, u[k].expand(n, 1)], dim=1)
            x = x + 0.1 * drift.train()(inputs) + 0.1**0.5 * diffusion(x) * torch.randn_like(x)
    laws = model.predict(([0.0, 0.0], np.zeros((2, 2))), steps, inputs=u.numpy()[:, None])
    assert (np.abs(laws.mean[-1, 0] - x.mean(dim=0).numpy()) < 6 * laws.std[-1, 0] / n**0.5 + 2e-3).all()
    np.testing.assert_allclose(laws.cov[-1, 0], np.cov(x.numpy().T), atol=0.02 * laws.cov[-1, 0].max())


def test_gradients_reach_parameters_and_starts() -> None:
    drift, diffusion = networks(dropout=0.2)
    bmm = nsde.torch.BMM(drift, diffusion, dt=0.1)
    torch.manual_seed(4)
    mean = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    root = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    inputs = torch.randn(4, 1, dtype=torch.float64)
    weights = torch.randn(4, 3, 2, dtype=torch.float64), torch.randn(4, 3, 2, 2, dtype=torch.float64)

    def loss() -> Tensor:
        means, covs = bmm(mean, root @ root.transpose(1, 2), steps=4, inputs=inputs)
        return (weights[0] * means).sum() + (weights[1] * covs).sum() + torch.logdet(covs).sum()

    leaves = [mean, root, *bmm.parameters()]
    loss().backward()
    grads = [cast(Tensor, leaf.grad).clone() for leaf in leaves]
    directions = [torch.randn_like(leaf) for leaf in leaves]

    def along(eps: float) -> float:
        with torch.no_grad():
            for leaf, direction in zip(leaves, directions):
                leaf.add_(eps * direction)
            value = float(loss().item())
            for leaf, direction in zip(leaves, directions):
                leaf.sub_(eps * direction)
        return value

    slope = (along(1e-5) - along(-1e-5)) / 2e-5
    pulled = sum((g * d).sum().item() for g, d in zip(grads, directions))
    assert slope == pytest.approx(pulled, rel=1e-6)


def test_it_sits_inside_a_larger_model_and_learns() -> None:
    torch.manual_seed(5)
    drift = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    diffusion = nn.Sequential(nn.Linear(2, 2), nn.Softplus())

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.flow = nn.Linear(3, 2), nsde.torch.BMM(drift, diffusion, dt=0.2, precision="f32")
            self.decode = nn.Linear(2, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            means, covs = self.flow(self.encode(x), steps=5)
            w = self.decode.weight
            return self.decode(means[-1])[:, 0], (w @ covs[-1] @ w.T)[:, 0, 0]

    x = torch.randn(64, 3)
    y = x.prod(dim=1)
    net = copy.deepcopy(Net())
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        mean, var = net(x)
        loss = nn.functional.gaussian_nll_loss(mean, y, var)
        cast(Any, loss).backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.2
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in net.parameters())
    assert set(net.state_dict()) == {n for n, _ in net.named_parameters()}
    model = net.flow.model()
    assert np.allclose(model.parameters["drift.0.weight"], cast(Any, net.flow.drift)[0].weight.detach().numpy())


def worker(rank: int, world: int, path: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=path.rsplit("-", 1)[1])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    try:
        drift, diffusion = networks()
        ddp = nn.parallel.DistributedDataParallel(nsde.torch.BMM(drift, diffusion, dt=0.1))
        x, u = batch()
        half = slice(rank * 4, rank * 4 + 4)
        means, covs = ddp(x[half], steps=3, inputs=u[:, half])
        (means.square().mean() + torch.logdet(covs).mean()).backward()
        if rank == 0:
            torch.save([p.grad for p in ddp.parameters()], path)
    finally:
        dist.destroy_process_group()


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(8, 2, dtype=torch.float64, generator=generator)
    return x, torch.randn(3, 8, 1, dtype=torch.float64, generator=generator)


def test_two_processes_have_the_gradients_of_one(tmp_path: Path) -> None:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    path = str(tmp_path / f"grads-{port}")
    cast(Any, mp).spawn(worker, args=(2, path), nprocs=2)
    bmm = nsde.torch.BMM(*networks(), dt=0.1)
    x, u = batch()
    means, covs = bmm(x, steps=3, inputs=u)
    (means.square().mean() + torch.logdet(covs).mean()).backward()
    for found, alone in zip(torch.load(path), bmm.parameters()):
        torch.testing.assert_close(found, alone.grad, rtol=1e-10, atol=1e-12)


def test_errors_say_what_was_expected() -> None:
    with pytest.raises(nsde.Error, match=r"drift\.1: Conv1d.* has no counterpart"):
        nsde.from_torch(nn.Sequential(nn.Linear(2, 2), nn.Conv1d(1, 1, 1)))
    with pytest.raises(nsde.Error, match="has no counterpart"):
        nsde.from_torch(nn.Sequential(nn.Linear(2, 2), nn.GELU(approximate="tanh")))
    bmm = nsde.torch.BMM(*networks())
    with pytest.raises(nsde.Error, match=r"mean: expected shape \[batch, 2\], found \[4, 3\]"):
        bmm(torch.zeros(4, 3), steps=1)
    with pytest.raises(nsde.Error, match="no gradients with respect to control inputs"):
        bmm(torch.zeros(4, 2), steps=1, inputs=torch.zeros(1, 1, requires_grad=True))
