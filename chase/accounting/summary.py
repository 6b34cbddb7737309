"""The account of one job, from nothing but its intervals and its frontier."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import fsum
from typing import Any, Literal

from chase.accounting.booking import booked_pue, drawn_j
from chase.accounting.compared import comparable, length_s
from chase.accounting.doubt import deviations
from chase.accounting.split import Split, hosted, split
from chase.pricing import J_PER_KWH
from chase.records import IntervalRecord
from providers.base import Kind
from zeus_core.frontier import Frontier

_DENOMINATORS = (
    "reference_* is the same work at the full-power point the frontier was measured with, over its own, shorter time"
    " line; *_by_interval prices each unit of it at the moment of ours instead. Time without progress, or without a"
    " frontier, an intensity or a price, counts the same on both sides. Percentages of savings are of reference_grams"
    " (reference_cost); slowdown is of the reference's time for the compared work. efficiency_* is what the best fixed"
    " setting that ends when we did, or before, would have saved; timing_* is the rest and carries the frontier's"
    " error. *_sd is one standard deviation. Grams and cost are of GPUs and host, times PUE; the host's energy is"
    " configured, not measured."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """What a job cost. None is not known. ``energy_j`` is its GPUs', ``host_energy_j`` what was configured beside them.

    ``saved_grams == efficiency_grams + timing_grams`` and ``reference_grams - grams`` is the same but for rounding; of
    cost alike. ``intensity_g_per_kwh`` and ``pue`` are means of the energy used, ``used_intensity_g_per_kwh`` of what
    was gone by at the time. ``intensity_shares`` are shares of energy by source and kind, ``estimated_share`` that
    whose intensity is not a measured one, unknown included; ``compared_share`` that which a saving could be computed
    for. ``profile_spread_known`` is whether the profile says how much it scatters. SCI is in grams a unit.
    """

    energy_j: float
    grams: float | None
    seconds: float
    units: float
    method: str
    host_energy_j: float = 0.0
    cost: float | None = None
    currency: str = ""
    intensity_g_per_kwh: float | None = None
    used_intensity_g_per_kwh: float | None = None
    pue: float = 1.0
    intensity_shares: Mapping[str, float] = field(default_factory=dict)
    price_kinds: tuple[str, ...] = ()
    reference_energy_j: float | None = None
    reference_host_energy_j: float | None = None
    reference_seconds: float | None = None
    reference_grams: float | None = None
    reference_grams_by_interval: float | None = None
    reference_cost: float | None = None
    reference_cost_by_interval: float | None = None
    slowdown: float | None = None
    saved_energy_j: float | None = None
    saved_grams: float | None = None
    efficiency_grams: float | None = None
    timing_grams: float | None = None
    saved_grams_sd: float | None = None
    efficiency_grams_sd: float | None = None
    timing_grams_sd: float | None = None
    saved_cost: float | None = None
    efficiency_cost: float | None = None
    timing_cost: float | None = None
    unpriced_energy_j: float = 0.0
    estimated_share: float = 0.0
    compared_share: float = 0.0
    profile_spread_known: bool = False
    embodied_grams: float | None = None
    sci_operational_g_per_unit: float | None = None
    sci_embodied_g_per_unit: float | None = None
    sci_g_per_unit: float | None = None
    denominators: str = _DENOMINATORS

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def summarise(intervals: Iterable[IntervalRecord], frontier: Frontier | None = None) -> JobSummary:
    """The account of one job from its intervals, oldest first; the saving has parts only if its frontier is known."""
    rows = list(intervals)
    compared = comparable(rows, frontier)
    summary = _with_sci(_drawn(rows))
    summary = _with_energy(summary, [row for row, may in zip(rows, compared, strict=True) if may])
    if summary.slowdown is None:
        return summary
    by_grams = split(rows, compared, [_per_j(row, row.intensity_g_per_kwh) for row in rows], frontier)
    by_cost = split(rows, compared, [_per_j(row, row.price_per_kwh) for row in rows], frontier)
    summary = _with_saving(_with_saving(summary, "grams", by_grams), "cost", by_cost)
    return summary if by_grams is None or frontier is None else _with_doubt(summary, by_grams, frontier)


def _drawn(rows: Sequence[IntervalRecord]) -> JobSummary:
    total_j = fsum(map(drawn_j, rows))
    priced = [row for row in rows if row.grams is not None]
    measured_j = fsum(drawn_j(row) for row in priced if row.intensity_kind == Kind.MEASURED)
    methods = {row.method for row in rows}
    paid = [row for row in rows if row.cost is not None]
    currencies = {row.currency for row in paid}
    embodied = [row.embodied_grams for row in rows if row.embodied_grams is not None]
    return JobSummary(
        energy_j=fsum(row.energy_j for row in rows),
        host_energy_j=fsum(row.host_energy_j for row in rows),
        grams=fsum(row.grams or 0.0 for row in priced) if priced else None,
        cost=fsum(row.cost or 0.0 for row in paid) if len(currencies) == 1 else None,
        currency=currencies.pop() if len(currencies) == 1 else "",
        seconds=fsum(map(length_s, rows)),
        units=fsum(row.units for row in rows),
        method=methods.pop() if len(methods) == 1 else "mixed" if methods else "none",
        intensity_g_per_kwh=_mean((drawn_j(row), row.intensity_g_per_kwh) for row in priced),
        used_intensity_g_per_kwh=_mean((drawn_j(row), row.used_intensity_g_per_kwh) for row in rows),
        pue=_mean((drawn_j(row), booked_pue(row)) for row in rows) or 1.0,
        intensity_shares=_shares(rows, total_j),
        price_kinds=tuple(sorted({row.price_kind for row in paid})),
        unpriced_energy_j=fsum(drawn_j(row) for row in rows if row.grams is None),
        estimated_share=1.0 - measured_j / total_j if total_j > 0 else 0.0,
        embodied_grams=fsum(embodied) if embodied and len(embodied) == len(rows) else None,
    )


def _with_sci(summary: JobSummary) -> JobSummary:
    """SCI = (E * I * PUE + M) per R (ISO/IEC 21031:2024). Energy without an intensity is taken to be like the rest."""
    priced_j = summary.energy_j + summary.host_energy_j - summary.unpriced_energy_j
    if summary.units <= 0 or summary.grams is None or priced_j <= 0:
        return summary
    operational = summary.grams * (1.0 + summary.unpriced_energy_j / priced_j) / summary.units
    if summary.embodied_grams is None:
        return replace(summary, sci_operational_g_per_unit=operational)
    embodied = summary.embodied_grams / summary.units
    return replace(
        summary,
        sci_operational_g_per_unit=operational,
        sci_embodied_g_per_unit=embodied,
        sci_g_per_unit=operational + embodied,
    )


def _with_energy(summary: JobSummary, compared: Sequence[IntervalRecord]) -> JobSummary:
    reference_s = fsum(row.reference_s or 0.0 for row in compared)
    if reference_s <= 0:
        return summary
    seconds, drawn = fsum(map(length_s, compared)), fsum(map(drawn_j, compared))
    total_j = summary.energy_j + summary.host_energy_j
    gpus_j = fsum((row.reference_energy_j or 0.0) - row.energy_j for row in compared)
    host_j = fsum((row.reference_host_energy_j or 0.0) - row.host_energy_j for row in compared)
    return replace(
        summary,
        reference_energy_j=summary.energy_j + gpus_j,
        reference_host_energy_j=summary.host_energy_j + host_j,
        reference_seconds=summary.seconds - seconds + reference_s,
        slowdown=seconds / reference_s - 1.0,
        saved_energy_j=gpus_j + host_j,
        compared_share=drawn / total_j if total_j > 0 else 0.0,
    )


def _with_saving(summary: JobSummary, what: Literal["grams", "cost"], found: Split | None) -> JobSummary:
    """There is none of money in several currencies."""
    drawn: float | None = getattr(summary, what)
    if found is None or drawn is None:
        return summary
    figures: dict[str, Any] = {
        f"reference_{what}": drawn + found.saved,
        f"reference_{what}_by_interval": drawn + found.by_interval - found.drawn,
        f"saved_{what}": found.saved,
        f"efficiency_{what}": found.efficiency,
        f"timing_{what}": found.timing,
    }
    return replace(summary, **figures)


def _with_doubt(summary: JobSummary, found: Split, frontier: Frontier) -> JobSummary:
    host_power_w = summary.host_energy_j / summary.seconds if summary.seconds > 0 else 0.0
    reference = hosted(frontier, host_power_w).reference
    saved, efficiency, timing = deviations(found, reference)
    return replace(
        summary,
        saved_grams_sd=saved,
        efficiency_grams_sd=efficiency,
        timing_grams_sd=timing,
        profile_spread_known=reference.samples > 1,
    )


def _per_j(row: IntervalRecord, per_kwh: float | None) -> float | None:
    """Of a joule at the machine, what is paid or emitted at the meter."""
    return None if per_kwh is None else per_kwh * (booked_pue(row) or 1.0) / J_PER_KWH


def _shares(rows: Sequence[IntervalRecord], total_j: float) -> dict[str, float]:
    by: dict[str, float] = defaultdict(float)
    for row in rows:
        by[f"{row.intensity_source} {row.intensity_kind}".strip() or "unknown"] += drawn_j(row)
    ordered = sorted(by.items(), key=lambda named: (-named[1], named[0]))
    return {name: energy_j / total_j for name, energy_j in ordered} if total_j > 0 else {}


def _mean(weighed: Iterable[tuple[float, float | None]]) -> float | None:
    """Of what is known."""
    weight = total = 0.0
    for share, value in weighed:
        if value is not None:
            weight, total = weight + share, total + share * value
    return total / weight if weight > 0 else None
