"""Time series in any of the forms people have them: arrays, lists of arrays, pandas and polars frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray, floats
from ._core import Error

#: Seconds in the units of time, the largest first.
_UNITS = {"d": 86_400.0, "h": 3600.0, "min": 60.0, "s": 1.0}


@dataclass
class Clock:
    """How times are counted: numbers as they are, stamps from an origin in a unit."""

    origin: np.datetime64 | None = None
    unit: str | None = None

    def read(self, t: npt.NDArray[Any]) -> FloatArray:
        """Times as numbers."""
        if t.dtype.kind != "M":
            if self.origin is not None:
                raise Error(f"t: expected time stamps as in training, found dtype {t.dtype}")
            return floats("t", t)
        if self.origin is None or self.unit is None:
            raise Error("t: expected numbers as in training, found time stamps")
        nanos: FloatArray = (t - self.origin) / np.timedelta64(1, "ns")
        return nanos / (1e9 * _UNITS[self.unit])

    def stamps(self, t: FloatArray) -> npt.NDArray[Any]:
        """Numbers as times: the stamps again, if there were any."""
        if self.origin is None or self.unit is None:
            return t
        nanos = np.round(t * _UNITS[self.unit] * 1e9).astype("timedelta64[ns]")
        return cast("npt.NDArray[Any]", self.origin.astype("datetime64[ns]") + nanos)


class Series(NamedTuple):
    """One series."""

    #: Strictly increasing, [N].
    times: FloatArray
    #: The state, [N, D]; NaN where it was not measured.
    values: FloatArray
    #: Control inputs, [N, U]; row ``n`` acts between the times ``n`` and ``n + 1``.
    inputs: FloatArray


@dataclass
class Data:
    """Series with the same columns."""

    series: list[Series]
    columns: list[str]
    input_columns: list[str]
    clock: Clock
    #: Whether one series was given, not a list of them.
    single: bool
    #: Whether the columns have names of their own.
    named: bool


@dataclass
class _Table:
    """One series before its times are read."""

    values: dict[str, npt.NDArray[Any]]
    inputs: dict[str, npt.NDArray[Any]]
    times: npt.NDArray[Any] | None
    rows: int = field(default=0)


def read(X: Any, t: Any = None, inputs: Any = None, series: str | None = None, clock: Clock | None = None) -> Data:
    """Reads what ``fit`` and ``forecast`` accept; with a ``clock`` times are counted as it says."""
    tables, single = _tables(X, t, inputs, series)
    if not tables:
        raise Error("X: expected at least one series, found none")
    first = tables[0]
    for n, table in enumerate(tables):
        if list(table.values) != list(first.values) or list(table.inputs) != list(first.inputs):
            raise Error(f"X: series {n} has the columns {list(table.values)}, the first one {list(first.values)}")
    if clock is None:
        clock = _clock([table.times for table in tables])
    parts = [_one(n, table, clock) for n, table in enumerate(tables)]
    named = _is_frame(X[0] if isinstance(X, (list, tuple)) else X)
    return Data(parts, list(first.values), list(first.inputs), clock, single, named)


def _tables(X: Any, t: Any, inputs: Any, series: str | None) -> tuple[list[_Table], bool]:
    if _is_frame(X):
        return _of_frame(X, t, inputs, series)
    if series is not None:
        raise Error("series: names a column of a DataFrame; give arrays as a list of series")
    if isinstance(X, (list, tuple)) and X and (_is_frame(X[0]) or isinstance(X[0], np.ndarray) and X[0].ndim):
        many: Sequence[Any] = X
    elif isinstance(X, np.ndarray) and X.ndim == 3:
        many = list(X)
    else:
        return [_of_array(X, t, inputs)], True

    def part(of: Any, n: int) -> Any:
        if of is None or isinstance(of, str) or (isinstance(of, np.ndarray) and of.ndim == 1):
            return of
        if isinstance(of, (list, tuple)) and of and isinstance(of[0], str):
            return of
        if len(of) != len(many):
            raise Error(f"t, inputs: expected one array for each of {len(many)} series, found {len(of)}")
        return of[n]

    tables = []
    for n, one in enumerate(many):
        own = (part(t, n), part(inputs, n))
        tables.append(_of_frame(one, *own, None)[0][0] if _is_frame(one) else _of_array(one, *own))
    return tables, False


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def _column(frame: Any, name: str) -> npt.NDArray[Any]:
    values = np.asarray(frame[name].to_numpy())
    if values.dtype.kind in "Mfiub":
        return values
    try:
        return np.asarray(frame[name].to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        pass
    try:  # pandas' own missing value
        return cast("npt.NDArray[Any]", frame[name].to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        raise Error(
            f"X: column {name!r} holds no numbers ({values.dtype}); leave it out, or name it as t= or series="
        ) from None


def _of_frame(X: Any, t: Any, inputs: Any, series: str | None) -> tuple[list[_Table], bool]:
    names = [str(name) for name in X.columns]
    if list(X.columns) != names:
        X = X.rename(columns=dict(zip(X.columns, names)))
    used: list[str] = []
    if isinstance(inputs, str):
        inputs = [inputs]
    own_inputs = isinstance(inputs, (list, tuple)) and bool(inputs) and isinstance(inputs[0], str)
    for name in [t if isinstance(t, str) else None, series, *(inputs if own_inputs else [])]:
        if name is not None and name not in names:
            raise Error(f"X: there is no column {name!r}; there are {', '.join(names)}")
        used += [] if name is None else [name]
    if isinstance(t, str):
        times: npt.NDArray[Any] | None = _stamps(X[t])
    elif t is None and hasattr(X, "index") and getattr(X.index, "dtype", np.dtype(float)).kind == "M":
        times = _stamps(X.index)
    else:
        times = None if t is None else _stamps(t)
    values = {name: _column(X, name) for name in names if name not in used}
    for name, column in values.items():
        if column.dtype.kind == "M":
            raise Error(f"X: column {name!r} holds time stamps; name it as t=")
    if own_inputs:
        given = {name: _column(X, name) for name in inputs}
    else:
        given = {} if inputs is None else _named(inputs, "u")
    whole = _Table(values, given, times, len(X))
    if series is None:
        return [whole], True
    keys = np.asarray(X[series].to_numpy())
    return [_rows(whole, keys == key) for key in dict.fromkeys(keys.tolist())], False


def _rows(table: _Table, where: npt.NDArray[np.bool_]) -> _Table:
    def pick(columns: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        return {name: values[where] for name, values in columns.items()}

    times = None if table.times is None else table.times[where]
    return _Table(pick(table.values), pick(table.inputs), times, int(where.sum()))


def _stamps(t: Any) -> npt.NDArray[Any]:
    """Times as numbers or as datetime64 without a zone."""
    if getattr(getattr(t, "dtype", None), "tz", None) is not None:
        t = t.dt.tz_convert(None) if hasattr(t, "dt") else t.tz_convert(None)
    array = np.asarray(t.to_numpy() if hasattr(t, "to_numpy") else t)
    if array.dtype.kind in "OU":
        try:
            return array.astype("datetime64[ns]")
        except (TypeError, ValueError):
            raise Error(f"t: expected numbers or time stamps, found {array.ravel()[:1].tolist()}") from None
    return array.astype("datetime64[ns]") if array.dtype.kind == "M" else array


def _named(values: Any, letter: str) -> dict[str, npt.NDArray[Any]]:
    array = floats("X" if letter == "x" else "inputs", values)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2:
        raise Error(f"X, inputs: expected shape [rows] or [rows, columns], found {list(array.shape)}")
    return {f"{letter}{i}": array[:, i] for i in range(array.shape[1])}


def _of_array(X: Any, t: Any, inputs: Any) -> _Table:
    values = _named(X, "x")
    rows = len(next(iter(values.values()))) if values else 0
    if isinstance(t, str) or isinstance(inputs, str):
        raise Error("t, inputs: names of columns need a DataFrame; give arrays")
    given = {} if inputs is None else _named(inputs, "u")
    return _Table(values, given, None if t is None else _stamps(t), rows)


def _clock(times: Sequence[npt.NDArray[Any] | None]) -> Clock:
    """Stamps count from the earliest, in the largest unit in which their median spacing is at least 1."""
    stamps = [t for t in times if t is not None and t.dtype.kind == "M"]
    if not stamps:
        return Clock()
    if len(stamps) < len(times):
        raise Error("t: expected time stamps for all series or for none")
    spacings = np.concatenate([np.diff(t) for t in stamps]) / np.timedelta64(1, "ns") / 1e9
    spacing = float(np.median(spacings)) if spacings.size else 1.0
    unit = next((name for name, seconds in _UNITS.items() if seconds <= spacing), "s")
    return Clock(min(t.min() for t in stamps), unit)


def _one(n: int, table: _Table, clock: Clock) -> Series:
    def matrix(columns: dict[str, npt.NDArray[Any]], what: str) -> FloatArray:
        for name, values in columns.items():
            if len(values) != table.rows:
                raise Error(f"{what}: expected {table.rows} rows in series {n}, found {len(values)} in {name!r}")
        if not columns:
            return np.zeros((table.rows, 0))
        return np.ascontiguousarray(np.stack(list(columns.values()), axis=1), dtype=np.float64)

    values, inputs = matrix(table.values, "X"), matrix(table.inputs, "inputs")
    if values.shape[1] == 0:
        raise Error("X: expected at least one column for the state, found none")
    if np.isinf(values).any():
        raise Error(f"X: series {n} has infinite values; they must be finite, or NaN where they are missing")
    if not np.isfinite(inputs).all():
        raise Error(f"inputs: those of series {n} are not all finite")
    times = np.arange(float(table.rows)) if table.times is None else clock.read(table.times)
    if times.shape != (table.rows,):
        raise Error(f"t: expected shape [{table.rows}] for series {n}, found {list(times.shape)}")
    if not (np.isfinite(times).all() and (np.diff(times) > 0).all()):
        raise Error(f"t: expected strictly increasing times in series {n}")
    return Series(times, values, inputs)
