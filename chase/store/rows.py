"""Between the records and their rows. Nothing that is not finite, UTC or plain JSON gets past here.

A shape maps each field of a record to one column; the kind of the column gives its name a suffix (``at`` is stored as
``at_utc``, ``inputs`` as ``inputs_json``) and converts both ways. None is NULL for every kind.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from hashlib import blake2b
from numbers import Integral, Real
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any, Generic, TypeVar

from chase.records import (
    DecisionRecord,
    EventRecord,
    HoldRecord,
    IntervalRecord,
    JobRecord,
    RecurrenceRecord,
    TrialRecord,
)
from zeus_core.plain import Plain

R = TypeVar("R")
_INT64 = 2**63
_REALS, _TEXTS = frozenset({float, NoneType}), frozenset({str, NoneType})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc_text(at: datetime, name: str = "the time") -> str:
    """One width for all, so that text order is time order. Raises ``ValueError`` for a time that is not aware UTC."""
    if at.tzinfo is not UTC and at.utcoffset() != timedelta(0):
        raise ValueError(f"{name} must be an aware UTC time, not {at!r}")
    return f"{at.isoformat(timespec='microseconds')[:26]}Z"


def utc_time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.utcoffset() != timedelta(0):
        raise ValueError(f"{text!r} is not a time in UTC")
    return at


def unix_s(at: datetime, name: str = "the time") -> int | float:
    """Seconds since 1970, an integer where they are whole. Raises ``ValueError`` for a time that is not aware UTC."""
    if at.tzinfo is not UTC and at.utcoffset() != timedelta(0):
        raise ValueError(f"{name} must be an aware UTC time, not {at!r}")
    return seconds_of(at - _EPOCH)


def at_unix(seconds: float) -> datetime:
    """The inverse, to the microsecond within a century of 1970."""
    return _EPOCH + timedelta(seconds=seconds)


def seconds_of(span: timedelta) -> int | float:
    return span.total_seconds() if span.microseconds else span.days * 86400 + span.seconds


def unix_of(text: str | None) -> int | float | None:
    """For SQL: our text as seconds since 1970, None where there is none or it cannot be read."""
    try:
        return None if text is None else unix_s(utc_time(text))
    except ValueError:
        return None


def span_of(start: str, end: str) -> int | float | None:
    """For SQL: seconds from one text to the other, None where they cannot be read."""
    try:
        return seconds_of(utc_time(end) - utc_time(start))
    except ValueError:
        return None


_compact = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def json_text(value: Any, name: str) -> str:
    """Compact JSON. Raises ``ValueError`` naming the place of anything that is not finite or not JSON."""
    try:
        return value.text if isinstance(value, Plain) else "{}" if value == {} else _compact(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{_culprit(value, name)} ({error})") from None


def inputs_text(inputs: Mapping[str, Any], name: str) -> str:
    """Without the frontier, which many decisions have in common: it stands once in ``decision_frontiers``."""
    return json_text({**inputs, "frontier": None} if inputs.get("frontier") else inputs, name)


@lru_cache(maxsize=256)
def digest(text: str) -> str:
    """A name for a text that no other text of one job has."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _culprit(value: Any, name: str) -> str:
    if isinstance(value, Mapping):
        return next((text for key in value if (text := _culprit(value[key], f"{name}.{key}"))), "")
    if isinstance(value, list | tuple):
        return next((text for i, item in enumerate(value) if (text := _culprit(item, f"{name}[{i}]"))), "")
    if isinstance(value, str | bool | int | None) or (isinstance(value, float) and math.isfinite(value)):
        return ""
    return f"{name} must be finite and plain JSON, not {value!r}"


def text(value: Any, name: str) -> str:
    """Names and reasons come from command lines too, where bytes that are not UTF-8 arrive as lone surrogates."""
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, not {value!r}")  # noqa: TRY004  one kind of refusal at the edge
    return str(value).encode("utf-8", "replace").decode()


def real(value: Any, name: str) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, not {value!r}")
    return float(value)


def _integer(value: Any, name: str) -> int:
    if not isinstance(value, Integral) or not -_INT64 <= int(value) < _INT64:
        raise ValueError(f"{name} must be an integer of 64 bits, not {value!r}")
    return int(value)


