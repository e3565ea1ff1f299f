"""Reading arrays: float64 and C-contiguous, without a copy where they are so already."""

from __future__ import annotations

from typing import Any, Union, cast

import numpy as np
import numpy.typing as npt

from ._core import Error

FloatArray = npt.NDArray[np.float64]
ArrayLike = npt.ArrayLike
#: A point, many points [batch, D], or ``(mean, cov)`` of one Gaussian or of many.
Start = Union[ArrayLike, tuple[ArrayLike, ArrayLike]]


def floats(name: str, value: ArrayLike) -> FloatArray:
    """``value`` as float64 in C order; the very same array if it is one."""
    try:
        array = np.asarray(value)
    except ValueError as why:
        raise Error(f"{name}: expected an array of numbers (float64), found {why}") from None
    if array.dtype.kind not in "fiub":
        raise Error(f"{name}: expected an array of numbers (float64), found dtype {array.dtype}")
    return np.asarray(array, dtype=np.float64, order="C")


def shaped(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> FloatArray:
    """The same, of a shape; ``None`` stands for any number."""
    array = floats(name, value)
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise Error(f"{name}: expected shape [{wanted}], found {list(array.shape)}")
    return array


def start(x0: Start) -> tuple[FloatArray, FloatArray | None]:
    """Means [batch, D] and covariances, if there are any."""
    cov = None
    if isinstance(x0, tuple):
        if len(x0) != 2 or np.ndim(cast(Any, x0[0])) == 0:
            raise Error("x0: a tuple is (mean, cov), two arrays; give a point as a list or an array")
        x0, given = x0
        cov = floats("cov", given)
        if cov.ndim not in (2, 3):
            raise Error(f"cov: expected shape [D, D] or [batch, D, D], found {list(cov.shape)}")
    mean = floats("x0", cast(Any, x0))
    if mean.ndim == 1:
        mean = mean[np.newaxis]
    if mean.ndim != 2:
        raise Error(f"x0: expected shape [D] or [batch, D], found {list(mean.shape)}")
    return mean, cov


def units(
    name: str, given: tuple[ArrayLike, ArrayLike] | None, width: int
) -> tuple[FloatArray, FloatArray] | None:
    """Mean and deviation of each dimension, if they are given."""
    if given is None:
        return None
    mean, std = given
    return shaped(f"{name}: mean", mean, (width,)), shaped(f"{name}: std", std, (width,))
