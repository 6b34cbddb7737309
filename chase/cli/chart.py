"""Two bar charts over one axis of time, as text: how dear each hour is, and how fast the job runs in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chase.course import Stretch
    from chase.plan_report import PlanReport

_BLOCKS, _PLAIN = " ▁▂▃▄▅▆▇█", " #"
_LABEL = 8  # letters left of the axis
_STEPS_S = tuple(60 * m for m in (5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440, 2880, 10080))
_TICKS_H = (1, 2, 3, 6, 12, 24, 48, 96, 168, 336)
_TICK = 8  # letters from one mark of time to the next, at least
_WIDEST = 4  # letters a bar
_LARGE = 10  # has no use for decimals
_LONGEST_S = 31 * 86400.0  # after that there is nothing to be seen of the hours

Piece = tuple[float, float, float]  # begin_s, end_s, value


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: ``pieces`` of constant value, ascending and without gaps."""

    title: str
    pieces: Sequence[Piece]
    height: int
    colour: str


@dataclass(frozen=True, slots=True)
class Line:
    """``axis`` and then ``bars``, which a terminal shows in ``colour``."""

    axis: str
    bars: str = ""
    colour: str = ""


def plan_chart(
    plan: PlanReport, stretches: Sequence[Stretch], *, width: int, heights: tuple[int, int], encoding: str | None
) -> Iterator[Line]:
    """What a joule costs and how fast the job runs; with blocks where ``encoding`` has them."""
    shown = [(s.begin_s, min(s.end_s, _LONGEST_S), s) for s in stretches if s.begin_s < _LONGEST_S]
    prices = [(begin_s, end_s, s.price) for begin_s, end_s, s in shown]
    powers = [(begin_s, end_s, s.power_w) for begin_s, end_s, s in shown]
    panels = (
        Panel(f"{plan.per_kwh}, expected", prices, heights[0], "yellow"),
        Panel(f"W by {plan.drawn_by}, planned", powers, heights[1], "cyan"),
    )
    return chart(panels, plan.decision.at, width=width, blocks=_has_blocks(encoding))


def _has_blocks(encoding: str | None) -> bool:
    try:
        f"{_BLOCKS}┤".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def chart(panels: Sequence[Panel], at: datetime, *, width: int, blocks: bool) -> Iterator[Line]:
    """As wide as there is room; without ``blocks`` in plain ASCII."""
    room, total_s = max(width - _LABEL - 2, _TICK), panels[0].pieces[-1][1]
    step_s = next((s for s in _STEPS_S if total_s / s <= room), total_s / room)
    count = max(1, min(room, -int(-total_s // step_s)))
    letters = max(1, min(_WIDEST, room // count))
    for panel in panels:
        values = [_mean(panel.pieces, k * step_s, min((k + 1) * step_s, total_s)) for k in range(count)]
        yield from _panel(panel, values, letters, blocks=blocks)
    yield Line(" " * (_LABEL + 1) + _times(at, step_s / letters, count * letters))


def _mean(pieces: Sequence[Piece], begin_s: float, end_s: float) -> float:
    total = weight = 0.0
    for start_s, stop_s, value in pieces:
        seconds = min(stop_s, end_s) - max(start_s, begin_s)
        if seconds > 0:
            total, weight = total + seconds * value, weight + seconds
    return total / weight if weight else pieces[-1][2]


def _panel(panel: Panel, values: Sequence[float], letters: int, *, blocks: bool) -> Iterator[Line]:
    """From 0, but where all values are far from it or some below."""
    top, least = max(values), min(values)
    bottom = 0.0 if 0 <= least < top / 2 else least - 0.25 * (top - least)
    if top <= bottom:
        bottom, top = min(0.0, top), max(top, 1.0)
    glyphs, edge = (_BLOCKS, "┤") if blocks else (_PLAIN, "|")
    yield Line(f"{'':{_LABEL}} {panel.title}")
    for row in reversed(range(panel.height)):
        bars = "".join(_glyph((v - bottom) / (top - bottom) * panel.height - row, glyphs) * letters for v in values)
        label = {panel.height - 1: _figure(top), 0: _figure(bottom)}.get(row, "")
        yield Line(f"{label:>{_LABEL - 1}} {edge}", bars, panel.colour)


def _glyph(filled: float, glyphs: str) -> str:
    return glyphs[max(0, min(len(glyphs) - 1, round(filled * (len(glyphs) - 1))))]


def _figure(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= _LARGE or value == 0 else f"{value:.3g}"


def _times(at: datetime, letter_s: float, room: int) -> str:
    """``|06:00``, and the day at midnight: each mark stands at its moment (UTC)."""
    hours = next((h for h in _TICKS_H if h * 3600 / letter_s >= _TICK), _TICKS_H[-1])
    when = at.replace(hour=0, minute=0, second=0, microsecond=0)
    line = " " * room
    while (place := round((when - at).total_seconds() / letter_s)) < room:
        text = f"|{when:%d %b}" if when.hour == 0 else f"|{when:%H:%M}"
        if place >= 0 and place + len(text) <= room:
            line = line[:place] + text + line[place + len(text) :]
        when += timedelta(hours=hours)
    return line.rstrip()
