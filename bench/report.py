"""Writes the results: tables in Markdown and CSV, charts in SVG and PNG."""

import csv
import datetime
import subprocess
from importlib.metadata import version
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "nsde"
import matplotlib.pyplot as plt  # noqa: E402

from configs import CONFIGS, step_flops  # noqa: E402

PEAK_CONFIGS = ("B", "G")
STEP_CONFIGS = ("A", "C")
FIGURES = {"forward_ms": "forward", "gradient_ms": "forward + backward"}
SHORTEST = {"forward_min_ms": "forward", "gradient_min_ms": "forward + backward"}
AXES = {"dim": "dimension D", "width": "width H", "steps": "steps K", "batch": "batch"}
STYLES = {
    "nsde series": ("nsde, series", "#0b6e4f", "o"),
    "nsde paper": ("nsde, paper", "#6aa84f", "s"),
    "eager": ("PyTorch", "#c0392b", "^"),
}


def write_csv(path: Path, rows: list[dict]) -> None:
    """One line per row; figures with five digits."""
    names = list(dict.fromkeys(k for row in rows for k in row))
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            cells = (row.get(k) for k in names)
            writer.writerow(["" if x is None else f"{x:.5g}" if isinstance(x, float) else x for x in cells])


def table(head: list[str], rows: list[list[object]]) -> list[str]:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def digits(x: float | None) -> str:
    """Three significant digits without an exponent."""
    if x is None:
        return "–"
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def best(rows: list[dict], config: str, peers: tuple[str, ...], precision: str, figure: str) -> float | None:
    """The smallest `figure` over the given peers and all numbers of threads."""
    times = [
        r[figure]
        for r in rows
        if r["config"] == config and r["peer"] in peers and r["precision"] == precision
    ]
    return min(times, default=None)


def ratio(slow: float | None, fast: float | None) -> str:
    """`slow / fast`."""
    return "–" if slow is None or fast is None else f"{digits(slow / fast)}×"


def machine() -> str:
    """Processor and number of cores, from /proc/cpuinfo."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} × {models[0]}" if models else "unknown"


def commit() -> str:
    """The commit, and whether the files differ from it; the results, which this very run writes, do not count."""

    def git(*args: str) -> str:
        return subprocess.run(["git", *args], capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)results")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with uncommitted changes" if changed else "")


def ratios(rows: list[dict], configs: list[str], figures: dict[str, str]) -> list[str]:
    """PyTorch over ours."""
    lines = []
    for config in configs:
        line: list[object] = [config]
        for figure in figures:
            theirs = best(rows, config, ("eager", "compiled"), "f32", figure)
            line += [digits(theirs)]
            for moments in ("series", "paper"):
                ours = best(rows, config, (f"nsde {moments}",), "f32", figure)
                line += [f"{digits(ours)} ({ratio(theirs, ours)})"]
        lines.append(line)
    head = ["configuration"]
    for name in figures.values():
        head += [f"{name}: PyTorch", "ours, series", "ours, paper"]
    return table(head, lines)


def sampling(rows: list[dict], configs: list[str]) -> list[str]:
    """Monte Carlo in PyTorch beside ours."""
    peers = {"mc16": "16 particles", "mc64": "64 particles", "torchsde64": "torchsde, 64 particles"}
    lines = []
    for config in configs:
        for figure, name in SHORTEST.items():
            ours = best(rows, config, ("nsde series",), "f32", figure)
            theirs = [best(rows, config, (peer,), "f32", figure) for peer in peers]
            lines.append([config, name, digits(ours), *(f"{digits(t)} ({ratio(t, ours)})" for t in theirs)])
    return table(["configuration", "", "ours, series", *peers.values()], lines)


def shares(rows: list[dict], peaks: list[dict]) -> list[str]:
    """What share of the machine's peak the forward pass reaches."""
    top = {(p["peak"], p["threads"]): p["gflops"] for p in peaks}
    lines = []
    for r in rows:
        if r["config"] in PEAK_CONFIGS and r["peer"].startswith("nsde"):
            flops = step_flops(CONFIGS[r["config"]]) * r["steps"] * r["batch"]
            rates = [1e-6 * flops / r[figure] for figure in ("forward_min_ms", "forward_ms")]
            peak = top[r["precision"], r["threads"]]
            mode = r["peer"].removeprefix("nsde ")
            cells = [f"{digits(rate)} ({100 * rate / peak:.0f} %)" for rate in rates]
            lines.append([r["config"], mode, r["precision"], r["threads"], peak, *cells])
    head = ["configuration", "mode", "precision", "threads", "peak, GFLOP/s", "shortest run", "median"]
    return table(head, lines)


