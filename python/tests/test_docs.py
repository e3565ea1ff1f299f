"""Everything that is written down runs: docstrings, the tutorial, the page about Python."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import re
import runpy
from pathlib import Path

import pytest

import nsde

HERE = Path(__file__).parents[1]
MODULES = ["nsde", *sorted(f"nsde.{p.stem}" for p in Path(nsde.__file__).parent.glob("*.py") if p.stem != "__init__")]
OPTIONAL = {"nsde.torch": "torch", "nsde.distributed": "ray"}


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0
    if name in ("nsde._model", "nsde._forecaster", "nsde._table", "nsde.metrics", "nsde.torch"):
        assert found.attempted > 0


def test_everything_public_has_a_docstring() -> None:
    for name in nsde.__all__:
        if name != "__version__":
            assert getattr(nsde, name).__doc__, name


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(HERE / "tutorial.py"))
    assert (tmp_path / "forecast.png").exists() and (tmp_path / "pendulum.safetensors").exists()


PAGE = HERE.parent / "docs" / "python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE) if PAGE.exists() else []


@pytest.mark.skipif(not BLOCKS, reason="the documents are not beside the package")
def test_the_page_about_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    ran = 0
    for block in BLOCKS:
        if ("torch" in block and not has("torch")) or ("distributed" in block and not has("ray")):
            continue
        exec(compile(block, str(PAGE), "exec"), names)
        ran += 1
    assert ran >= 4


def test_the_forecast_of_the_page_has_ten_lines_and_is_that_of_the_readme() -> None:
    if BLOCKS:
        assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 10
        assert BLOCKS[0] in (HERE.parent / "README.md").read_text()
