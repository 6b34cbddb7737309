"""How figures are said to people: joules, grams, money, time, counts and shares, each of a fitting size."""

from __future__ import annotations

import math

_MASS = (("t", 1e6), ("kg", 1e3), ("g", 1.0), ("mg", 1e-3), ("µg", 1e-6))
_MINUTE_S, _HOUR_S = 60, 3600
_NOTHING = 1e-6  # a reference so much smaller is no measure
_ROUNDING, _LEAST_G = 1e-9, 1e-6  # a spread below this share, or of what nobody weighs, is that of the arithmetic


def energy(energy_j: float) -> str:
    return _scaled(energy_j, (("GJ", 1e9), ("MJ", 1e6), ("kJ", 1e3), ("J", 1.0)))


def grams(amount: float | None) -> str:
    """Grams of CO2 equivalent; empty for None. May be negative, where the intensity is marginal."""
    return "" if amount is None else f"{_scaled(amount, _MASS[:3])} CO2eq"


def small_grams(amount: float) -> str:
    """As ``grams``, down to the microgram: of one sample, say."""
    return f"{_scaled(amount, _MASS)} CO2eq"


def grams_about(amount: float, spread: float) -> str:
    """``12.3 ± 0.8 kg CO2eq``: two figures of the spread, and as many places of the amount."""
    if not spread > _ROUNDING * max(abs(amount), _LEAST_G):
        return grams(amount)
    unit, size = _step(max(abs(amount), spread), _MASS[:3])
    places = max(0, 1 - math.floor(math.log10(spread / size)))
    return f"{amount / size:.{places}f} ± {spread / size:.{places}f} {unit} CO2eq"


def money(amount: float, currency: str) -> str:
    """To the hundredth, or to two figures where it is less than that."""
    return f"{amount:,.2f} {currency}" if abs(amount) >= 1 or amount == 0 else f"{amount:.2g} {currency}"


def count(units_done: float, units: str) -> str:
    return f"{units_done:,.0f} {units}" if units_done.is_integer() else f"{units_done:,.2f} {units}"


def duration(seconds: float) -> str:
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), _MINUTE_S)
    hours, minutes = divmod(minutes, _HOUR_S // _MINUTE_S)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest_s:02d} s"


def percent(share: float) -> str:
    return f"{round(share, 3) + 0.0:.1%}".replace("%", " %")  # no minus before a zero


def share_of(part: float, whole: float | None) -> float | None:
    """None where the whole is nothing, next to it, or less: there are no shares of that."""
    return None if whole is None or whole <= abs(part) * _NOTHING else part / whole


def change(now: float | None, reference: float | None, less: str, more: str) -> str:
    """``12.3 % less energy``; empty where it is not known."""
    if now is None or (of_it := share_of(now, reference)) is None:
        return ""
    return f"{percent(abs(1.0 - of_it))} {less if of_it <= 1 else more}"


def _scaled(value: float, scale: tuple[tuple[str, float], ...]) -> str:
    unit, size = _step(abs(value), scale)
    return f"{value / size:.4g} {unit}"


def _step(value: float, scale: tuple[tuple[str, float], ...]) -> tuple[str, float]:
    return next((step for step in scale if value >= step[1]), scale[-1])
