"""Times PyTorch in a process of its own: one JSON request per line in, one JSON answer per line out.

A request names a configuration (`config`, or `free` with four numbers), a `peer` and a budget:
`{"config": "A", "steps": 10, "peer": "eager", "seconds": 0.5, "runs": 3}`. The number of threads is the
first argument. A compiled step is kept, so that later requests for it only run it.
"""

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from bmm_torch import Sde, bmm, monte_carlo, objective, torchsde_moments
from configs import CONFIGS, Config, free

START_MEAN, START_VAR = 0.3, 0.1
WARM: set[tuple[Config, str]] = set()  # what ran before: a first run sets up, compiles, and is never timed


def timed(name: str, run: Callable[[], object], seconds: float, runs: int) -> dict[str, float]:
    """Median and shortest time in milliseconds, by the rules of speed.rs: warm up, unless one run takes it all."""

    def once() -> float:
        began = time.perf_counter()
        run()
        return time.perf_counter() - began

    first = once()
    long = first > seconds
    times = [first] if long else []
    began = time.perf_counter()
    while (not long and time.perf_counter() - began < seconds) or len(times) < runs:
        times.append(once())
    return {f"{name}_ms": 1e3 * statistics.median(times), f"{name}_min_ms": 1e3 * min(times)}


def peak_mb() -> float:
    """Largest resident memory of this process so far, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


@cache
def model(c: Config, compiled: bool) -> tuple[Sde, Callable]:
    """The SDE and its step."""
    torch.manual_seed(1)
    sde = Sde(c)
    return sde, torch.compile(sde.step, dynamic=False) if compiled else sde.step


def answer(request: dict) -> dict:
    """Times forward, and forward + backward."""
    if "free" in request:
        c = free(*request["free"])
    else:
        c = replace(CONFIGS[request["config"]], steps=request["steps"])
    peer = request["peer"]
    sde, step = model(c, peer == "compiled")
    # The gradient in the start is wanted too: `nsde` gives it, and all compiled steps are alike.
    mean = torch.full((c.batch, c.dim), START_MEAN).requires_grad_()
    cov = (START_VAR * torch.eye(c.dim).expand(c.batch, -1, -1).contiguous()).requires_grad_()
    runs = {
        "eager": lambda: bmm(sde, step, mean, cov),
        "compiled": lambda: bmm(sde, step, mean, cov),
        "mc64": lambda: monte_carlo(sde, 64, mean, START_VAR),
        "mc16": lambda: monte_carlo(sde, 16, mean, START_VAR),
        "torchsde64": lambda: torchsde_moments(sde, 64, mean, START_VAR),
    }
    run = runs[peer]

    def forward() -> None:
        with torch.no_grad():
            run()

    def gradient() -> None:
        sde.zero_grad()
        mean.grad = cov.grad = None
        objective(run()).backward()

    before = peak_mb()
    if request.get("prepare"):
        began = time.perf_counter()
        forward()
        gradient()
        return {"prepare_s": time.perf_counter() - began}
    if (c, peer) not in WARM:
        forward()
        gradient()
        WARM.add((c, peer))
    budget = request["seconds"], request["runs"]
    return {
        **timed("forward", forward, *budget),
        **timed("gradient", gradient, *budget),
        "peak_mb": peak_mb(),
        "baseline_mb": before,
    }


def main() -> None:
    """Answers until standard input ends."""
    torch.set_num_threads(int(sys.argv[1]))
    torch._dynamo.config.recompile_limit = 64  # one `step` for all configurations, with and without gradients
    warnings.filterwarnings("ignore", category=FutureWarning)
    replies = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:  # the caller reports it beside the figures
            reply = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