def steps_alone(rows: list[dict]) -> list[str]:
    """One trajectory, one step, on one thread."""
    lines = [
        [r["config"], r["peer"].removeprefix("nsde "), r["precision"]]
        + [digits(r[figure]) for figure in ("step_min_us", "step_us", "step_p99_us", "bare_us", "bare_p99_us")]
        for r in rows
        if r["config"] in STEP_CONFIGS and r["peer"].startswith("nsde") and r["threads"] == 1
    ]
    head = ["configuration", "mode", "precision", "shortest, µs", "median, µs", "p99, µs"]
    return table([*head, "bare: median, µs", "bare: p99, µs"], lines)


def charts(out: Path, grown: list[dict]) -> None:
    """Time and memory along each axis, ours against PyTorch."""
    labels = {f: f"{name}, ms" for f, name in FIGURES.items()} | {"peak_mb": "peak memory, MB"}
    for figure, label in labels.items():
        fig, panels = plt.subplots(1, len(AXES), figsize=(13, 3.4), sharey=True, layout="constrained")
        for panel, (axis, name) in zip(panels, AXES.items()):
            for peer, (title, colour, marker) in STYLES.items():
                of_peer = [r for r in grown if r["axis"] == axis and r["peer"] == peer]
                points = [(r[axis], r[figure]) for r in of_peer if r[figure]]
                x, y = [p[0] for p in points], [p[1] for p in points]
                panel.loglog(x, y, color=colour, marker=marker, markersize=4, label=title)
            panel.set_xlabel(name)
            ticks = sorted({r[axis] for r in grown if r["axis"] == axis})
            panel.set_xticks(ticks, [str(t) for t in ticks])
            panel.minorticks_off()
            panel.grid(True, color="#dddddd", linewidth=0.6)
            panel.spines[["top", "right"]].set_visible(False)
        panels[0].set_ylabel(label)
        panels[0].legend(frameon=False)
        stem = out / f"growth_{figure.rsplit('_', 1)[0]}"
        fig.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
        fig.savefig(stem.with_suffix(".png"), dpi=150)
        plt.close(fig)


def raw_times(rows: list[dict], notes: dict[tuple[str, str, int], str]) -> list[str]:
    """Shortest and median, and every figure that is missing with its reason."""
    keys = ("config", "peer", "precision", "threads", "rounds")
    both = [[f"{digits(r[f'{name}_min_ms'])} / {digits(r[f'{name}_ms'])}" for name in ("forward", "gradient")] for r in rows]
    lines = [[*(r[k] for k in keys), *cells] for r, cells in zip(rows, both)]
    lines += [[config, peer, "f32", threads, 0, why, why] for (config, peer, threads), why in notes.items()]
    lines.sort(key=lambda line: (line[0], line[1], line[2], line[3]))
    return table(["configuration", *keys[1:], "forward, ms: shortest / median", "forward + backward, ms"], lines)


def layout(config: str, steps: int) -> list[object]:
    """A row that says what a configuration is."""
    c = CONFIGS[config]
    diffusion = "constant" if c.diffusion is None else "–".join(map(str, c.diffusion))
    timed = f"{steps} of {c.steps}" if steps != c.steps else str(steps)
    return [config, c.dim, c.inputs, "–".join(map(str, c.drift)), diffusion, c.batch, timed]


