"""What a job cost, in words: for the end of a run. What is not known is left out; every share says of what."""

from __future__ import annotations

from chase.client.summary import Summary
from chase.figures import count, duration, energy, grams, money
from chase.report import against_full_power, parts


def lines(summary: Summary, *, name: str, job_id: str, units: str) -> list[str]:
    """The cost, the same work at full power, what of the saving is timing, and where to look further."""
    done = "" if summary.units is None else count(summary.units, units)
    took = "" if summary.seconds is None else f"in {duration(summary.seconds)}"
    used = "" if summary.energy_j is None else energy(summary.energy_j)
    host = f"{energy(summary.host_energy_j)} of the host (configured)" if summary.host_energy_j else ""
    cost = "" if summary.cost is None else money(summary.cost, summary.currency or "")
    known = [" ".join(filter(None, [done, took])), used + _method(summary, used), host, grams(summary.grams), cost]
    return [
        f"job {name}: {', '.join(filter(None, known)) or 'nothing was measured'}",
        *filter(None, [against_full_power(summary, units), parts(summary)]),
        f"more: chase report {job_id}; why: chase decisions --job {job_id}",
    ]


def _method(summary: Summary, used: str) -> str:
    return f" ({summary.method})" if used and summary.method else ""
