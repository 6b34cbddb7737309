"""The forecaster of the Chase paper, "history fitting" (arXiv 2303.02508, equations 1 and 2), to compare with.

    T       steps a day; t a step
    u(t)    [sin(2 pi t / T), cos(2 pi t / T), CI(t - 1)], unscaled as in the authors' code; CI in g/kWh
    CI(t)   f(u(t)), f a support vector regression on the T rows of one day, fitted once
    alpha   (T,) its dual coefficients, 0 where a row is no support vector

One step ahead it is given the observed CI(t - 1); further ahead, which the paper does not do, its own last value.
Where the day begins is no matter: turning the circle leaves all distances as they are, and the kernel sees no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from chase.errors import ChaseError
from chase.forecast.window import Floats, Ints, Window

C, GAMMA = 100.0, 1e-4


@dataclass(frozen=True)
class HistoryFit:
    """``u`` (T, 3) are the rows fitted on; step 0 is the first of them, and ``last`` the CI of the last, g/kWh."""

    u: Floats
    alpha: Floats
    intercept: float
    last: float

    @classmethod
    def of(cls, window: Window) -> Self:
        """On the last day of a window. Raises ``ChaseError`` without scikit-learn, or with under a day and a step."""
        if len(window.x) <= window.d:
            raise ChaseError("the svr forecaster needs the history of one day and one step")
        return cls.on(window.x[-window.d - 1 :])

    @classmethod
    def on(cls, ci: Floats) -> Self:
        """On T + 1 values: the first is the CI(t - 1) of the first row."""
        u = _rows(np.arange(len(ci) - 1), len(ci) - 1, ci[:-1])
        fitted = _regression()(kernel="rbf", C=C, gamma=GAMMA).fit(u, ci[1:])
        alpha = np.zeros(len(u))
        alpha[fitted.support_] = fitted.dual_coef_[0]
        return cls(u, alpha, float(fitted.intercept_[0]), float(ci[-1]))

    def next(self, t: Ints, before: Floats) -> Floats:
        """CI(t) given CI(t - 1), each (r,)."""
        apart = _rows(t, len(self.u), before)[:, None, :] - self.u[None, :, :]
        kernel = np.exp(-GAMMA * (apart * apart).sum(axis=2))
        found: Floats = kernel @ self.alpha + self.intercept
        return found

    def ahead(self, count: int) -> Floats:
        """The ``count`` steps after those fitted on, each from the one before."""
        values, before = np.empty(count), self.last
        for k in range(count):
            before = values[k] = self.next(np.array([len(self.u) + k]), np.array([before]))[0]
        return values


def _rows(t: Ints, steps: int, before: Floats) -> Floats:
    angle = 2 * np.pi * t / steps
    return np.stack([np.sin(angle), np.cos(angle), before], axis=1)


def _regression() -> type:
    try:
        from sklearn.svm import SVR
    except ImportError as error:
        raise ChaseError(
            "the svr forecaster needs scikit-learn, which is not installed: pip install 'carbon-chase[svr]'"
        ) from error
    return SVR  # type: ignore[no-any-return]
