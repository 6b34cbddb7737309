"""Our own forecast of any lead: the base, what recent weeks confirm that it misses, and how far off both have been.

Notation, beside that of ``chase.forecast.window``:

    y       (r,)    x[t + k] - b, what the base missed, g/kWh; one row an hourly origin
    beta    (p,)    argmin sum_r |y_r - X_r beta| + lambda sum_j |beta_j|^2, X scaled to unit columns: a median, since
                    the absolute error is what is judged
    s       (3,)    shares of b + X beta, of x[t] and of the same time of the day before in the forecast, sum 1: those
                    that would have erred least, since where a grid jumps about its usual day says little
    e       (r,)    what the forecast missed, with the beta of the other rows, in four stretches: errors of rows not
                    yet seen, g/kWh
    q       (2, 24) 10 and 90 % quantiles of e, for each hour of the day of the target

Rows whose leads overlap have one error between them, so lambda grows with the lead: an hour ahead the correction does
much, four days ahead next to nothing. For the same reason q is widened as Student's t is for so few independent errors.

The base and X are of all that is known; beta, s and q move little from one hour to the next and cost the most, so they
are of the days up to the last midnight, worked out once a day.
"""

# ruff: noqa: N803, N806  X, Z and G are what the mathematics calls them
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chase.forecast.steps import whole_days
from chase.forecast.window import CALENDAR, DAY_H, Floats, Ints, Window, alike, along, base, design

LEADS_H = (1, 2, 3, 4, 6, 9, 12, 18, 24, 36, 48, 72, 96, 132, 168)

_SHRINK_PER_H = 0.1  # lambda per row and hour of lead, for a full window
_FULL_ROWS = 600
_CALENDAR_SHRINK = 3.0  # times as much for what depends on the time alone
_LEAST_ROWS = 48
_PASSES = 2  # of reweighted least squares, from the mean towards the median
_FOLDS = 4
_MIXTURES = np.array([(i, j, 10 - i - j) for i in range(11) for j in range(11 - i)]) / 10
_DOUBT = 20.0  # of s: ours alone weighs like so many independent errors
_LEAST_DAYS, _MOST_DAYS = 7, 27  # up to midnight; with the day that runs, no more than the window has
_LOOK_BACK_DAYS = 3  # an origin has at least so much before it
_QUANTILES = np.array([0.1, 0.9])
_ALIKE_H = 2.0  # errors at hours of the day this near count as errors of this hour

# Where there is too little to say how far off we are: half the width of an 80 % interval, as a share of the value, by
# lead in hours. What persistence needs on the middle one of twenty grids.
_WIDTH_LEAD_H = np.array([0.0, 1.0, 3.0, 6.0, 12.0])
_WIDTH = np.array([0.03, 0.08, 0.18, 0.25, 0.30])


@dataclass(frozen=True)
class Correction:
    """What the window says of one lead. ``targets`` (r,) are the steps t + k of the rows, ascending."""

    beta: Floats
    s: Floats
    q: Floats
    targets: Ints
    e: Floats


class Fits:
    """The corrections that one window tells of, each worked out when it is first asked for. All is in its ``unit``."""

    def __init__(self, window: Window) -> None:
        self.unit = float(np.abs(window.x).max()) or 1.0  # whatever the numbers, the sums are of the order of one
        self._of, self._window = window, replace(window, x=window.x / self.unit)
        self._known: dict[int, Correction | None] = {}

    def are_of(self, window: Window) -> bool:
        """Whether it says the same; gaps are bridged by the rest."""
        mine = self._of
        if (mine.phase, mine.m) != (window.phase, window.m) or not np.array_equal(mine.ok, window.ok):
            return False
        return np.array_equal(mine.x[mine.ok], window.x[window.ok])

    def of(self, lead: int) -> Correction | None:
        """None where the window is too short for it."""
        if lead not in self._known:
            self._known[lead] = _correction(self._window, lead)
        return self._known[lead]


class Model:
    """Forecasts from the end of one window. ``earlier`` are the fits of a model before it, which are often the same."""

    def __init__(self, window: Window, earlier: Fits | None = None) -> None:
        self._begin, days = whole_days(window, _LEAST_DAYS, _MOST_DAYS)
        self.fits = earlier if earlier is not None and earlier.are_of(days) else Fits(days)
        self.window = replace(window, x=window.x / self.fits.unit)
        self._leads = np.array(sorted({1, *(h * window.m for h in LEADS_H)}))

    def at(self, k: Ints) -> Floats:
        """Median, low and high of leads k >= 1, (3, r), g/kWh. A lead between two corrections has some of each."""
        window, t = self.window, np.array([self.window.last])
        X, simple, hour = design(window, t, k), candidates(window, t, k), window.hour(window.last + k)
        middle, q = np.zeros(len(k)), np.zeros((2, len(k)))
        for lead, share in self._shares(k):
            on, found = share > 0, self.fits.of(lead)
            if found is None:
                middle[on] += share[on] * simple[0, on]
                q[:, on] += share[on] * width(k[on] / window.m, simple[0, on])
            else:
                middle[on] += share[on] * (found.s @ simple[:, on] + found.s[0] * (X[on] @ found.beta))
                q[:, on] += share[on] * found.q[:, hour[on]]
        middle = np.clip(middle, *_bounds(window.x))
        return self.fits.unit * np.stack([middle, middle + np.minimum(q[0], 0), middle + np.maximum(q[1], 0)])

    def errors(self, lead: int) -> tuple[Ints, Floats]:
        """Steps of the window, ascending, and how far above our forecast of them they were, g/kWh."""
        found = self.fits.of(lead)
        return (_NONE, np.empty(0)) if found is None else (self._begin + found.targets, self.fits.unit * found.e)

    def _shares(self, k: Ints) -> list[tuple[int, Floats]]:
        """The leads that have a part in k, and their part, (r,): a straight line between neighbours in log k."""
        place = np.interp(np.log(k), np.log(self._leads), np.arange(len(self._leads)))
        shares = [(int(lead), np.maximum(1 - np.abs(place - i), 0)) for i, lead in enumerate(self._leads)]
        return [(lead, share) for lead, share in shares if share.any()]


