"""Roll-up: of what is old the newest vintage stays, and values of less than an hour become one.

Vintages go whatever runs, since a decision keeps what it saw and accounts use the newest; values are joined only where
no account needs them any more. The mean of an hour, the time that is covered, and gaps stay as they were. Every step is
a small transaction, and doing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple

from chase.store.connect import write
from chase.store.points import HOUR_S, Kept, Seconds, insert, label_id, reaches
from providers.base import Kind

if TYPE_CHECKING:
    from sqlite_utils import Database

_STARTS = 100  # whose vintages go in one transaction, up to 48 of each with a forecast of two days
_HOURS = 200
_RANK = {str(kind): rank for rank, kind in enumerate(Kind)}  # declared from the best to the least
_MIXED = "mixed"


class _Row(NamedTuple):
    id: int
    label: int
    start: Seconds
    length: Seconds
    value: float
    issued: Seconds | None
    updated: Seconds | None
    fetched: Seconds

    @property
    def end(self) -> Seconds:
        return self.start + self.length

    @property
    def hour(self) -> int:
        return int(self.start // HOUR_S)

    @property
    def made(self) -> Seconds:
        return self.fetched if self.issued is None else self.issued


def roll_up(db: Database, kept: Kept[Any], *, thin_before: Seconds, join_before: Seconds) -> int:
    """How many rows fewer there are. Both times, in seconds since 1970, are taken down to the full hour."""
    thin_before, join_before = (time // HOUR_S * HOUR_S for time in (thin_before, min(join_before, thin_before)))
    fewer = 0
    for series, longest_s in db.conn.execute(f"SELECT id, longest_s FROM {kept.series}").fetchall():
        fewer += sum(_thinned(db, kept, series, thin_before))
        fewer += sum(_joined(db, kept, series, longest_s, join_before))
    return fewer


def _thinned(db: Database, kept: Kept[Any], series: int, before: Seconds) -> Iterator[int]:
    crowded = (
        f"SELECT start_unix_s FROM {kept.rows} WHERE series_id = ? AND start_unix_s < ?"
        " GROUP BY start_unix_s HAVING count(*) > 1 ORDER BY start_unix_s LIMIT ?"
    )
    while starts := [start for (start,) in db.conn.execute(crowded, (series, before, _STARTS))]:
        with write(db):
            rows = _rows(db, kept, series, starts[0], starts[-1])
            too_many = list(_too_many(rows, kept))
            _delete(db, kept, too_many)
        yield len(too_many)


def _too_many(rows: Iterable[_Row], kept: Kept[Any]) -> Iterator[int]:
    for _, group in groupby(rows, key=lambda row: row.start):
        vintages = list(group)
        stays = _last_before(vintages) if kept.hourly else vintages[-1]
        yield from (row.id for row in vintages if row.id != stays.id)


def _last_before(vintages: Sequence[_Row]) -> _Row:
    """Of forecasts the last one made before the hour began, or else the earliest."""
    hour_s = vintages[0].hour * HOUR_S
    in_time = [row for row in vintages if row.made <= hour_s]
    if not in_time:
        return min(vintages, key=lambda row: (row.made, row.id))
    return max(in_time, key=lambda row: (row.made, row.id))


def _joined(db: Database, kept: Kept[Any], series: int, longest_s: Seconds, before: Seconds) -> Iterator[int]:
    short = (
        f"SELECT DISTINCT start_unix_s / {HOUR_S} FROM {kept.rows} WHERE series_id = ?"
        f" AND start_unix_s >= ? AND start_unix_s < ? AND length_s < {HOUR_S} ORDER BY 1 LIMIT ?"
    )
    after: Seconds = -(2**62)
    while hours := {int(hour) for (hour,) in db.conn.execute(short, (series, after, before, _HOURS))}:
        after = (max(hours) + 1) * HOUR_S
        with write(db):
            rows = _rows(db, kept, series, min(hours) * HOUR_S - longest_s, after)
            runs = list(_runs([row for row in rows if row.start < after], hours))
            labels = _labels(db, {row.label for run in runs for row in run})
            _delete(db, kept, [row.id for run in runs for row in run])
            insert(db, kept, [(series, *_one(db, run, labels)) for run in runs])
            reaches(db, kept, series, max((run[-1].end - run[0].start for run in runs), default=0))
        yield sum(len(run) - 1 for run in runs)


def _runs(rows: Sequence[_Row], hours: Iterable[int]) -> Iterator[list[_Row]]:
    """Rows that follow one another without a gap inside one of ``hours``; none in an hour where any overlap."""
    wanted = set(hours) - set(_tangled(rows))
    for hour, group in groupby(rows, key=lambda row: row.hour):
        if hour in wanted:
            yield from (run for run in _unbroken(group) if len(run) > 1)


def _tangled(rows: Sequence[_Row]) -> Iterator[int]:
    """The hours in which one row reaches into another, or out of the hour."""
    reach: Seconds = -(2**62)
    for row in rows:
        if row.start < reach or row.end > (row.hour + 1) * HOUR_S:
            yield row.hour
        reach = max(reach, row.end)
    for row, following in pairwise(rows):
        if row.end > following.start:
            yield row.hour


def _unbroken(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    run: list[_Row] = []
    for row in rows:
        if run and run[-1].end != row.start:
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _one(db: Database, run: Sequence[_Row], labels: Mapping[int, tuple[str, str]]) -> tuple[Any, ...]:
    """The mean of a run over its time, with the worst of its kinds and the newest of its times."""
    length = run[-1].end - run[0].start
    mean = fsum(row.value * row.length for row in run) / length
    kinds, remarks = (set(texts) for texts in zip(*(labels[row.label] for row in run), strict=True))
    remark = min(remarks) if len(remarks) == 1 else _MIXED
    label = label_id(db, (max(kinds, key=lambda kind: _RANK.get(kind, 0)), remark))
    return (label, run[0].start, length, mean, *(_latest(run, field) for field in ("issued", "updated", "fetched")))


def _latest(run: Sequence[_Row], field: str) -> Seconds | None:
    return max((time for row in run if (time := getattr(row, field)) is not None), default=None)


def _labels(db: Database, wanted: Iterable[int]) -> dict[int, tuple[str, str]]:
    read = "SELECT kind, remark FROM labels WHERE id = ?"
    return {label: db.conn.execute(read, (label,)).fetchone() for label in wanted}


def _rows(db: Database, kept: Kept[Any], series: int, first: Seconds, last: Seconds) -> list[_Row]:
    """Those that begin from ``first`` to ``last``, by start, and of one start in the order they were added."""
    sql = (
        f"SELECT id, label_id, start_unix_s, length_s, {kept.value}, issued_unix_s, updated_unix_s, fetched_unix_s"
        f" FROM {kept.rows} WHERE series_id = ? AND start_unix_s BETWEEN ? AND ? ORDER BY start_unix_s, id"
    )
    return [_Row(*row) for row in db.conn.execute(sql, (series, first, last))]


def _delete(db: Database, kept: Kept[Any], numbers: Sequence[int]) -> None:
    db.conn.executemany(f"DELETE FROM {kept.rows} WHERE id = ?", [(number,) for number in numbers])