@dataclass(frozen=True, slots=True)
class Column:
    suffix: str
    encode: Callable[[Any, str], Any]
    decode: Callable[[Any], Any]


TEXT = Column("", text, str)
REAL = Column("", real, float)
INTEGER = Column("", _integer, int)
FLAG = Column("", lambda value, _: int(value), bool)
TIME = Column("_utc", utc_text, utc_time)
JSON = Column("_json", json_text, json.loads)
INPUTS = Column("_json", inputs_text, json.loads)
NAMES = Column("_json", lru_cache(maxsize=256)(json_text), lambda text: tuple(json.loads(text)))


@dataclass(frozen=True)  # no slots: what is the same for all rows is worked out once
class Shape(Generic[R]):
    """One record type and its table. ``renamed`` holds the columns that are not called like their field."""

    record_type: Callable[..., R]
    table: str
    columns: Mapping[str, Column]
    renamed: Mapping[str, str] = field(default_factory=dict)

    def column(self, name: str) -> str:
        return self.renamed.get(name, name + self.columns[name].suffix)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order of ``values``."""
        return tuple(map(self.column, self._ordered))

    @cached_property
    def insert(self) -> str:
        """The SQL that adds a row of ``values``."""
        return insert_into(self.table, self.names)

    def values(self, record: R) -> tuple[Any, ...]:
        """Raises ``ValueError`` naming table and field of a value that cannot be stored."""
        others, reals, texts = self._parts
        made = [
            None if value is None else encode(value, name)
            for value, (encode, name) in zip(others.fields(record), self._encoders, strict=True)
        ]
        numbers, words = reals.fields(record), texts.fields(record)
        if not _are_real(numbers):
            numbers = reals.each(real, numbers)
        if not _are_text(words):
            words = texts.each(text, words)
        return (*made, *numbers, *words)

    def row(self, record: R) -> dict[str, Any]:
        """As ``values``, by column."""
        return dict(zip(self.names, self.values(record), strict=True))

    def record(self, row: Mapping[str, Any]) -> R:
        """The inverse of ``row``; raises ``ValueError``, ``KeyError`` or ``TypeError`` for a row that is not ours."""
        others, reals, texts = self._parts
        made = [
            None if value is None else decode(value)
            for value, decode in zip(others.columns(row), self._decoders, strict=True)
        ]
        numbers, words = reals.columns(row), texts.columns(row)
        if not _are_real(numbers):
            numbers = [None if value is None else float(value) for value in numbers]
        if not _TEXTS.issuperset(map(type, words)):
            words = [None if value is None else str(value) for value in words]
        return self.record_type(**dict(zip(self._ordered, (*made, *numbers, *words), strict=True)))

    @cached_property
    def _parts(self) -> tuple[_Part, _Part, _Part]:
        """What needs a look at each value; numbers and texts, where one look tells that all are right."""
        plain = {id(REAL), id(TEXT)}
        others = [name for name, column in self.columns.items() if id(column) not in plain]
        reals, texts = ([name for name, column in self.columns.items() if column is kind] for kind in (REAL, TEXT))
        return tuple(  # type: ignore[return-value]  # of three
            _Part(names, [f"{self.table}.{name}" for name in names], list(map(self.column, names)))
            for names in (others, reals, texts)
        )

    @cached_property
    def _ordered(self) -> tuple[str, ...]:
        return tuple(name for part in self._parts for name in part.names)

    @cached_property
    def _encoders(self) -> tuple[tuple[Callable[[Any, str], Any], str], ...]:
        part = self._parts[0]
        return tuple((self.columns[name].encode, told) for name, told in zip(part.names, part.told, strict=True))

    @cached_property
    def _decoders(self) -> tuple[Callable[[Any], Any], ...]:
        return tuple(self.columns[name].decode for name in self._parts[0].names)


class _Part:
    """Fields that are treated alike."""

    def __init__(self, names: Sequence[str], told: Sequence[str], columns: Sequence[str]) -> None:
        self.names = names
        self.told = told  # what errors call them
        self.fields = _several(attrgetter, names)
        self.columns = _several(itemgetter, columns)

    def each(self, encode: Callable[[Any, str], Any], values: Iterable[Any]) -> list[Any]:
        return [None if v is None else encode(v, told) for v, told in zip(values, self.told, strict=True)]


def _several(getter: Callable[..., Callable[[Any], Any]], names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """A getter gives one value bare, and none not at all."""
    if len(names) > 1:
        return getter(*names)
    one = getter(names[0]) if names else None
    return lambda source: () if one is None else (one(source),)


def _are_real(values: Sequence[Any]) -> bool:
    return _REALS.issuperset(map(type, values)) and math.isfinite(sum(filter(None, values)))


def _are_text(values: Sequence[Any]) -> bool:
    return _TEXTS.issuperset(map(type, values)) and "".join(filter(None, values)).isascii()


def insert_into(table: str, names: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


JOB = Shape(
    JobRecord,
    "jobs",
    {
        "id": TEXT,
        "name": TEXT,
        "uid": INTEGER,
        "pid": INTEGER,
        "gpus": NAMES,
        "units": TEXT,
        "region": TEXT,
        "registered_at": TIME,
        "total_units": REAL,
        "units_done": REAL,
        "policy": JSON,
        "state": TEXT,
        "ended_at": TIME,
        "end_reason": TEXT,
    },
)
DECISION = Shape(
    DecisionRecord,
    "decisions",
    {
        "id": INTEGER,
        "at": TIME,
        "job_id": TEXT,
        "trigger": TEXT,
        "mode": TEXT,
        "policy": TEXT,
        "code": TEXT,
        "reason": TEXT,
        "power_limit_w": REAL,
        "intensity_g_per_kwh": REAL,
        "intensity_kind": TEXT,
        "intensity_age_s": REAL,
        "control": TEXT,
        "inputs": INPUTS,
        "choice": JSON,
        "applied": JSON,
    },
)
INTERVAL = Shape(
    IntervalRecord,
    "intervals",
    {
        "job_id": TEXT,
        "start": TIME,
        "end": TIME,
        "units": REAL,
        "energy_j": REAL,
        "method": TEXT,
        "power_limit_w": REAL,
        "intensity_g_per_kwh": REAL,
        "intensity_kind": TEXT,
        "grams": REAL,
        "reference_energy_j": REAL,
        "reference_s": REAL,
        "reference_grams": REAL,
        "progress": FLAG,
        "host_energy_j": REAL,
        "reference_host_energy_j": REAL,
        "pue": REAL,
        "used_intensity_g_per_kwh": REAL,
        "used_intensity_kind": TEXT,
        "intensity_source": TEXT,
        "price_per_kwh": REAL,
        "price_kind": TEXT,
        "currency": TEXT,
        "cost": REAL,
        "reference_cost": REAL,
        "embodied_grams": REAL,
    },
)
EVENT = Shape(
    EventRecord,
    "events",
    {
        "id": INTEGER,
        "at": TIME,
        "code": TEXT,
        "severity": TEXT,
        "message": TEXT,
        "job_id": TEXT,
        "gpu": TEXT,
        "data": JSON,
    },
)
HOLD = Shape(
    HoldRecord,
    "holds",
    {"id": INTEGER, "mode": TEXT, "made_at": TIME, "uid": INTEGER, "until": TIME, "job_id": TEXT},
)
RECURRENCE = Shape(
    RecurrenceRecord,
    "recurrences",
    {
        "key": TEXT,
        "uid": INTEGER,
        "name": TEXT,
        "spec": JSON,
        "changed_at": TIME,
        "pinned_batch_size": INTEGER,
        "first_trial": INTEGER,
    },
)
TRIAL = Shape(
    TrialRecord,
    "trials",
    {
        "key": TEXT,
        "number": INTEGER,
        "job_id": TEXT,
        "batch_size": INTEGER,
        "stage": TEXT,
        "status": TEXT,
        "eta": REAL,
        "reason": TEXT,
        "began_at": TIME,
        "ended_at": TIME,
        "energy_j": REAL,
        "duration_s": REAL,
        "epochs": INTEGER,
        "metric": REAL,
        "gpu_model": TEXT,
        "max_power_w": REAL,
    },
)
