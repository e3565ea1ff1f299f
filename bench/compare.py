"""Checks, times and reports: see README.md beside this file. Run it through compare.sh."""

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from check import Disagreement, check
from configs import CONFIGS
from peers import Rust, Torch
from report import write_report

OURS = [("series", "f32"), ("paper", "f32"), ("series", "f64"), ("paper", "f64")]
FIGURES = ("forward_ms", "gradient_ms", "forward_min_ms", "gradient_min_ms")
FIGURES += ("step_us", "step_min_us", "step_p99_us", "bare_us", "bare_p99_us")
MONTE_CARLO = ("mc64", "mc16", "torchsde64")
MONTE_CARLO_CONFIGS = "ABCD"
BASE = {"dim": 8, "width": 64, "steps": 10, "batch": 16}
LONG = {"dim": 32, "width": 50, "batch": 50}  # reviews of IMDB, up to 500 words


@dataclass(frozen=True)
class Plan:
    """How much is done."""

    configs: str
    g_steps: int  # steps of configuration G, which takes many seconds with all its 100
    rounds: int
    seconds: float  # for each figure of each round
    timing_limit: float  # no new round after so many seconds
    compile_each: float  # time limit to compile one configuration
    compile_total: float  # no new compilation after so many seconds of compiling
    growth: dict[str, list[int]]
    long_steps: int  # of the sequence whose memory is measured


FULL = Plan(
    configs="ABCDEFG",
    g_steps=10,
    rounds=7,
    seconds=0.2,
    timing_limit=450,
    compile_each=120,
    compile_total=600,
    growth={
        "dim": [2, 4, 8, 16, 32, 64, 128],
        "width": [16, 32, 64, 128, 256],
        "steps": [10, 30, 100, 300],
        "batch": [1, 4, 16, 64, 256],
    },
    long_steps=500,
)
QUICK = Plan(
    configs="ABDG",
    g_steps=1,
    rounds=1,
    seconds=0.05,
    timing_limit=60,
    compile_each=10,
    compile_total=10,
    growth={"dim": [2, 8], "width": [16, 64], "steps": [10, 30], "batch": [4, 16]},
    long_steps=20,
)


def say(text: str) -> None:
    """Progress."""
    print(text, flush=True)


class Timing:
    """Times all peers on all configurations, in rounds so that noise hits all of them."""

    def __init__(self, plan: Plan, rust: Rust, torch: dict[int, Torch]) -> None:
        self.plan, self.rust, self.torch = plan, rust, torch
        self.rows: list[dict] = []
        self.notes: dict[tuple[str, str, int], str] = {}  # why a peer has no figure
        self.compiled: list[tuple[str, int]] = []

    def steps(self, config: str) -> int:
        """Steps that are timed."""
        return self.plan.g_steps if config == "G" else CONFIGS[config].steps

    def add(self, config: str, peer: str, precision: str, threads: int, number: int, answer: dict) -> None:
        """Keeps one figure, or the reason why there is none."""
        if "error" in answer:
            self.notes[config, peer, threads] = answer["error"]
            return
        row = {"config": config, "peer": peer, "precision": precision, "threads": threads, "round": number}
        row |= {k: answer.get(k) for k in FIGURES}
        self.rows.append(row | {"steps": self.steps(config), "batch": CONFIGS[config].batch})

    def ask(self, config: str, peer: str, threads: int, number: int) -> None:
        """One figure of PyTorch."""
        if (config, peer, threads) in self.notes:
            return
        request = {"config": config, "peer": peer, "steps": self.steps(config)}
        request |= {"seconds": self.plan.seconds, "runs": 1}
        self.add(config, peer, "f32", threads, number, self.torch[threads].ask(request, 300))

    def round(self, number: int) -> None:
        """All peers once."""
        for config in self.plan.configs:
            if config == "G" and number >= 2:
                continue
            for threads in self.torch:
                for moments, precision in OURS:
                    args = [config, "--moments", moments, "--precision", precision, "--threads", threads]
                    args += ["--seconds", self.plan.seconds, "--runs", 1, "--steps", self.steps(config)]
                    self.add(config, f"nsde {moments}", precision, threads, number, self.rust.run(*args)[0])
                self.ask(config, "eager", threads, number)
                if (config, threads) in self.compiled:
                    self.ask(config, "compiled", threads, number)
                if config in MONTE_CARLO_CONFIGS:
                    for peer in MONTE_CARLO:
                        self.ask(config, peer, threads, number)

    def compile(self) -> None:
        """Compiles the step of each configuration, for all threads: with one it was slower wherever both were tried."""
        spent = 0.0
        for config in self.plan.configs:
            if not any(r["config"] == config and r["peer"] == "eager" for r in self.rows):
                continue
            threads = max(self.torch)
            limit = min(self.plan.compile_each, self.plan.compile_total - spent)
            if limit < 0.5 * self.plan.compile_each:
                why = f"not compiled: {self.plan.compile_total:.0f} s for compiling were spent"
                self.notes[config, "compiled", threads] = why
                continue
            began = time.monotonic()
            request = {"config": config, "peer": "compiled", "steps": self.steps(config), "prepare": True}
            # A worker of its own, so that one that has to be ended takes no other compiled step with it.
            trial = Torch(threads)
            answer = trial.ask(request, limit)
            trial.close()
            spent += time.monotonic() - began
            if "did not answer" in answer.get("error", ""):
                self.notes[config, "compiled", threads] = f"did not compile in {limit:.0f} s"
            elif "error" in answer:
                self.notes[config, "compiled", threads] = answer["error"]
            else:
                # PyTorch's cache on disk makes this quick.
                again = self.torch[threads].ask(request, limit)
                if "error" in again:
                    self.notes[config, "compiled", threads] = again["error"]
                else:
                    self.compiled.append((config, threads))
            say(f"  {config}: {self.notes.get((config, 'compiled', threads), 'compiled')}")

    def run(self) -> None:
        """One round without compiled steps, which also warms everything up; compiling; the other rounds."""
        began = time.monotonic()
        self.round(0)
        spent = time.monotonic() - began
        say(f"  round 1 took {spent:.0f} s; compiling")
        self.compile()
        for config, threads in self.compiled:
            self.ask(config, "compiled", threads, 0)
        for number in range(1, self.plan.rounds):
            if spent > self.plan.timing_limit:
                say(f"  stopped after {number} of {self.plan.rounds} rounds: the time is spent")
                break
            began = time.monotonic()
            self.round(number)
            spent += time.monotonic() - began
            say(f"  round {number + 1} of {self.plan.rounds}")


