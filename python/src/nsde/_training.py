"""Running a training: progress, and Ctrl-C that keeps the best model so far."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.utils import check_random_state

from . import _core

#: Seconds between two looks at the clock of a bar and at Ctrl-C.
_SLICE = 0.1


class Progress(NamedTuple):
    """Where a training run stands."""

    #: Updates made.
    step: int
    #: Updates in all.
    steps: int
    #: The last training loss.
    loss: float | None
    #: The best validation score so far.
    validation: float | None


#: Nothing; ``True`` for a bar of tqdm; a class like ``tqdm.tqdm``; or a function of :class:`Progress` that may return
#: ``True`` to stop.
ProgressOption = Any


def train(trainer: _core.Trainer, progress: ProgressOption) -> bool:
    """Runs to the end; whether it was stopped before."""
    if progress is True:
        from tqdm.auto import tqdm

        progress = tqdm
    if isinstance(progress, type):
        return _with_bar(trainer, progress)
    return _run(trainer, cast("Callable[[Progress], bool | None]", progress) if callable(progress) else None)


def _with_bar(trainer: _core.Trainer, make: type) -> bool:
    bar: Any = make(total=trainer.steps, desc="fit")

    def update(at: Progress) -> None:
        bar.update(at.step - bar.n)
        if at.validation is not None and hasattr(bar, "set_postfix"):
            bar.set_postfix(validation=f"{at.validation:.4g}")

    try:
        return _run(trainer, update)
    finally:
        bar.close()


def _run(trainer: _core.Trainer, tell: Callable[[Progress], bool | None] | None) -> bool:
    try:
        done = False
        while not done:
            done = trainer.run(_SLICE)
            if tell is not None:
                best = trainer.best
                at = Progress(trainer.step, trainer.steps, trainer.loss, None if best is None else best[0])
                if tell(at) is True and not done:
                    return True
    except KeyboardInterrupt:
        warnings.warn(
            f"interrupted at step {trainer.step} of {trainer.steps}; the best model so far is kept",
            UserWarning,
            stacklevel=5,
        )
        return True
    return False


def optimiser(
    *, steps: int, batch: int, rate: float, weight_decay: float, patience: int, validate_every: int | None, seed: int
) -> dict[str, Any]:
    """The settings of the optimiser, as the Rust side reads them."""
    return {
        "steps": steps,
        "batch": batch,
        "rate": rate,
        "weight_decay": weight_decay,
        "patience": patience,
        # A short run must not remember its beginning.
        "average": min(max(1.0 - 10.0 / max(steps, 1), 0.0), 0.99),
        "validate_every": validate_every or min(max(steps // 20, 1), 100),
        "seed": seed,
    }


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """A seed, as scikit-learn understands ``random_state``."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def to_json(settings: dict[str, Any]) -> str:
    """Settings with NumPy numbers in them as JSON."""

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else list(value)

    return json.dumps(settings, default=plain)
