"""Do PyTorch and `nsde` compute the same numbers? Nothing is timed before they do."""

import json
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from bmm_torch import Sde, bmm, model_name, objective, save_model
from configs import CONFIGS

CHECKED = ("A", "B", "C", "D", "F")
COMPARED = ("mean", "covariance", "gradient")
STEPS, BATCH = 5, 17  # two bundles of eight side by side and one alone
TOLERANCE = {"float32": 1e-4, "float64": 1e-6}  # relative to the largest entry of the array


class Disagreement(Exception):
    """The two programs do not compute the same thing."""


def starts(dim: int) -> Tensor:
    """Where the trajectories start, as in `dump_start` of speed.rs."""
    places = torch.arange(BATCH).unsqueeze(1) + torch.arange(dim)
    return 0.3 + 0.1 * torch.sin(places.to(torch.get_default_dtype()))


def distance(ours: list, theirs: Tensor) -> float:
    """Largest difference over the largest entry."""
    ours_flat = torch.tensor(ours, dtype=torch.float64).flatten()
    theirs_flat = theirs.detach().double().flatten()
    return float((ours_flat - theirs_flat).abs().max() / theirs_flat.abs().max().clamp_min(1e-30))


def compare(speed: Path, name: str) -> dict[str, float]:
    """Relative differences of means, covariances and gradients of one configuration, `paper` mode."""
    torch.manual_seed(1)
    config = replace(CONFIGS[name], steps=STEPS, batch=BATCH)
    sde = Sde(config)
    precision = "f32" if torch.get_default_dtype() == torch.float32 else "f64"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_model(sde, path)
        command = [speed, "--dump", path, "--moments", "paper", "--precision", precision]
        command += ["--steps", str(STEPS), "--batch", str(BATCH)]
        run = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if run.returncode:
        raise Disagreement(f"{name}: the Rust side refused the model file: {run.stderr.strip()}")
    ours = json.loads(run.stdout)
    moments = bmm(sde, sde.step, starts(config.dim), 0.1 * torch.eye(config.dim).expand(BATCH, -1, -1))
    objective(moments).backward()
    gradients = {model_name(k): p.grad for k, p in sde.named_parameters()}
    if gradients.keys() != ours["gradient"].keys():
        raise Disagreement(f"{name}: the two sides have different parameters")
    return {
        "mean": distance(ours["mean"], moments[0].transpose(0, 1)),
        "covariance": distance(ours["cov"], moments[1].transpose(0, 1)),
        "gradient": max(distance(ours["gradient"][k], g) for k, g in gradients.items()),
    }


def check(speed: Path) -> list[dict]:
    """One row per configuration and precision; raises `Disagreement` beyond the tolerance."""
    rows = []
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        kind = str(dtype).removeprefix("torch.")
        for name in CHECKED:
            row = {"config": name, "precision": kind, **compare(speed, name), "tolerance": TOLERANCE[kind]}
            rows.append(row)
            print(f"  {name} {kind}: " + ", ".join(f"{k} {row[k]:.1e}" for k in COMPARED), flush=True)
            for what in COMPARED:
                if not row[what] <= row["tolerance"]:
                    raise Disagreement(
                        f"{name} in {kind}: {what} of PyTorch and nsde differ by {row[what]:.1e} "
                        f"(allowed {row['tolerance']:.0e}); not timing programs that compute different things"
                    )
    torch.set_default_dtype(torch.float32)
    return rows
