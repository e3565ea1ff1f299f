"""Models: building, predicting, likelihoods and gradients, files."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nsde
from conftest import cli

EVERY_LAYER: list[nsde.Layer] = [
    nsde.Linear(2, 4, seed=0),
    nsde.Dropout(0.8),
    nsde.Identity(),
    nsde.ReLU(),
    nsde.LeakyReLU(0.2),
    nsde.ELU(),
    nsde.GELU(),
    nsde.SiLU(),
    nsde.Tanh(),
    nsde.Sigmoid(),
    nsde.Softplus(),
    nsde.Sin(),
    nsde.Exp(),
    nsde.Residual([nsde.Linear(4, 4, seed=1), nsde.Tanh()]),
    nsde.Linear(4, 2, seed=2),
]


def ou(init_var: float) -> nsde.NeuralSDE:
    """``dx = −x dt + 0.5 dw``."""
    return nsde.NeuralSDE([nsde.Linear(1, 1, weight=[[-1.0]], bias=[0.0])], [0.5], dt=0.01, init_var=init_var)


def test_an_ornstein_uhlenbeck_process_follows_its_recursion() -> None:
    means, covs = ou(init_var=0.0).predict([2.0], steps=300)
    mean, var = 2.0, 0.0
    for k in range(300):
        mean, var = 0.99 * mean, 0.99**2 * var + 0.25 * 0.01
        assert means[k, 0, 0] == pytest.approx(mean, rel=1e-12)
        assert covs[k, 0, 0, 0] == pytest.approx(var, rel=1e-12)


def test_every_layer_survives_building_and_its_file(tmp_path: Path) -> None:
    model = nsde.NeuralSDE(EVERY_LAYER, EVERY_LAYER)
    assert model.drift == EVERY_LAYER and model.diffusion == EVERY_LAYER
    model.save(tmp_path / "m.safetensors")
    back = nsde.NeuralSDE.load(tmp_path / "m.safetensors")
    assert back.to_bytes() == model.to_bytes()
    assert repr(back.drift) == repr(EVERY_LAYER)
    assert back.drift[0] != nsde.Linear(2, 4, seed=9) and nsde.ReLU() != nsde.Tanh()


@pytest.mark.parametrize(
    "diffusion", [None, [0.5, 0.1], [[0.5, 0.0], [0.2, 0.1]], [nsde.Linear(2, 3, seed=4)], [nsde.Linear(2, 2, seed=4)]]
)
def test_every_kind_of_diffusion_comes_back(diffusion: list[nsde.Layer] | list[float] | None) -> None:
    model = nsde.NeuralSDE([nsde.Linear(2, 2, seed=0)], diffusion)
    back = nsde.NeuralSDE.from_bytes(model.to_bytes())
    if diffusion is None:
        assert back.diffusion is None
    elif isinstance(diffusion[0], nsde.Layer):
        assert back.diffusion == diffusion
    else:
        assert np.array_equal(np.asarray(back.diffusion), np.asarray(diffusion))


def test_pickling_keeps_every_bit(model: nsde.NeuralSDE) -> None:
    back = pickle.loads(pickle.dumps(model))
    u = np.ones((4, 1))
    assert np.array_equal(back.predict([0.0, 1.0], 4, inputs=u).cov, model.predict([0.0, 1.0], 4, inputs=u).cov)
    assert back.columns == ["a", "b", "u"] and repr(back) == repr(model)


def test_starts_of_every_form_agree(model: nsde.NeuralSDE) -> None:
    u = np.linspace(0, 1, 5)[:, None]
    point = model.predict([0.5, -1.0], 5, inputs=u)
    cov = model.init_var * np.eye(2)
    shared = model.predict(([[0.5, -1.0], [0.5, -1.0]], cov), 5, np.full(5, 0.05), u)
    each = model.predict(
        (np.array([[0.5, -1.0]] * 3), np.stack([cov] * 3)), 5, 0.05, np.repeat(u[:, None], 3, axis=1)
    )
    for other in (shared, each):
        # Those that are computed side by side agree to the bit; with one that is alone, they may differ in the last digits.
        for i in range(other.mean.shape[1]):
            assert np.array_equal(other.mean[:, i], other.mean[:, 0])
            assert np.array_equal(other.cov[:, i], other.cov[:, 0])
        np.testing.assert_allclose(other.mean[:, :1], point.mean, rtol=1e-14, atol=1e-16)
        np.testing.assert_allclose(other.cov[:, :1], point.cov, rtol=1e-14, atol=1e-16)
    assert point.std.shape == (5, 1, 2)


def test_a_long_batch_equals_its_parts(model: nsde.NeuralSDE, rng: np.random.Generator) -> None:
    # More than are at work at a time. Those that are computed side by side may differ in the last digits.
    x0, u = rng.normal(size=(700, 2)), rng.normal(size=(3, 700, 1))
    whole = model.predict(x0, 3, inputs=u)
    for i in (0, 255, 256, 699):
        one = model.predict(x0[i], 3, inputs=u[:, i])
        np.testing.assert_allclose(one.mean[:, 0], whole.mean[:, i], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(one.cov[:, 0], whole.cov[:, i], rtol=1e-12, atol=1e-14)


def test_paths_have_the_moments_of_monte_carlo(model: nsde.NeuralSDE) -> None:
    u = np.ones((6, 2, 1))
    x0 = [[0.5, -1.0], [1.0, 0.0]]
    paths = model.sample(x0, 6, inputs=u, samples=4000, seed=3)
    assert paths.shape == (4000, 6, 2, 2)
    mc = model.predict(x0, 6, inputs=u, method="mc", samples=4000, seed=3)
    np.testing.assert_allclose(paths.mean(axis=0), mc.mean, rtol=1e-9, atol=1e-12)
    bmm = model.predict(x0, 6, inputs=u)
    assert (np.abs(bmm.mean - mc.mean) < 5 * mc.std / np.sqrt(4000)).all()


@pytest.mark.parametrize("scaled", [False, True])
def test_gradients_agree_with_differences(scaled: bool, rng: np.random.Generator) -> None:
    model = nsde.NeuralSDE(
        [nsde.Linear(2, 7, seed=1), nsde.Softplus(), nsde.Linear(7, 2, seed=2)],
        [nsde.Linear(2, 2, seed=3), nsde.Exp()],
        dt=0.1,
        scaling=([1.0, -2.0], [2.0, 0.5]) if scaled else None,
    )
    x0 = (rng.normal(size=(5, 2)), 0.1 * np.eye(2))
    y = rng.normal(size=(4, 5, 2))
    y[1, 2, 0] = np.nan
    y[2, 3] = np.nan
    value, grad = model.nll_and_grad(x0, y)
    assert value == pytest.approx(model.nll(x0, y), rel=1e-12)
    laws = model.predict(x0, 4)
    assert value == pytest.approx(nsde.metrics.nll(laws.mean, laws.cov, y), rel=1e-12)
    before = model.parameters
    assert set(grad) == set(before)
    direction = {name: rng.normal(size=p.shape) for name, p in before.items()}

    def along(eps: float) -> float:
        model.set_parameters({name: p + eps * direction[name] for name, p in before.items()})
        return model.nll(x0, y)

    slope = (along(1e-5) - along(-1e-5)) / 2e-5
    assert slope == pytest.approx(sum(np.sum(grad[name] * direction[name]) for name in grad), rel=1e-6)


def test_moments_of_a_network() -> None:
    found = nsde.moments([nsde.ReLU()], [0.5, -0.3], [[1.0, 0.6], [0.6, 1.0]], moments="exact")
    assert found.cov[0, 1] == pytest.approx(0.18236568, abs=1e-8)
    x = np.array([[0.3, -0.7]])
    net = [layer for layer in EVERY_LAYER if not isinstance(layer, nsde.Dropout)]
    at_a_point = nsde.moments(net, x[0], np.zeros((2, 2)))
    np.testing.assert_allclose(at_a_point.mean, nsde.evaluate(net, x)[0], rtol=1e-12)


def test_errors_say_what_was_expected(model: nsde.NeuralSDE) -> None:
    def why(*args: object, **kwargs: object) -> str:
        with pytest.raises(nsde.Error) as caught:
            model.predict(*args, **kwargs)  # type: ignore[arg-type]
        assert isinstance(caught.value, ValueError)
        return str(caught.value)

    u = np.ones((3, 1))
    assert why([0.0, 0.0, 0.0], 3, inputs=u) == "x0: expected shape [1, 2], found [1, 3]"
    assert why([[[0.0]]], 3) == "x0: expected shape [D] or [batch, D], found [1, 1, 1]"
    assert "expected an array of numbers (float64), found dtype <U1" in why(["a", "b"], 3)
    assert "dtype complex128" in why(np.zeros(2, dtype=complex), 3)
    assert "a tuple is (mean, cov)" in why((1.0, 2.0), 3)
    assert "expected shape [2, 2] or [1, 2, 2], found [3, 3]" in why(([0.0, 0.0], np.eye(3)), 3, inputs=u)
    assert "the model has 1 control inputs" in why([0.0, 0.0], 3)
    assert "inputs: expected shape [3, 1] or [3, 1, 1], found [4, 1]" in why([0.0, 0.0], 3, inputs=np.ones((4, 1)))
    assert "dt: expected shape [3], found [2]" in why([0.0, 0.0], 3, [0.1, 0.1], u)
    assert "step size is -0.1, but must be finite and positive" in why([0.0, 0.0], 3, -0.1, u)
    assert "indefinite" in why(([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), 3, inputs=u)
    assert "method: \"euler\" is not known" in why([0.0, 0.0], 3, inputs=u, method="euler")
    assert "start: an entry of the mean is NaN" in why([0.0, np.nan], 3, inputs=u)
    assert "at least 1, found 0" in why([0.0, 0.0], 0)
    with pytest.raises(nsde.Error, match=r"drift\.0\.weight: expected shape \[12, 3\], found \[1\]"):
        model.set_parameters({"drift.0.weight": [1.0]})
    with pytest.raises(nsde.Error, match="there is no such parameter"):
        model.set_parameters({"drift.1.weight": [1.0]})
    with pytest.raises(nsde.Error, match="expected a network that gives 2 values"):
        nsde.NeuralSDE([nsde.Linear(2, 2)], [nsde.Linear(2, 5)])
    with pytest.raises(nsde.Error, match="expected a layer such as"):
        nsde.NeuralSDE([nsde.Linear(2, 2), np.tanh])  # type: ignore[list-item]
    with pytest.raises(nsde.Error, match="nowhere.safetensors"):
        nsde.NeuralSDE.load("nowhere.safetensors")
    with pytest.raises(nsde.Error, match="moments overflow at step 2 of trajectory 300"):
        x0 = np.zeros((301, 1))
        x0[300] = 1e300
        nsde.NeuralSDE([nsde.Linear(1, 1, weight=[[1e5]], bias=[0.0])], [1.0]).predict(x0, 3)


def test_guards_and_dropout_under_cubature_are_told() -> None:
    growing = nsde.NeuralSDE([nsde.Linear(1, 1, weight=[[40.0]], bias=[0.0]), nsde.Exp()], [1.0])
    with pytest.warns(nsde.GuardWarning, match="exponentials cut"):
        growing.predict([1.0], 1)
    masked = nsde.NeuralSDE([nsde.Linear(1, 1, seed=0), nsde.Dropout(0.5)], [1.0])
    with pytest.warns(UserWarning, match="dropout acts as the identity"):
        masked.predict(([1.0], [[1.0]]), 1, method="cubature")


@pytest.mark.skipif(cli() is None, reason="the command line is not built; set NSDE_CLI")
@pytest.mark.parametrize("method", ["bmm", "cubature", "mc"])
def test_same_bits_as_the_command_line(model: nsde.NeuralSDE, tmp_path: Path, method: str) -> None:
    path = tmp_path / "m.safetensors"
    model.save(path)
    start = {"mean": [0.5, -1.0], "cov": [[0.3, 0.1], [0.1, 0.2]]}
    (tmp_path / "start.json").write_text(json.dumps(start))
    u = np.linspace(-1, 1, 7)
    (tmp_path / "u.csv").write_text("u\n" + "".join(f"{x!r}\n" for x in u.tolist()))
    command = [str(cli()), "predict", str(path), "--start", str(tmp_path / "start.json"), "--steps", "7", "--json"]
    command += ["--inputs", str(tmp_path / "u.csv"), "--method", method]
    if method == "mc":
        command += ["--samples", "50", "--seed", "7"]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = model.predict(
            (start["mean"], start["cov"]), 7, inputs=u[:, None], method=method, samples=50, seed=7  # type: ignore[arg-type]
        )
    assert np.array_equal(found.mean[:, 0], np.array([step["mean"] for step in printed["steps"]]))
    assert np.array_equal(found.cov[:, 0], np.array([step["cov"] for step in printed["steps"]]))


def test_of_an_ensemble_the_first_member_is_used(tmp_path: Path) -> None:
    model = ou(0.0)
    model._inner.set_extra("members", "3")
    model.save(tmp_path / "m.safetensors")
    with pytest.warns(UserWarning, match="an ensemble of 3"):
        nsde.NeuralSDE.load(tmp_path / "m.safetensors")


def test_import_is_quick_and_light() -> None:
    code = "import sys, nsde; assert not {'sklearn', 'torch', 'pandas', 'ray', 'matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
