"""What a person may give a ``Job`` or a ``Recurring``: checked where it is written, and made Python's own for JSON.

Each raises ``TypeError`` or ``ValueError``, and names the argument and its value.
"""

from __future__ import annotations

from contextlib import suppress
from operator import index

from chase.client.counter import MOST

TYPE_CHECKING = False  # typing itself is a tenth of what this package costs a training process
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_LONGEST_NAME = 200  # that the service takes
MOST_SIZES = 16  # as well


def named(key: str, value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{key} must be text, not {value!r}")
    if not value.strip():
        raise ValueError(f"{key} must not be empty")
    if len(value) > _LONGEST_NAME:
        raise ValueError(f"{key} must have at most {_LONGEST_NAME} letters, not {len(value)}")
    return value


def whole(key: str, value: Any) -> int:
    """Numpy's are as good."""
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        with suppress(TypeError):  # a tensor that is none
            return index(value)
    raise TypeError(f"{key} must be a whole number, not {value!r}")


def wholes(key: str, values: Any) -> tuple[int, ...]:
    return tuple(whole(key, value) for value in many(key, values))


def real(key: str, value: Any, *, wanted: str = "a number") -> float:
    """A tensor of one number is as good."""
    if not isinstance(value, (str, bytes, bool)) and hasattr(value, "__float__"):
        with suppress(TypeError, ValueError, RuntimeError):  # a tensor of several
            return float(value)
    raise TypeError(f"{key} must be {wanted}, not {value!r}")


def many(key: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{key} must be a list, not {values!r}")
    return tuple(values)


def total(total_units: float | None) -> float | None:
    if total_units is None:
        return None
    value = real("total_units", total_units, wanted="a number or None")
    if not 0 < value <= MOST:  # false for NaN
        raise ValueError(f"total_units must be a positive number or None, not {total_units!r}")
    return value


def own_and_others(own: int | None, sizes: Sequence[int]) -> tuple[int | None, tuple[int, ...] | None]:
    """``batch_size`` and ``batch_sizes`` as they are sent. Raises for what the service would refuse."""
    said = many("batch_sizes", sizes)
    if own is None and not said:
        return None, None
    try:
        own, listed = whole("batch_size", own), wholes("batch_sizes", said)
    except TypeError:
        text = "batch_size and batch_sizes must be whole numbers"
        raise TypeError(f"{text}, not {own!r} and {list(said)!r}") from None
    if own not in listed or min(listed) < 1 or len({*listed}) < len(listed) or len(listed) > MOST_SIZES:
        text = f"1 to {MOST_SIZES} different numbers from 1, with batch_size {own!r} among them"
        raise ValueError(f"batch_sizes must be {text}, not {list(listed)!r}")
    return own, listed


def part_of(joint: str | None) -> str | None:
    if joint not in {None, "leads", "follows"}:
        raise ValueError(f"joint must be 'leads', 'follows' or None, not {joint!r}")
    return joint


def gpu_list(gpus: Sequence[str | int]) -> tuple[str | int, ...]:
    listed = many("gpus", gpus)
    if not all(isinstance(gpu, (str, int)) and not isinstance(gpu, bool) for gpu in listed):
        raise TypeError(f"gpus must be a list of UUIDs or indices, not {gpus!r}")
    if not listed:
        raise ValueError("gpus must not be empty; None means those that CUDA_VISIBLE_DEVICES shows")
    return listed


def plain(policy: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that no later change of the caller's reaches. Raises for what JSON cannot carry."""
    import json

    if not hasattr(policy, "keys"):
        raise TypeError(f"policy must be a table of the policy's keys, not {policy!r}")
    copied: dict[str, Any] = json.loads(json.dumps(dict(policy), allow_nan=False, default=_time))
    return copied


def _time(value: object) -> str:
    """Of a deadline, as text."""
    from datetime import datetime

    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a policy is sent as JSON, which has no {type(value).__name__}")
