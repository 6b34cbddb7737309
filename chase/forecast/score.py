"""How good a forecaster has been: forecasts made at each hour of the past from what was known then, against what came.

o       (r,)        the steps at which forecasts are made
k       (l,)        the leads in steps
f       (r, 3, l)   median, low and high of each, g/kWh
z       (r, l)      what came, not a number where it was not observed
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

import numpy as np

from chase.forecast.named import Named
from chase.forecast.steps import Clockwork, Points, window_of
from chase.forecast.window import WINDOW_H, Bools, Floats, Ints, Window
from providers.base import IntensityPoint


@dataclass(frozen=True)
class Past:
    """What was observed: ``x`` (n,) in g/kWh where ``ok``; ``first`` is the step since the epoch of ``x[0]``."""

    x: Floats
    ok: Bools
    first: int
    m: int = 1
    origin_s: float = 0.0

    @classmethod
    def of(cls, points: Iterable[IntensityPoint]) -> Self | None:
        """None where nothing was observed."""
        columns = Points.of(points)
        if not len(columns.start):
            return None
        clockwork = Clockwork.of(columns, None)
        first = int(clockwork.first(columns.start.min()))
        x, ok = clockwork.values(columns, first, int(clockwork.after(columns.end.max())) - first)
        return cls(x, ok, first, clockwork.m, clockwork.origin_s)

    def window(self, o: int) -> Window:
        """What was known after step o, which was observed."""
        since = max(0, o + 1 - WINDOW_H * self.m)
        since += int(np.argmax(self.ok[since : o + 1]))
        return window_of(self.x[since : o + 1], self.ok[since : o + 1], self.first + since, self.m)

    def hours(self, days: int, *, before: int) -> Ints:
        """The steps of the last ``days``, one an hour, observed and with so many days known before them."""
        d = 24 * self.m
        o = np.arange(len(self.x) - 1, max(len(self.x) - 1 - days * d, 0), -self.m)[::-1]
        known = np.concatenate(([0], np.cumsum(self.ok)))
        return o[self.ok[o] & (known[o] >= before * d)]

    def end(self, o: int) -> datetime:
        """When step o ends: a forecast from it is made no earlier."""
        return datetime.fromtimestamp(self.origin_s + (self.first + o + 1) * 3600 / self.m, UTC)

    def came(self, o: Ints, k: Ints) -> Floats:
        i = o[:, None] + k
        known = np.where(self.ok, self.x, np.nan)
        return np.where(i < len(known), known[np.minimum(i, len(known) - 1)], np.nan)


@dataclass(frozen=True, slots=True)
class Score:
    """Of one forecaster at one lead, over ``count`` forecasts; errors in g/kWh, forecast less observed.

    ``mape`` is a share of what came, over the hours in which that was above zero. ``pinball`` is the mean of the
    losses at 10, 50 and 90 %, ``coverage`` the share of hours between low and high; None without quantiles.
    """

    forecaster: str
    lead_h: float
    count: int
    mae: float
    mape: float
    bias: float
    pinball: float | None
    coverage: float | None


def forecasts(past: Past, named: Named, o: Ints, k: Ints) -> Floats:
    """f, not a number where the forecaster has nothing to say."""
    rows = [named.forecast(past.window(int(step)), k) for step in o]
    return np.stack(rows) if rows else np.empty((0, 3, len(k)))


def scores(past: Past, chosen: Sequence[Named], o: Ints, leads_h: Sequence[int]) -> Iterator[Score]:
    """Of each forecaster at each lead, over the forecasts of which it is known what came."""
    k = np.array([lead_h * past.m for lead_h in leads_h])
    z = past.came(o, k)
    for named in chosen:
        f = forecasts(past, named, o, k)
        for j, lead_h in enumerate(leads_h):
            known = np.isfinite(z[:, j]) & np.isfinite(f[:, 0, j])
            if known.any():
                yield _score(named.name, lead_h, f[known, :, j], z[known, j])


def _score(name: str, lead_h: int, f: Floats, z: Floats) -> Score:
    error = f[:, 0] - z
    above = z > 0
    mape = float(np.mean(np.abs(error[above]) / z[above])) if above.any() else float("nan")
    whole = bool(np.isfinite(f).all())
    pinball = float(losses(f, z).mean()) if whole else None
    coverage = float(np.mean((f[:, 1] <= z) & (z <= f[:, 2]))) if whole else None
    return Score(name, lead_h, len(z), float(np.abs(error).mean()), mape, float(error.mean()), pinball, coverage)


def losses(f: Floats, z: Floats) -> Floats:
    """Pinball loss of each forecast (r, 3), the mean of its three quantiles, (r,)."""
    above = z[:, None] - f
    share = np.array([0.5, 0.1, 0.9])
    found: Floats = np.maximum(share * above, (share - 1) * above).mean(axis=1)
    return found
