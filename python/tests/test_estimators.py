"""Estimators in scikit-learn's conventions."""

from __future__ import annotations

import pickle
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import nsde
from conftest import cli

#: Small networks and few updates: these tests are about the shell, not about the fit.
SMALL: dict[str, Any] = {"hidden": (16,), "steps": 40}


def waves(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    t = 0.1 * np.arange(n)
    noise = np.random.default_rng(0).normal(size=(n, 2))
    return t, np.stack([np.sin(t), np.cos(t)], axis=1) + 0.02 * noise


@pytest.fixture(scope="module")
def fitted() -> nsde.NSDEForecaster:
    t, x = waves(200)
    return nsde.NSDEForecaster(hidden=(20,), noise_hidden=(8,), steps=400).fit(x, t)


@pytest.mark.parametrize("estimator", [nsde.NSDERegressor, nsde.NSDEClassifier])
def test_scikit_learn_accepts(estimator: Any) -> None:
    check_estimator(estimator(hidden=(16,), flow_steps=4, steps=120))


def test_a_wave_is_forecast(fitted: nsde.NSDEForecaster) -> None:
    forecast = fitted.forecast(20)
    t = 20.0 + 0.1 * np.arange(20)
    truth = np.stack([np.sin(t), np.cos(t)], axis=1)
    np.testing.assert_allclose(forecast.t, t)
    assert np.abs(forecast.mean - truth).max() < 0.5
    low, high = forecast.interval(0.99)
    assert np.mean((low < truth) & (truth < high)) > 0.8
    assert forecast.cov.shape == (20, 2, 2) and repr(forecast) == "Forecast(steps=20, columns=['x0', 'x1'])"
    assert np.allclose(forecast.quantiles([0.5])[0], forecast.mean)
    paths = forecast.sample(2000, seed=1)
    assert paths.shape == (2000, 20, 2)
    assert (np.abs(paths.mean(axis=0) - forecast.mean) < 8 * forecast.std / np.sqrt(2000) + 0.02).all()


def test_forecasts_continue_what_they_are_given(fitted: nsde.NSDEForecaster) -> None:
    t, x = waves(60)
    one = fitted.forecast(3, x, t)
    many = fitted.forecast(3, [x, x[:30]], [t, t[:30]])
    assert one.mean.shape == (3, 2) and many.mean.shape == (3, 2, 2)
    assert np.array_equal(many.mean[:, 0], one.mean)
    np.testing.assert_allclose(many.t[:, 1], [3.0, 3.1, 3.2])
    coarse = fitted.forecast(1, x, t, dt=0.3)
    np.testing.assert_allclose(coarse.mean[0], one.mean[2], rtol=1e-12)
    np.testing.assert_allclose(coarse.cov[0], one.cov[2], rtol=1e-12)
    assert coarse.sample(5).shape == (5, 1, 2)
    gap = x.copy()
    gap[-1, 0] = np.nan
    assert fitted.forecast(1, gap, t).std[0, 0] > 5 * one.std[0, 0]
    assert fitted.forecast(2, x, t, method="mc", samples=50).mean.shape == (2, 2)
    assert many.to_pandas().index.names == ["series", "t"] and many.sample(4).shape == (4, 3, 2, 2)


def test_frames_and_arrays_give_the_same_model() -> None:
    t, x = waves()
    made = nsde.NSDEForecaster(**SMALL).fit(x, t)
    columns = {"time": t, "x0": x[:, 0], "x1": x[:, 1]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        other = nsde.NSDEForecaster(**SMALL).fit(frame, t="time")
        assert other.columns_ == ["x0", "x1"]
        assert other.model_.to_bytes() == made.model_.to_bytes()
        assert np.array_equal(other.forecast(2, frame, "time").mean, made.forecast(2).mean)
        turned = frame[["x1", "time", "x0"]]
        assert np.array_equal(other.forecast(2, turned, "time").mean, made.forecast(2).mean)
        assert other.score(turned, "time") == pytest.approx(made.score(x, t), rel=1e-12)
        with pytest.raises(nsde.Error, match=r"expected the columns \['x0', 'x1'\], found \['time', 'x0', 'x1'\]"):
            other.forecast(2, frame)


def test_stamps_are_counted_in_a_unit_and_come_back() -> None:
    t, x = waves(60)
    index = pd.date_range("2026-01-01", periods=60, freq="h")
    by_index = nsde.NSDEForecaster(**SMALL).fit(pd.DataFrame(x, columns=["a", "b"], index=index))
    zoned = pl.DataFrame({"when": index.tz_localize("UTC").to_list(), "a": x[:, 0], "b": x[:, 1]})
    by_column = nsde.NSDEForecaster(**SMALL).fit(zoned, t="when")
    assert by_index.model_.dt == 1.0
    assert by_column.model_.to_bytes() == by_index.model_.to_bytes()
    table = by_index.forecast(2).to_pandas(0.8)
    assert list(table.columns)[:4] == ["a_mean", "a_std", "a_low", "a_high"]
    assert list(table.index) == list(pd.date_range("2026-01-03 12:00", periods=2, freq="h"))


def test_series_and_inputs_are_told_apart() -> None:
    rng = np.random.default_rng(1)
    parts = []
    for run in range(4):
        u = rng.normal(size=40)
        x = np.zeros(40)
        for k in range(39):
            x[k + 1] = 0.9 * x[k] + 0.5 * u[k] + 0.05 * rng.normal()
        parts.append(pd.DataFrame({"run": f"r{run}", "t": np.arange(40.0), "x": x, "u": u}))
    long = pd.concat(parts, ignore_index=True)
    settings: dict[str, Any] = {"steps": 300, "hidden": (16,), "horizon": [1, 5], "diffusion": "constant"}
    model = nsde.NSDEForecaster(**settings).fit(long, t="t", inputs=["u"], series="run")
    again = nsde.NSDEForecaster(**settings).fit(
        [p[["x"]] for p in parts], [p["t"].to_numpy() for p in parts], [p[["u"]].to_numpy() for p in parts]
    )
    assert (model.model_.inputs, len(model.history_)) == (1, 20)
    assert np.array_equal(model.forecast(1, inputs=[[1.0]]).mean, again.forecast(1, inputs=[[1.0]]).mean)
    up = model.forecast(1, parts[0].drop(columns="run"), "t", inputs=[[2.0]]).mean[0, 0]
    down = model.forecast(1, parts[0].drop(columns="run"), "t", inputs=[[-2.0]]).mean[0, 0]
    assert up - down == pytest.approx(2.0, abs=0.5)
    assert model.score(long, t="t", inputs=["u"], series="run") > -1.0
    with pytest.raises(nsde.Error, match="inputs: the model has 1 control inputs"):
        model.forecast(1)


def test_missing_values_and_short_series_are_taken() -> None:
    _, x = waves(30)
    x[5:8, 0] = np.nan
    model = nsde.NSDEForecaster(**SMALL, validation=0.0).fit([x, x[:4]])
    assert model.forecast(2).mean.shape == (2, 2, 2)


def test_estimators_are_cloned_and_pickled(fitted: nsde.NSDEForecaster) -> None:
    fresh: Any = clone(fitted)
    assert fresh.get_params() == fitted.get_params() and not hasattr(fresh, "model_")
    back = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(back.forecast(3).cov, fitted.forecast(3).cov)
    forecast = pickle.loads(pickle.dumps(fitted.forecast(3)))
    assert forecast.sample(2).shape == (2, 3, 2)


def test_the_same_seed_gives_the_same_model() -> None:
    t, x = waves()
    first, again = (nsde.NSDEForecaster(**SMALL, random_state=5).fit(x, t) for _ in range(2))
    other = nsde.NSDEForecaster(**SMALL, random_state=6).fit(x, t)
    assert first.model_.to_bytes() == again.model_.to_bytes() != other.model_.to_bytes()


def test_progress_is_told_and_may_stop() -> None:
    t, x = waves()
    seen: list[nsde.Progress] = []
    nsde.NSDEForecaster(**SMALL, progress=seen.append).fit(x, t)
    assert seen[-1].step == seen[-1].steps == 40 and seen[-1].validation is not None
    stopped = nsde.NSDEForecaster(steps=10**6, progress=lambda at: at.step >= 1).fit(x, t)
    assert stopped.interrupted_ and stopped.forecast(2).mean.shape == (2, 2)

    class Bar:
        made: list[Bar] = []

        def __init__(self, total: int, desc: str) -> None:
            self.total, self.n, self.closed = total, 0, False
            Bar.made.append(self)

        def update(self, by: int) -> None:
            self.n += by

        def close(self) -> None:
            self.closed = True

    nsde.NSDEForecaster(**SMALL, progress=Bar).fit(x, t)
    assert [(bar.n, bar.total, bar.closed) for bar in Bar.made] == [(40, 40, True)]
    nsde.NSDEForecaster(**SMALL, progress=True).fit(x, t)


def test_ctrl_c_keeps_the_best_model_so_far(request: pytest.FixtureRequest) -> None:
    import _thread

    # A job in the background of a shell ignores Ctrl-C, and so would this test.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    t, x = waves()
    timer = threading.Timer(1.5, _thread.interrupt_main)
    timer.start()
    with pytest.warns(UserWarning, match="the best model so far is kept"):
        model = nsde.NSDEForecaster(hidden=(8,), noise_hidden=(8,), steps=10**6, validate_every=5).fit(x, t)
    timer.cancel()
    assert model.interrupted_ and model.history_ and model.forecast(2).mean.shape == (2, 2)


def test_a_regression_knows_its_spread() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 1))
    y = 3 + np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=400)
    model = nsde.NSDERegressor(steps=400, hidden=(20,), flow_steps=4, latent=3).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert model.score(X, y) > 0.85 and 0.1 < np.mean(std) < 0.35
    assert model.nll(X, y) == pytest.approx(nsde.metrics.nll(mean, std**2, y))
    assert model.nll(X, y) < 0.2
    two = nsde.NSDERegressor(**SMALL, latent=3).fit(X, np.stack([y, -y], axis=1))
    mean, cov = two.predict(X, return_cov=True)
    assert mean.shape == (400, 2) and cov.shape == (400, 2, 2)
    assert cross_val_score(nsde.NSDERegressor(**SMALL), X, y, cv=2).shape == (2,)


