"""Forecasters by name, to be scored beside each other: ours, the simple ones that any other must beat, the paper's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chase.forecast.model import Fits, Model
from chase.forecast.window import Floats, Ints, Window, alike


@dataclass(frozen=True)
class Named:
    """``forecast`` gives median, low and high of leads k from the end of a window, (3, r), g/kWh.

    Not a number is what it cannot say: quantiles, or a lead for which the window is too short.
    """

    name: str
    line: str
    forecast: Callable[[Window, Ints], Floats]


class _Ours:
    """Whose fits are kept from one window to the next: they are the same as made anew, and cost the most."""

    _fits: Fits | None = None

    def __call__(self, window: Window, k: Ints) -> Floats:
        model = Model(window, self._fits)
        self._fits = model.fits
        return np.maximum(model.at(k), 0.0)


def _middle(values: Floats) -> Floats:
    return np.stack([values, np.full(len(values), np.nan), np.full(len(values), np.nan)])


def _persistence(window: Window, k: Ints) -> Floats:
    return _middle(np.full(len(k), window.x[-1]))


def _same_time(window: Window, k: Ints, stride: int, count: int = 1) -> Floats:
    """Mean of the last ``count`` steps at the time of day, or of the week, of each lead."""
    i = alike(np.array(window.last), k, stride) - stride * np.arange(count)[:, None]
    found = np.where(i >= 0, window.x[np.maximum(i, 0)], np.nan)
    return _middle(found.mean(axis=0))


def _paper(window: Window, k: Ints) -> Floats:
    from chase.forecast.svr import HistoryFit  # it needs the extra

    return _middle(HistoryFit.of(window).ahead(int(k.max()))[k - 1])


ALL = {
    named.name: named
    for named in (
        Named("chase", "our own", _Ours()),
        Named("persistence", "what is now stays", _persistence),
        Named("yesterday", "the same time of the day before", lambda window, k: _same_time(window, k, window.d)),
        Named("last-week", "the same time of the week before", lambda window, k: _same_time(window, k, window.w)),
        Named("week-mean", "mean of that time on 7 days", lambda window, k: _same_time(window, k, window.d, 7)),
        Named("svr", "the Chase paper's history fitting; needs scikit-learn", _paper),
    )
}
SIMPLE = ("persistence", "yesterday", "last-week")