def width(h: Floats, value: Floats) -> Floats:
    """(2, r) what to take for q where nothing is known of the errors."""
    half = np.abs(value) * along(h, _WIDTH_LEAD_H, _WIDTH)
    return np.stack([-half, half])


def widening(independent: float) -> float:
    """How much wider than their quantiles an 80 % interval is for so few errors: Student's t over the normal's."""
    return 1 + 1.16 / max(independent, 1.5)


def _bounds(x: Floats) -> tuple[float, float]:
    """A correction never leads far outside of what was seen."""
    low, high = float(x.min()), float(x.max())
    return low - (high - low) / 2, high + (high - low) / 2


def _correction(window: Window, lead: int) -> Correction | None:
    t, k = _origins(window, lead), np.array([lead])
    if len(t) < _LEAST_ROWS:
        return None
    X, missed = design(window, t, k), window.x[t + lead] - candidates(window, t, k)
    h = lead / window.m
    shrink = np.full(X.shape[1], _SHRINK_PER_H * h * _FULL_ROWS / len(t))
    shrink[-CALENDAR:] *= _CALENDAR_SHRINK
    beta, unseen = _median_ridge(X, missed[0], shrink)
    independent = len(t) / max(h, 1.0)
    errors = np.stack([unseen, *missed[1:]])
    s = _mixture(errors, independent)
    e = s @ errors
    q = _quantiles(e, window.hour(t + lead)) * widening(independent)
    return Correction(beta, s, q, t + lead, e)


def candidates(window: Window, t: Ints, k: Ints) -> Floats:
    """(3, r): the base, what is now, and the same time of the day before."""
    t, k = np.broadcast_arrays(t, k)
    return np.stack([base(window, t, k), window.x[t], window.x[np.maximum(alike(t, k, window.d), 0)]])


def _mixture(errors: Floats, independent: float) -> Floats:
    """The s of least mean absolute error, given ``errors`` (3, r), drawn towards ours alone where few speak for it."""
    best = _MIXTURES[np.argmin(np.abs(_MIXTURES @ errors).mean(axis=1))]
    sure = independent / (independent + _DOUBT)
    return sure * best + (1 - sure) * np.eye(3)[0]  # type: ignore[no-any-return]


def _origins(window: Window, lead: int) -> Ints:
    """One an hour, counted back from the end, each with something before it; it and its target were observed."""
    first = max(window.d, min(_LOOK_BACK_DAYS * window.d, len(window.x) // 3))
    t = np.arange(window.last - lead, first - 1, -window.m)[::-1]
    return t[window.ok[t] & window.ok[t + lead]]


def _median_ridge(X: Floats, y: Floats, shrink: Floats) -> tuple[Floats, Floats]:
    """The vectors beta and e. The folds use the weights v of all rows: they differ little, and cost the most."""
    scale = np.sqrt((X * X).mean(axis=0)) + 1e-9
    Z, v = X / scale, np.ones(len(y))
    for _ in range(_PASSES):
        missed = np.abs(y - Z @ _ridge(*_moments(Z, y, v), shrink))
        v = 1 / np.maximum(missed, 0.3 * np.median(missed) + 1e-9)
    folds = [slice(rows[0], rows[-1] + 1) for rows in np.array_split(np.arange(len(y)), _FOLDS)]
    parts = [_moments(Z[rows], y[rows], v[rows]) for rows in folds]
    all_G, all_g, all_v = (sum(part) for part in zip(*parts, strict=True))
    e = np.empty_like(y)
    for rows, (G, g, weight) in zip(folds, parts, strict=True):
        e[rows] = y[rows] - Z[rows] @ _ridge(all_G - G, all_g - g, all_v - weight, shrink)
    return _ridge(all_G, all_g, all_v, shrink) / scale, e


def _moments(Z: Floats, y: Floats, v: Floats) -> tuple[Floats, Floats, float]:
    weighted = (Z * v[:, None]).T
    return weighted @ Z, weighted @ y, float(v.sum())


def _ridge(G: Floats, g: Floats, weight: float, shrink: Floats) -> Floats:
    return np.asarray(np.linalg.solve(G + weight * np.diag(shrink), g), np.float64)


def _quantiles(e: Floats, hour: Ints) -> Floats:
    """Of e, for each hour of the day, (2, 24): errors at other hours count the less the further off they are."""
    order = np.argsort(e)
    weight = _NEARNESS[:, hour[order]]
    share = (np.cumsum(weight, axis=1) - weight / 2) / weight.sum(axis=1, keepdims=True)
    return np.array([np.interp(_QUANTILES, row, e[order]) for row in share]).T


def _nearness() -> Floats:
    """(24, 24)"""
    apart = np.abs(np.subtract.outer(np.arange(DAY_H), np.arange(DAY_H)))
    apart = np.minimum(apart, DAY_H - apart)
    return 0.15 + np.exp(-((apart / _ALIKE_H) ** 2) / 2)  # type: ignore[no-any-return]


_NEARNESS = _nearness()
_NONE = np.empty(0, np.int64)