def test_classes_keep_their_names() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    model = nsde.NSDEClassifier(steps=300, latent=3, hidden=(20,), flow_steps=4).fit(X, y)
    assert list(model.classes_) == ["other", "same"] and set(model.predict(X)) <= {"other", "same"}
    assert model.score(X, y) > 0.9
    assert nsde.metrics.ece(model.predict_proba(X), (y == "same").astype(int)) < 0.2
    columns = {"a": X[:, 0], "b": X[:, 1]}
    named: Any = nsde.NSDEClassifier(**SMALL).fit(pd.DataFrame(columns), y)
    assert named.feature_names_in_.tolist() == ["a", "b"]
    polar = nsde.NSDEClassifier(**SMALL).fit(pl.DataFrame(columns), y)
    assert np.array_equal(polar.predict_proba(pl.DataFrame(columns)), named.predict_proba(pd.DataFrame(columns)))


@pytest.mark.skipif(cli() is None, reason="the command line is not built; set NSDE_CLI")
def test_the_command_line_uses_fitted_models(fitted: nsde.NSDEForecaster, tmp_path: Path) -> None:
    fitted.model_.save(tmp_path / "m.safetensors")
    t, x = waves()
    pd.DataFrame({"t": t, "x0": x[:, 0], "x1": x[:, 1]}).to_csv(tmp_path / "x.csv", index=False)
    run = [str(cli()), "forecast", "m.safetensors", "--data", "x.csv", "--steps", "3"]
    assert "x0" in subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    table = pd.DataFrame({"a": t, "b": x[:, 1]})
    price = pd.Series(x[:, 0], name="price")
    regressor = nsde.NSDERegressor(**SMALL).fit(table, price)
    regressor.model_.save(tmp_path / "r.safetensors")
    table.to_csv(tmp_path / "table.csv", index=False)
    run = [str(cli()), "predict-table", "r.safetensors", "--data", "table.csv", "--output", "out.csv"]
    subprocess.run(run, cwd=tmp_path, check=True, capture_output=True)
    printed = pd.read_csv(tmp_path / "out.csv")
    column = next(c for c in printed.columns if c.startswith("price"))
    np.testing.assert_allclose(printed[column], np.asarray(regressor.predict(table)), rtol=1e-5)


