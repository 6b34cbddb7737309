"""What may change in an interval after it was written: its price, and whether it is compared with full power."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlite_utils import Database

Row = dict[str, Any]
Key = tuple[str, str]  # job and start
_REFERENCE = ("reference_grams", "reference_cost")
_PRICE = (
    *("intensity_g_per_kwh", "intensity_kind", "intensity_source", "pue", "grams"),
    *("price_per_kwh", "price_kind", "currency", "cost"),
    *_REFERENCE,
)
WRITTEN = f"SELECT job_id, start_utc, {', '.join(_PRICE)} FROM intervals WHERE job_id = ? AND start_utc BETWEEN ? AND ?"
# An interval that lost its reference in the meantime must not get a part of it back.
_SET = ", ".join(
    f"{name} = CASE WHEN reference_energy_j IS NULL THEN NULL ELSE :{name} END"
    if name in _REFERENCE
    else f"{name} = :{name}"
    for name in _PRICE
)
_UPDATE = f"UPDATE intervals SET {_SET} WHERE job_id = :job_id AND start_utc = :start_utc"
_FORGET = """UPDATE intervals SET reference_energy_j = NULL, reference_host_energy_j = NULL, reference_s = NULL,
    reference_grams = NULL, reference_cost = NULL WHERE job_id = ? AND end_utc > ?"""


def key_of(row: Row) -> Key:
    return row["job_id"], row["start_utc"]


def price_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _PRICE)


def spans(rows: Iterable[Row]) -> Iterator[tuple[str, str, str]]:
    """The parameters of ``WRITTEN`` for each job of the rows."""
    for job_id, group in groupby(sorted(map(key_of, rows)), key=lambda key: key[0]):
        starts = [start for _, start in group]
        yield job_id, starts[0], starts[-1]


def update_prices(db: Database, rows: Sequence[Row]) -> None:
    db.conn.executemany(_UPDATE, rows)


def forget_references(db: Database, job_id: str, since: str) -> None:
    db.execute(_FORGET, (job_id, since))
