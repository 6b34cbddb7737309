"""What a source's own forecasts are worth: how far off they were where we know it by now, and by whom to go ahead.

Notation, beside that of ``chase.forecast.window``; everything is by lead, in classes, since a forecast for tomorrow
errs otherwise than one for the next hour:

    p   (r,)    their error, forecast less observed, g/kWh, one row a forecast whose time has come
    bias        median of p, drawn towards 0 where few days speak for it
    u   (r,)    our error at the same steps, g/kWh, of weeks that the model had not seen
    n           days from which the rows come
    omega       their weight: argmin over 0, 0.1, ... 1 of sum_r |omega (p_r - bias) + (1 - omega) u_r|, drawn towards
                what we think of a source of which we know nothing
    q   (2,)    10 and 90 % quantiles of what both together missed
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chase.forecast.model import Model, widening, width
from chase.forecast.steps import History, Points
from chase.forecast.window import Floats, Ints, along

_CLASSES_H = np.array([2.0, 5.0, 9.0, 18.0, 36.0, 72.0])  # bounds of the classes of leads
_OUR_LEADS_H = (1, 3, 6, 12, 24, 48, 96)  # and where we look for our own error in each
_SHARES = np.linspace(0, 1, 11)[:, None]
_DOUBT_DAYS = 2.0  # what we thought before weighs like so many days
_TAKEN = 0.05  # a smaller part is not worth a name

# What we think of a source unseen: the next hours we know better, from a quarter of a day on it knows the weather.
_PRIOR_LEAD_H = np.array([0.0, 1.0, 6.0])
_PRIOR = np.array([0.0, 0.1, 0.5])
_PRIOR_WITHOUT_MODEL = np.array([0.2, 0.4, 0.9])  # against mere persistence


@dataclass(frozen=True)
class Skill:
    """Of one class of leads of theirs, beside one of ours. ``q`` is None where no day speaks for it."""

    bias: float
    omega: float
    q: Floats | None
    n: int


class Record:
    """The forecasts that one source has issued, against what came. ``model`` is None where we have but persistence."""

    def __init__(self, history: History, model: Model | None, issued: Points) -> None:
        self._history, self._model = history, model
        self._errors = _past(history, issued)
        self._skills: dict[tuple[int, int], Skill] = {}

    def blend(self, c: Ints, ours: Floats, theirs: Floats, lead_h: Floats) -> tuple[Floats, Floats]:
        """Both in one, (3, r), and omega, (r,): of ``ours`` (3, r) and ``theirs`` (r,), issued ``lead_h`` before."""
        our_h = np.maximum(c - self._history.last, 1) / self._history.clockwork.m
        classes = np.stack([_class(lead_h), _class(our_h)])
        values, omega = ours.copy(), np.zeros(len(c))
        for their, our in np.unique(classes, axis=1).T:
            on = (classes[0] == their) & (classes[1] == our)
            skill = self._skill(int(their), int(our))
            omega[on] = self._weight(skill, our_h[on])
            values[:, on] = _together(skill, omega[on], ours[:, on], theirs[on], lead_h[on])
        return values, omega

    def _weight(self, skill: Skill, our_h: Floats) -> Floats:
        """By our own lead: where nothing was observed for hours, what was issued a moment ago is the better word."""
        if self._model is None:
            return along(our_h, _PRIOR_LEAD_H, _PRIOR_WITHOUT_MODEL)
        thought = along(our_h, _PRIOR_LEAD_H, _PRIOR)
        return (skill.n * skill.omega + _DOUBT_DAYS * thought) / (skill.n + _DOUBT_DAYS)

    def _skill(self, theirs: int, ours: int) -> Skill:
        if (theirs, ours) not in self._skills:
            self._skills[theirs, ours] = self._measured(theirs, ours)
        return self._skills[theirs, ours]

    def _measured(self, theirs: int, ours: int) -> Skill:
        i, p, days = self._errors.of(theirs)
        if not len(p):
            return Skill(0.0, 0.0, None, 0)
        n = len(np.unique(days))
        bias = float(np.median(p)) * n / (n + 1)
        if self._model is None:
            return Skill(bias, 0.0, _spread(bias - p, n), n)
        targets, e = self._model.errors(_OUR_LEADS_H[ours] * self._history.clockwork.m)
        both = (i >= targets[0]) & (i <= targets[-1]) if len(targets) else np.zeros(len(i), bool)
        if not both.any():
            return Skill(bias, 0.0, None, 0)
        return _paired(bias, p[both] - bias, -np.interp(i[both], targets, e), len(np.unique(days[both])))


def _together(skill: Skill, omega: Floats, ours: Floats, theirs: Floats, lead_h: Floats) -> Floats:
    middle = omega * (theirs - skill.bias) + (1 - omega) * ours[0]
    q = omega * width(lead_h, middle) + (1 - omega) * (ours[1:] - ours[0])
    if skill.q is not None:
        sure = skill.n / (skill.n + _DOUBT_DAYS)
        q = sure * skill.q[:, None] + (1 - sure) * q
    return np.stack([middle, middle + np.minimum(q[0], 0.0), middle + np.maximum(q[1], 0.0)])


def _paired(bias: float, p: Floats, u: Floats, n: int) -> Skill:
    missed = np.abs(_SHARES * p + (1 - _SHARES) * u).mean(axis=1)
    omega = float(_SHARES[np.argmin(missed), 0])
    return Skill(bias, omega, _spread(-(omega * p + (1 - omega) * u), n), n)


def _spread(missed: Floats, n: int) -> Floats:
    found: Floats = np.quantile(missed, [0.1, 0.9]) * widening(n)
    return found


@dataclass(frozen=True)
class _Errors:
    """Columns, each (r,): the step of the window that a forecast begins with, its class of leads, and p."""

    i: Ints
    lead: Ints
    p: Floats
    day: Ints

    def of(self, lead: int) -> tuple[Ints, Floats, Ints]:
        use = self.lead == lead
        return self.i[use], self.p[use], self.day[use]


def _past(history: History, issued: Points) -> _Errors:
    """Of the forecasts whose interval was observed for half of it or more."""
    window, clockwork = history.window, history.clockwork
    begin, end = clockwork.first(issued.start) - history.first, clockwork.after(issued.end) - history.first
    inside = (begin >= 0) & (end <= len(window.x))
    begin, end = begin[inside], end[inside]
    seen = np.concatenate(([0], np.cumsum(window.ok)))
    total = np.concatenate(([0.0], np.cumsum(np.where(window.ok, window.x, 0.0))))
    count = seen[end] - seen[begin]
    known = 2 * count >= end - begin
    p = issued.value[inside] - (total[end] - total[begin]) / np.maximum(count, 1)
    lead = _class((issued.start - issued.said)[inside] / 3600)
    return _Errors(begin[known], lead[known], p[known], (begin // window.d)[known])


def _class(lead_h: Floats) -> Ints:
    return np.searchsorted(_CLASSES_H, lead_h, side="right")


def named(own: str, source: str, omega: float) -> str:
    """Who expects it."""
    if omega <= _TAKEN:
        return own
    return source if omega >= 1 - _TAKEN else f"chase+{source}"