def test_errors_say_what_was_expected() -> None:
    t, x = waves(30)
    small = nsde.NSDEForecaster(**SMALL)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"activation": "swish"}, "`swish` is not known; use one of relu"),
        ({"diffusion": "thick"}, "use diagonal, full, constant or none"),
        ({"horizon": 100}, "shorter than a training series"),
        ({"method": "euler"}, "use 'bmm', 'cubature' or 'mc'"),
        ({"steps": 0}, "steps is 0, but must be at least 1"),
    ]
    for settings, why in cases:
        with pytest.raises(nsde.Error, match=why):
            nsde.NSDEForecaster(**{**SMALL, **settings}).fit(x, t)
    with pytest.raises(nsde.Error, match="strictly increasing times in series 0"):
        small.fit(x, t[::-1])
    with pytest.raises(nsde.Error, match=r"t: expected shape \[30\] for series 0, found \[29\]"):
        small.fit(x, t[1:])
    with pytest.raises(nsde.Error, match="column 'name' holds no numbers"):
        small.fit(pd.DataFrame({"x": t, "name": "n"}))
    with pytest.raises(nsde.Error, match="there is no column 'when'; there are x"):
        small.fit(pd.DataFrame({"x": t}), t="when")
    with pytest.raises(nsde.Error, match="expected at least two classes"):
        nsde.NSDEClassifier(**SMALL).fit(x, np.zeros(30))


def test_a_forecast_is_plotted(fitted: nsde.NSDEForecaster, tmp_path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    axes = fitted.forecast(30).plot(0.8)
    assert len(axes) == 2 and axes[1].get_ylabel() == "x1"
    axes[0].figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000
