"""What is expected at one time, by whatever is known by then: the model, persistence, the typical profile, a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import numpy as np

from chase.forecast.expected import OWN, PERSISTENCE, TYPICAL, Steps
from chase.forecast.issued import Record, named
from chase.forecast.model import Fits, Model, width
from chase.forecast.steps import Clockwork, History, Points
from chase.forecast.window import Floats, Ints, remaining
from providers.base import IntensityPoint

_MODEL_DAYS = 1  # observed, below which there is only persistence
_TYPICAL_DAYS = 7  # observed, below which the typical profile has a part in ours
_TYPICAL_PART = 0.5
_FURTHEST_DAYS = 14  # after what was last observed: from there on the past says less than the typical profile
_TYPICAL_LEAD_H = 12.0

Typical = Callable[[datetime], float | None]


@dataclass(frozen=True)
class Said:
    """For steps c: median, low and high, (3, r), g/kWh, not a number where nobody says anything; and who, (r,)."""

    c: Ints
    values: Floats
    by: list[str]


class Engine:
    """What was known at one time. ``issued`` are forecasts of the past, with their vintages.

    What was worked out for the ``earlier`` one is not worked out again, as far as it is the same.
    """

    def __init__(
        self,
        observed: Points,
        issued: Iterable[IntensityPoint],
        clockwork: Clockwork,
        typical: Typical | None,
        earlier: Engine | None = None,
    ) -> None:
        self.fits: Fits | None = None if earlier is None else earlier.fits  # the newest, for the engine after it
        self._clockwork = clockwork
        self._history = History.of(observed, clockwork)
        self._issued = tuple(issued)
        self._typical = typical
        self._records: dict[str, Record] = {}

    def expect(self, start: datetime, end: datetime, published: Iterable[IntensityPoint]) -> Steps:
        start_s, end_s = start.timestamp(), end.timestamp()
        first = int(self._clockwork.first(start_s))
        c = np.arange(first, int(self._clockwork.after(end_s)))
        if not len(c):
            return _NONE
        said = self._with_published(self._own(c), tuple(published))
        begin, until = self._clockwork.start_s(c), self._clockwork.start_s(c + 1)
        middle, low, high = np.maximum(said.values, 0.0)
        steps = Steps(np.maximum(begin, start_s), np.minimum(until, end_s), middle, low, high, said.by)
        known = ~np.isnan(middle)
        by = [by for by, is_known in zip(said.by, known, strict=True) if is_known]
        return steps if known.all() else steps.picked(known, by)

    def _own(self, c: Ints) -> Said:
        if self._history is None:
            return self._usual(c)
        k = c - self._history.last
        values, by = self._ours(c, np.maximum(k, 1))
        values = np.where(k <= 0, self._history.at(c), values)
        far = k > _FURTHEST_DAYS * self._history.window.d
        if not far.any():
            return Said(c, values, by)
        usual = self._usual(c)
        far &= np.isfinite(usual.values[0])
        return Said(c, np.where(far, usual.values, values), [TYPICAL if f else b for f, b in zip(far, by, strict=True)])

    def _ours(self, c: Ints, k: Ints) -> tuple[Floats, list[str]]:
        if self._model is None:
            return self._persistence(c, k), [PERSISTENCE] * len(c)
        values = self._model.at(k)
        part = _TYPICAL_PART * (1 - self._days / _TYPICAL_DAYS)
        if part > 0:
            usual = self._usual_here(c)
            values = values + np.where(np.isfinite(usual), part * (usual - values[0]), 0.0)
        return values, [OWN] * len(c)

    def _persistence(self, c: Ints, k: Ints) -> Floats:
        """The last value, drawn towards the typical one as the day goes on."""
        history = self._history
        assert history is not None  # noqa: S101  asked only where there is one
        last, h = history.window.x[-1], k / history.window.m
        then, now = self._profile(c), self._profile(np.array([history.last]))
        middle = last * np.ones(len(c))
        change = then + remaining(h) * (last - now)
        middle = np.where(np.isfinite(change), change, middle)
        return np.concatenate([middle[None], middle + width(h, middle)])

    def _usual(self, c: Ints) -> Said:
        values = self._profile(c)
        spread = width(np.full(len(c), _TYPICAL_LEAD_H), values)
        return Said(c, np.concatenate([values[None], values + spread]), [TYPICAL] * len(c))

    def _usual_here(self, c: Ints) -> Floats:
        """The typical profile, raised to the level of what was observed."""
        history = self._history
        assert history is not None  # noqa: S101  asked only where there is one
        known = history.first + np.flatnonzero(history.window.ok)
        apart = history.window.x[history.window.ok] - self._profile(known)
        apart = apart[np.isfinite(apart)]
        return self._profile(c) + (apart.mean() if len(apart) else 0.0)

    def _profile(self, c: Ints) -> Floats:
        """The typical value of each step, not a number where there is none."""
        if self._typical is None:
            return np.full(len(c), np.nan)
        found = [self._typical(at) for at in _times(self._clockwork, c)]
        return np.array([np.nan if value is None else value for value in found], float)

    def _with_published(self, own: Said, published: tuple[IntensityPoint, ...]) -> Said:
        source = _most_common(published)
        points = Points.of(point for point in published if point.source == source)
        first, count = int(own.c[0]), len(own.c)
        theirs, there = self._clockwork.values(points, first, count)
        if not there.any():
            return own
        said, _ = self._clockwork.values(points, first, count, "said")
        lead_h = np.maximum(self._clockwork.start_s(own.c) - said, 0.0) / 3600
        values, omega = self._blended(own, source, np.where(there, theirs, np.nan), lead_h)
        by = [named(b, source, float(o)) for b, o in zip(own.by, omega, strict=True)]
        return Said(own.c, values, by)

    def _blended(self, own: Said, source: str, theirs: Floats, lead_h: Floats) -> tuple[Floats, Floats]:
        """Values (3, r), and the part (r,) that the source has in them: all where nothing was observed."""
        there = np.isfinite(theirs)
        if self._history is None:
            values = np.concatenate([theirs[None], theirs + width(lead_h, theirs)])
            return np.where(there, values, own.values), there.astype(np.float64)
        use = there & (own.c > self._history.last)
        values, omega = own.values.copy(), np.zeros(len(own.c))
        if use.any():
            record = self._record(source, self._history)
            values[:, use], omega[use] = record.blend(own.c[use], own.values[:, use], theirs[use], lead_h[use])
        return values, omega

    def _record(self, source: str, history: History) -> Record:
        if source not in self._records:
            mine = (point for point in self._issued if point.source == source)
            self._records[source] = Record(history, self._model, Points.of(mine, vintages=True))
        return self._records[source]

    @cached_property
    def _days(self) -> float:
        window = None if self._history is None else self._history.window
        return 0.0 if window is None else float(window.ok.sum()) / window.d

    @cached_property
    def _model(self) -> Model | None:
        if self._history is None or self._days < _MODEL_DAYS:
            return None
        model = Model(self._history.window, self.fits)
        self.fits = model.fits
        return model


def _times(clockwork: Clockwork, c: Ints) -> list[datetime]:
    return [datetime.fromtimestamp(at_s, UTC) for at_s in clockwork.start_s(c)]


def _most_common(points: Iterable[IntensityPoint]) -> str:
    """One source at a time: they are never mixed."""
    counts = Counter(point.source for point in points)
    return max(sorted(counts), key=lambda name: counts[name], default="")


_EMPTY = np.empty(0)
_NONE = Steps(_EMPTY, _EMPTY, _EMPTY, _EMPTY, _EMPTY, ())