def write_report(
    out: Path,
    command: str,
    minutes: float,
    checked: list[dict],
    peaks: list[dict],
    raw: list[dict],
    rows: list[dict],
    notes: dict[tuple[str, str, int], str],
    grown: list[dict],
    lengthy: list[dict],
) -> None:
    """Everything into the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "check.csv", checked)
    write_csv(out / "peak.csv", peaks)
    write_csv(out / "rounds.csv", raw)
    write_csv(out / "times.csv", rows)
    write_csv(out / "growth.csv", grown)
    write_csv(out / "memory.csv", lengthy)
    charts(out, grown)
    steps = {r["config"]: r["steps"] for r in rows}
    sampled = sorted({r["config"] for r in rows if r["peer"] == "mc64"})
    baseline = min((r["baseline_mb"] for r in grown if r["baseline_mb"]), default=None)
    today = datetime.datetime.now(datetime.UTC).date()
    text = ["# Speed against PyTorch", ""]
    text += [f"Written by `{command}`; do not edit. [What is measured](../../bench/README.md).", ""]
    text += table(
        ["date", "commit", "machine", "PyTorch", "torchsde", "took"],
        [[today, commit(), machine(), version("torch"), version("torchsde"), f"{minutes:.1f} min"]],
    )
    text += ["", "Milliseconds for a whole batch over all steps, f32, each peer at its better number of threads (1 or 2); PyTorch"]
    text += ["eager or compiled, whichever is faster. In brackets: PyTorch over ours."]
    text += ["", "**The shortest run of every peer**: what it takes when nothing else disturbs the machine.", ""]
    text += ratios(rows, list(steps), SHORTEST)
    text += ["", "**The median over rounds**: with whatever else the machine had to do.", ""]
    text += ratios(rows, list(steps), FIGURES)
    text += ["", "## Configurations", ""]
    head = ["configuration", "state", "inputs", "drift, hidden", "diffusion, hidden", "batch", "steps"]
    text += table(head, [layout(c, k) for c, k in steps.items()])
    text += ["", "## Same numbers", ""]
    text += ["Largest difference from PyTorch, `paper` mode, relative to the largest entry of each array.", ""]
    what = ("mean", "covariance", "gradient")
    checks = [[r["config"], r["precision"], *(f"{r[k]:.1e}" for k in what)] for r in checked]
    text += table(["configuration", "precision", *what], checks)
    text += ["", "## Against sampling", ""]
    text += ["Euler–Maruyama in PyTorch, masks redrawn at each step, ms, shortest runs. In brackets: over ours. Below 1× sampling"]
    text += ["is faster; its moments carry the error of so few particles.", ""]
    text += sampling(rows, sampled)
    text += ["", "## Share of the multiply-add peak, forward", ""]
    text += ["Flops of the matrix products only, as everybody writes them (`step_flops` in bench/configs.py). Where a root of the"]
    text += ["covariance saves some (B in `series` mode), fewer are done: `least_flops`.", ""]
    text += shares(rows, peaks)
    text += ["", "## One trajectory, one step", ""]
    text += ["The allocation-free predictor on one thread. Bare: additions in a register that take as long as the shortest step; how"]
    text += ["late they are at worst is the machine's doing.", ""]
    text += steps_alone(rows)
    text += ["", "## Growth", ""]
    text += ["One thread, f32, around D = 8, H = 64, K = 10, batch 16 (`growth.csv`). Memory is the peak of a fresh process that"]
    text += [f"runs forward and backward; {digits(baseline)} MB of PyTorch's are there before it computes anything.", ""]
    text += [f"![{name}](growth_{name}.png)" for name in ("gradient", "forward", "peak")]
    text += ["", "## Memory of a long sequence", ""]
    at = lengthy[0]
    text += [f"Forward and backward over K = {at['steps']} steps, the shape of a review of IMDB: D = {at['dim']}, drift {at['width']}–{at['width']},"]
    text += [f"diffusion {at['width']}, batch {at['batch']}, two threads; the peak of a fresh process (`memory.csv`).", ""]
    text += table(["precision", "peak, MB"], [[r["precision"], digits(r["peak_mb"])] for r in lengthy])
    text += ["", "## All times", "", "Every round: `rounds.csv`.", ""]
    text += raw_times(rows, notes)
    (out / "README.md").write_text("\n".join(text) + "\n")
