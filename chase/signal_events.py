"""What is said of the sources of a region: changes of state, once each, however long they last."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from chase.clock import minute
from chase.source import Identity, Points, SourceState
from providers.base import IntensityPoint, ProviderError


class SignalEvents:
    """Writes the events of one region, and keeps in each source's state what has been said of it."""

    def __init__(self, region: str, on_event: Callable[..., None]) -> None:
        self._region = region
        self._on_event = on_event

    def failed(self, state: SourceState, fault: ProviderError, now_s: float, at: datetime) -> None:
        """Its observations."""
        if state.observing.failed(fault, now_s, at):
            good = state.observing.last_good
            last = f" (last good {minute(good)})" if good else ""
            self._event("source-failed", "warning", f"{state.label}: {state.problem}{last}")

    def answered(self, state: SourceState, at: datetime) -> None:
        since = state.observing.answered(at)
        if since is not None:
            self._event("source-back", "info", f"{state.label} answers again; it was down since {minute(since)}")

    def no_forecast(self, state: SourceState, fault: ProviderError, now_s: float, at: datetime) -> None:
        """Only that it began: ours stands in."""
        began = not state.forecasting.problem
        state.forecasting.failed(fault, now_s, at)
        if began:
            self._event("forecast-failed", "info", f"{state.label} gives no forecast: {state.forecasting.problem}")

    def ahead_of_time(self, state: SourceState, count: int) -> None:
        if count and not state.runs_ahead:
            what = f"{count} interval(s) to come were observed"
            self._event("clock-skew", "warning", f"{state.label} says that {what}: ignored; is a clock wrong?")
        state.runs_ahead = bool(count)

    def changed(self, state: SourceState, before: Identity, after: Identity) -> None:
        text = f"{state.label} gives {' '.join(after)} now: its history of {' '.join(before)} is left out"
        self._event("source-changed", "info", text)

    def held(self, state: SourceState, fresh: Points) -> None:
        """``fresh`` are the outliers of this answer. Said when doubt begins, and when it is over."""
        was_in_doubt, state.in_doubt = state.in_doubt, bool(fresh) or state.doubted is not None
        if fresh and not was_in_doubt:
            self._event("outlier-held", "warning", held_text(state, fresh[-1]))
        elif was_in_doubt and not state.in_doubt:
            self._event("outlier-over", "info", f"{state.label}: the value to go by is no longer in doubt")

    def _event(self, code: str, severity: str, text: str) -> None:
        self._on_event(code, severity, text, region=self._region)


def held_text(state: SourceState, point: IntensityPoint) -> str:
    said = f"{point.g_per_kwh:g} g/kWh for {minute(point.start)}"
    return f"{state.label} says {said}, far from all it said before: held back until it is confirmed"