# The first run of a process touches all its memory; the median of three is of later ones.
GROWTH_RUNS = 3


def growth(plan: Plan, rust: Rust) -> list[dict]:
    """Time and peak memory along each axis, one thread, every point in a fresh process."""
    rows, known = [], {}
    for axis, values in plan.growth.items():
        for value in values:
            at = BASE | {axis: value}
            key = tuple(at.values())
            if key not in known:
                known[key] = {}
                flags = [x for k, v in at.items() for x in (f"--{k}", v)]
                for moments in ("series", "paper"):
                    args = ["--moments", moments, "--threads", 1, "--seconds", plan.seconds, "--runs", GROWTH_RUNS, *flags]
                    known[key][f"nsde {moments}"] = rust.run(*args)[0]
                torch = Torch(1)
                request = {"free": list(key), "peer": "eager", "seconds": plan.seconds, "runs": GROWTH_RUNS}
                known[key]["eager"] = torch.ask(request, 120)
                torch.close()
            for peer, answer in known[key].items():
                figures = {k: answer.get(k) for k in ("forward_ms", "gradient_ms", "peak_mb", "baseline_mb", "error")}
                rows.append({"axis": axis, **at, "peer": peer, **figures})
        say(f"  {axis}")
    return rows


def long_sequence(plan: Plan, rust: Rust) -> list[dict]:
    """Peak memory of a forward and a backward pass over a long sequence, two threads, each in a fresh process."""
    at = LONG | {"steps": plan.long_steps}
    flags = [x for k, v in at.items() for x in (f"--{k}", v)]
    rows = []
    for precision in ("f32", "f64"):
        answer = rust.run("--precision", precision, "--threads", 2, "--seconds", 0, "--runs", 1, *flags)[0]
        rows.append(at | {"precision": precision, "peak_mb": answer["peak_mb"]})
    return rows


def over_rounds(rows: list[dict]) -> list[dict]:
    """One row per configuration, peer, precision and threads: the medians, and the shortest of the shortest."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault((row["config"], row["peer"], row["precision"], row["threads"]), []).append(row)
    out = []
    for (config, peer, precision, threads), group in sorted(groups.items()):
        row = {"config": config, "peer": peer, "precision": precision, "threads": threads, "rounds": len(group)}
        for figure in FIGURES:
            values = [r[figure] for r in group if r[figure] is not None]
            pick = min if "_min_" in figure else statistics.median
            row[figure] = pick(values) if values else None
        out.append(row | {"steps": group[0]["steps"], "batch": group[0]["batch"]})
    return out


def main() -> int:
    """The whole comparison; 1 if the peers disagree."""
    parser = argparse.ArgumentParser(prog="bench/compare.sh", description="Compares nsde with PyTorch.")
    parser.add_argument("--quick", action="store_true", help="a small version, about two minutes")
    parser.add_argument("--out", type=Path, default=Path("results/speed"), help="folder for the results")
    parser.add_argument("--speed", type=Path, required=True, help=argparse.SUPPRESS)
    args = parser.parse_args()
    plan = QUICK if args.quick else FULL
    rust, torch = Rust(args.speed), {threads: Torch(threads) for threads in (1, 2)}
    began = time.monotonic()
    say("Same numbers?")
    try:
        checked = check(args.speed)
    except Disagreement as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    say("Multiply-add peak")
    peaks = [p for threads in torch for p in rust.run("--peak", "--threads", threads, "--seconds", plan.seconds)]
    say("Times")
    timing = Timing(plan, rust, torch)
    try:
        timing.run()
    finally:
        for worker in torch.values():
            worker.close()
    say("Growth")
    grown = growth(plan, rust)
    say("Memory of a long sequence")
    lengthy = long_sequence(plan, rust)
    command = "bash bench/compare.sh" + (" --quick" if args.quick else "")
    minutes = (time.monotonic() - began) / 60
    write_report(args.out, command, minutes, checked, peaks, timing.rows, over_rounds(timing.rows), timing.notes, grown, lengthy)
    say(f"Wrote {args.out} after {minutes:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
