"""Many models on a Ray cluster of two worker nodes, one of which is killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

import nsde
from nsde import distributed

pytestmark = pytest.mark.ray


class Slow(nsde.NSDEForecaster):
    """Leaves a mark where it works, and takes its time."""

    def fit(self, X: Any, t: Any = None, inputs: Any = None, *, series: str | None = None) -> nsde.NSDEForecaster:
        marks, X = X
        node = ray.get_runtime_context().get_node_id()
        (Path(marks) / f"{time.time_ns()}-{node}").touch()
        time.sleep(2.0)
        return super().fit(X, t, inputs, series=series)


SMALL: dict[str, Any] = {"hidden": (6,), "noise_hidden": (4,), "steps": 20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    # The workers import this file.
    ray.init(address=cluster.address, runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}})
    yield cluster
    ray.shutdown()
    cast(Any, cluster).shutdown()


def waves(n: int) -> list[np.ndarray]:
    return [np.sin(0.1 * np.arange(60) + phase)[:, None] for phase in range(n)]


def test_settings_and_forecasts_come_in_order(cluster: Cluster) -> None:
    settings = [{"hidden": (4,)}, {"hidden": (5,)}, {"hidden": (6,)}]
    models: list[nsde.NSDEForecaster] = distributed.fit_many(nsde.NSDEForecaster(**SMALL), waves(3), settings)
    assert [len(model.model_.parameters["drift.0.bias"]) for model in models] == [4, 5, 6]
    here = nsde.NSDEForecaster(**SMALL).fit(waves(3)[2])
    assert models[2].model_.to_bytes() == here.model_.to_bytes()
    forecasts = distributed.forecast_many(models, steps=4)
    assert np.array_equal(forecasts[2].mean, here.forecast(4).mean)
    each = distributed.forecast_many(models, [{"X": x} for x in waves(3)], steps=2)
    assert [f.mean.shape for f in each] == [(2, 1)] * 3
    with pytest.raises(nsde.Error, match="expected 3, one for each estimator, found 1"):
        distributed.forecast_many(models, [{}])


def test_nothing_is_lost_when_a_node_dies(cluster: Cluster, tmp_path: Path) -> None:
    data = [((str(tmp_path), x),) for x in waves(6)]
    victim = sorted(cluster.worker_nodes, key=lambda node: node.node_id)[0]
    killed = threading.Event()

    def kill() -> None:
        # In the middle: the victim is at work.
        deadline = time.time() + 60
        while time.time() < deadline and not any(victim.node_id in p.name for p in tmp_path.iterdir()):
            time.sleep(0.1)
        cluster.remove_node(victim, allow_graceful=False)
        killed.set()

    thread = threading.Thread(target=kill)
    thread.start()
    models: list[nsde.NSDEForecaster] = distributed.fit_many(Slow(**SMALL), data)
    thread.join()
    assert killed.is_set() and len(models) == 6
    marks = [p.name for p in tmp_path.iterdir()]
    assert any(victim.node_id in name for name in marks) and len(marks) > 6, "a fit was begun twice"
    for model, x in zip(models, waves(6)):
        assert model.model_.to_bytes() == nsde.NSDEForecaster(**SMALL).fit(x).model_.to_bytes()
