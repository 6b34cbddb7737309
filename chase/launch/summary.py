"""What a job cost, in words: for the end of a run. What is not known is left out; every share says of what."""

from __future__ import annotations

from chase.client.messages import Summary

_MINUTE_S, _HOUR_S = 60, 3600
_NOTHING = 1e-6  # a reference so much smaller is no measure
_EQUAL = 0.0005  # less than the tenth of a per cent that is shown


def lines(summary: Summary, *, name: str, job_id: str, units: str) -> list[str]:
    """The cost, the same work at full power, and where to look further; one line each."""
    done = "" if summary.units is None else count(summary.units, units)
    took = "" if summary.seconds is None else f"in {duration(summary.seconds)}"
    used = "" if summary.energy_j is None else energy(summary.energy_j)
    known = [" ".join(filter(None, [done, took])), used + _method(summary, used), grams(summary.grams)]
    return [
        f"job {name}: {', '.join(filter(None, known)) or 'nothing was measured'}",
        *filter(None, [against_full_power(summary, units)]),
        f"why: chase decisions --job {job_id}",
    ]


def against_full_power(summary: Summary, units: str) -> str:
    """The saving and the slowdown against the same units at full power; empty where that is not known."""
    found = [
        _change(summary.energy_j, summary.reference_energy_j, "less energy", "more energy"),
        _change(summary.grams, summary.reference_grams, "less carbon", "more carbon"),
        _slower(summary.slowdown),
    ]
    if not any(found):
        return ""
    reference = [
        "" if summary.reference_energy_j is None else energy(summary.reference_energy_j),
        grams(summary.reference_grams),
    ]
    work = f"the same {'work' if summary.units is None else count(summary.units, units)} at full power"
    named = f" ({', '.join(filter(None, reference))})" if any(reference) else ""
    return f"against {work}{named}: {', '.join(filter(None, found))}"


def energy(energy_j: float) -> str:
    return _scaled(energy_j, (("GJ", 1e9), ("MJ", 1e6), ("kJ", 1e3), ("J", 1.0)))


def grams(amount: float | None) -> str:
    """Grams of CO2 equivalent; empty for None. May be negative, where the intensity is marginal."""
    return "" if amount is None else _scaled(amount, (("t", 1e6), ("kg", 1e3), ("g", 1.0))) + " CO2eq"


def count(units_done: float, units: str) -> str:
    return f"{units_done:,.0f} {units}" if units_done.is_integer() else f"{units_done:,.2f} {units}"


def duration(seconds: float) -> str:
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), _MINUTE_S)
    hours, minutes = divmod(minutes, _HOUR_S // _MINUTE_S)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest_s:02d} s"


def _scaled(value: float, scale: tuple[tuple[str, float], ...]) -> str:
    unit, size = next((step for step in scale if abs(value) >= step[1]), scale[-1])
    return f"{value / size:.4g} {unit}"


def _method(summary: Summary, used: str) -> str:
    return f" ({summary.method})" if used and summary.method else ""


def _change(now: float | None, reference: float | None, less: str, more: str) -> str:
    if now is None or reference is None or reference <= abs(now) * _NOTHING:
        return ""
    saved = 1.0 - now / reference
    return f"{abs(saved):.1%} {less if saved >= 0 else more}".replace("%", " %")


def _slower(slowdown: float | None) -> str:
    if slowdown is None:
        return ""
    if abs(slowdown) < _EQUAL:
        return "no slower"
    return f"{abs(slowdown):.1%} {'slower' if slowdown > 0 else 'faster'}".replace("%", " %")
