"""ENTSO-E's market documents: time series out of generation (A75) and price (A44) documents alike.

A Period has a resolution and points by position, 1 being its start. Under curve type A03 a position that is left out
repeats the one before it, to the Period's end; under A01 it is a gap. Resolutions differ between series of one reply,
and between Periods of one series. Namespaces change with each version and are not looked at.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from providers.base import SchemaError, Transient
from providers.reading import instant, shown
from providers.xml import text_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_RESOLUTIONS = MappingProxyType(
    {
        "PT15M": timedelta(minutes=15),
        "PT30M": timedelta(minutes=30),
        "PT60M": timedelta(hours=1),
        "PT1H": timedelta(hours=1),
    }
)
_REPEATS = {"A01": False, "A03": True}
_FINEST = timedelta(minutes=15)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EDGES = ("start", "end")
_ALWAYS = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
_MOST_STEPS = 60_000  # eight days of quarter hours of twenty types, made and used, are 30 720
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Step:
    """One value over ``[start, end)``, which is 15, 30 or 60 minutes and begins at a quarter hour."""

    start: datetime
    end: datetime
    value: float


@dataclass(frozen=True, slots=True)
class Hole:
    """What a series has for ``[start, end)``, and cannot be read."""

    start: datetime
    end: datetime
    why: str


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """``labels`` are its other elements by tag, such as ``psrType`` or ``currency_Unit.name``."""

    labels: Mapping[str, str]
    steps: Sequence[Step]
    holes: Sequence[Hole]

    def label(self, tag: str) -> str:
        return self.labels.get(tag, "")


def read(root: Element, *, document: str, value: str, most: float, where: str) -> list[TimeSeries]:
    """The series of a reply whose root must be ``document``; ``value`` is the tag of a figure, ``most`` its largest.

    Of a Period or figure that cannot be read there is a hole; if there is nothing else, ``SchemaError`` tells of it.
    """
    if root.tag != document:
        made = Transient if root.tag.lower() == "html" else SchemaError
        raise made(f"{where}: the reply is {shown(root.tag)}, not a {document}")
    reader = _Reader(value, most)
    found = [reader.series(element) for element in root.findall("TimeSeries")]
    holes = [hole for series in found for hole in series.holes]
    if holes and not any(series.steps for series in found):
        raise SchemaError(f"{where}: no time series can be used, the first because {holes[0].why}")
    if holes:
        _log.debug("%s: %d holes, the first because %s", where, len(holes), holes[0].why)
    return found


def cut(steps: Iterable[tuple[str, Step]]) -> list[tuple[str, Step]]:
    """Keyed steps, cut to the finest intervals that any of them has at that time, coarser ones first.

    So of several for one key and interval the last is the finest, and of equally fine ones the last given.
    """
    ordered = sorted(steps, key=lambda item: item[1].end - item[1].start, reverse=True)
    edges = sorted({edge for _, step in ordered for edge in (step.start, step.end)})
    place = {edge: index for index, edge in enumerate(edges)}
    return [
        (key, Step(start, end, step.value))
        for key, step in ordered
        for start, end in pairwise(edges[place[step.start] : place[step.end] + 1])
    ]


class _Reader:
    def __init__(self, value: str, most: float) -> None:
        self._value, self._most = value, most
        self._left = _MOST_STEPS

    def series(self, element: Element) -> TimeSeries:
        labels: dict[str, str] = {}
        for child in element:
            if child.tag != "Period":
                labels.update((part.tag, (part.text or "").strip()) for part in child.iter() if not len(part))
        found = TimeSeries(labels, steps := [], holes := [])
        for period in element.findall("Period"):
            start, end = _ALWAYS
            try:
                start, end = (
                    instant(text_of(period, f"timeInterval/{edge}"), f"{edge} of a Period") for edge in _EDGES
                )
                for at, until, value in self._period(period, start, end, found.label("curveType") or "A01"):
                    if value is None:
                        holes.append(Hole(at, until, f"the {self._value} at {at.isoformat()} cannot be one"))
                    else:
                        steps.append(Step(at, until, value))
            except SchemaError as error:
                holes.append(Hole(start, end, str(error)))
        return found

    def _period(
        self, period: Element, start: datetime, end: datetime, curve: str
    ) -> list[tuple[datetime, datetime, float | None]]:
        if curve not in _REPEATS:
            raise SchemaError(f"curveType is {shown(curve)}, not {' or '.join(_REPEATS)}")
        step = _resolution(text_of(period, "resolution"))
        count, rest = divmod(end - start, step)
        if count < 1 or rest or (start - _EPOCH) % _FINEST:
            raise SchemaError(f"a Period goes from {start.isoformat()} to {end.isoformat()} in steps of {step}")
        if count > self._left:
            raise SchemaError(f"the reply has more than {_MOST_STEPS} steps")
        self._left -= count
        values = _filled(self._points(period, count), count, repeats=_REPEATS[curve])
        return [(start + n * step, start + (n + 1) * step, value) for n, value in values]

    def _points(self, period: Element, count: int) -> dict[int, float | None]:
        """By position; None is a figure that is missing, no number, or too large."""
        points: dict[int, float | None] = {}
        for point in period.findall("Point"):
            text = text_of(point, "position")
            position = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_STEPS)) else 0
            if not 1 <= position <= count:
                raise SchemaError(f"the position of a Point is {shown(text)}, not within 1 to {count}")
            points[position] = _number(text_of(point, self._value), self._most)
        if not points:
            raise SchemaError("a Period has no Point")
        return points


def _filled(points: Mapping[int, float | None], count: int, *, repeats: bool) -> Iterator[tuple[int, float | None]]:
    """Index from 0, and value, of the positions that are there or repeated: what cannot be read is repeated as such."""
    position = 0
    for here in range(1, count + 1):
        if here in points:
            position = here
        if position == here or (repeats and position):
            yield here - 1, points[position]


def _resolution(text: str) -> timedelta:
    if text not in _RESOLUTIONS:
        raise SchemaError(f"resolution is {shown(text)}, not {', '.join(_RESOLUTIONS)}")
    return _RESOLUTIONS[text]


def _number(text: str, most: float) -> float | None:
    try:
        number = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return None
    return number if abs(number) <= most else None
