"""Many models on many machines: estimators on a Ray cluster.

Every fit and every forecast is a task of its own. A worker or a machine that dies loses no result: Ray runs its tasks
again elsewhere, at most ``retries`` times each, and the same seed gives the same model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import ray
from sklearn.base import BaseEstimator, clone

from ._core import Error

if TYPE_CHECKING:
    from ._forecast import Forecast
    from ._forecaster import NSDEForecaster

__all__ = ["fit_many", "forecast_many"]

_Estimator = TypeVar("_Estimator", bound=BaseEstimator)

#: How often the task of a dead worker is run again, unless somebody says otherwise.
RETRIES = 3


def _fit(estimator: Any, data: Any, settings: dict[str, Any]) -> Any:
    arguments = data if isinstance(data, tuple) else (data,)
    if settings:
        estimator.set_params(**settings)
    return estimator.fit(*arguments)


def _forecast(estimator: Any, arguments: dict[str, Any]) -> Any:
    return estimator.forecast(**arguments)


def fit_many(
    estimator: _Estimator | list[_Estimator],
    data: Iterable[Any],
    settings: Sequence[Mapping[str, Any]] | None = None,
    *,
    retries: int = RETRIES,
    num_cpus: float = 1.0,
) -> list[_Estimator]:
    """Fits one estimator to each of ``data``: series, splits, or the same data with other ``settings``.

    An element of ``data`` is what ``fit`` takes, a tuple for several arguments: ``(X, y)``, ``(X, t)``, … ``settings``
    are parameters for each of them. ``estimator`` is cloned for each, or a list of as many. Ray must be running, or is
    started on this machine. Results come in the order of ``data``.
    """
    items = list(data)
    many = estimator if isinstance(estimator, list) else [clone(estimator) for _ in items]
    changes = [{} for _ in items] if settings is None else [dict(s) for s in settings]
    if len(many) != len(items) or len(changes) != len(items):
        raise Error(
            f"data: expected as many as estimators and settings, found {len(items)}, {len(many)} and {len(changes)}"
        )
    return _run(_fit, zip(many, items, changes), retries, num_cpus)


def forecast_many(
    estimators: Sequence[NSDEForecaster],
    arguments: Sequence[Mapping[str, Any]] | None = None,
    *,
    retries: int = RETRIES,
    num_cpus: float = 1.0,
    **shared: Any,
) -> list[Forecast]:
    """Forecasts with each of ``estimators``; keywords are those of ``forecast``, for all (``shared``) or for each.

    ``forecast_many(models, steps=20)``, or ``forecast_many(models, [{"X": x} for x in contexts], steps=20)``.
    """
    each = [{} for _ in estimators] if arguments is None else [dict(a) for a in arguments]
    if len(each) != len(estimators):
        raise Error(f"arguments: expected {len(estimators)}, one for each estimator, found {len(each)}")
    return _run(_forecast, zip(estimators, ({**shared, **a} for a in each)), retries, num_cpus)


def _run(work: Any, calls: Iterable[tuple[Any, ...]], retries: int, num_cpus: float) -> list[Any]:
    if not ray.is_initialized():
        ray.init()
    # Rayon's threads are as many as the task was promised.
    threads = {"env_vars": {"RAYON_NUM_THREADS": str(max(1, int(num_cpus)))}}
    task: Any = ray.remote(max_retries=retries, num_cpus=num_cpus, runtime_env=threads)(work)
    return list(ray.get([task.remote(*call) for call in calls]))
