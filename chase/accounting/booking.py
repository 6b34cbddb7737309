"""One row of the account: what an interval drew, what that emitted and cost, and the same work at full power."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from chase.pricing import ASSUMED, J_PER_KWH, Paid, Price, carried, grams_of, paid, price, seconds_in, worst
from chase.records import IntervalRecord
from providers.base import IntensityPoint, Kind, PriceSeries, Series
from zeus_core.frontier import Frontier


def interval(
    *,
    job_id: str,
    start: datetime,
    end: datetime,
    units: float,
    energy_j: float,
    method: str,
    power_limit_w: float | None,
    seconds: float | None = None,
    series: Series = Series(),  # noqa: B008  frozen
    point: IntensityPoint | None = None,
    used: IntensityPoint | None = None,
    cost: Paid | None = None,
    frontier: Frontier | None = None,
    pue: float = 1.0,
    host_power_w: float = 0.0,
    embodied_g_per_s: float | None = None,
    compare: bool = True,
) -> IntervalRecord:
    """One row of the account. ``units`` is the progress made; none is no progress, which at full power costs nothing.

    Without ``compare`` (the GPU was shared, the frontier was wrong) it has no reference, as without a frontier.
    ``power_limit_w`` is the limit that was in force, None where that is not known or not ours. ``used`` is the value
    that was gone by when the interval began, ``host_power_w`` what is configured for the job's part of the host.

    Priced from ``series``, or where it knows nothing of this time from ``point``, the value known by now. ``seconds``,
    from the monotonic clock, decides the length where the wall clock was moved.
    """
    if seconds is not None:
        end = start + timedelta(seconds=seconds)
    length_s = seconds_in(start, end)
    reference = frontier.reference if frontier is not None and compare else None
    reference_s = None if reference is None else max(units, 0.0) * reference.seconds_per_unit
    reference_j = None if reference is None else max(units, 0.0) * reference.joules_per_unit
    host_j, reference_host_j = host_power_w * length_s, None if reference_s is None else host_power_w * reference_s
    found = price(series, start, end) or carried(point, start, end)
    return IntervalRecord(
        job_id=job_id,
        start=start,
        end=end,
        units=units,
        energy_j=energy_j,
        method=method,
        power_limit_w=power_limit_w,
        reference_energy_j=reference_j,
        reference_s=reference_s,
        progress=units > 0,
        host_energy_j=host_j,
        reference_host_energy_j=reference_host_j,
        used_intensity_g_per_kwh=None if used is None else used.g_per_kwh,
        used_intensity_kind="" if used is None else used.kind.value,
        embodied_grams=None if embodied_g_per_s is None else embodied_g_per_s * length_s,
        **_bill(energy_j + host_j, _sum(reference_j, reference_host_j), found, cost, pue),
    )


def reprice(
    intervals: Iterable[IntervalRecord],
    series: Series,
    *,
    pue: float = 1.0,
    prices: PriceSeries = PriceSeries(),  # noqa: B008  frozen
) -> list[IntervalRecord]:
    """The same energy at the intensities and prices as they are known now, and at the PUE that it was booked with.

    An interval keeps what is known of it where the series know nothing, or only something less certain, and where
    nothing changes it is the very record that was given. Where nothing tells the PUE of one it is that of the others,
    or else ``pue``.
    """
    rows = list(intervals)
    booked = next((known for row in rows if (known := booked_pue(row)) is not None), pue)
    return [_repriced(row, series, prices, booked_pue(row) or booked) for row in rows]


def booked_pue(record: IntervalRecord) -> float | None:
    """Rows of a first version do not say it: None where nothing else tells (no price, no energy, an intensity of 0)."""
    if record.pue is not None:
        return record.pue
    pairs = ((record.grams, record.energy_j), (record.reference_grams, record.reference_energy_j))
    for grams, energy_j in pairs:
        if grams and energy_j and record.intensity_g_per_kwh:
            return grams / grams_of(energy_j, record.intensity_g_per_kwh)
    return None


def drawn_j(record: IntervalRecord) -> float:
    return record.energy_j + record.host_energy_j


def reference_j(record: IntervalRecord) -> float | None:
    return _sum(record.reference_energy_j, record.reference_host_energy_j)


def _sum(energy_j: float | None, host_j: float | None) -> float | None:
    return None if energy_j is None else energy_j + (host_j or 0.0)


def _bill(
    energy_j: float, reference_j: float | None, found: Price | None, cost: Paid | None, pue: float
) -> dict[str, Any]:
    """Everything of a row that follows from what a joule emitted and cost. Money is paid at the meter, PUE included."""
    kwh, reference_kwh = energy_j / J_PER_KWH * pue, None if reference_j is None else reference_j / J_PER_KWH * pue
    return {
        "pue": pue,
        "intensity_g_per_kwh": None if found is None else found.g_per_kwh,
        "intensity_kind": "" if found is None else found.kind.value,
        "intensity_source": "" if found is None else found.source,
        "grams": None if found is None else kwh * found.g_per_kwh,
        "reference_grams": None if found is None or reference_kwh is None else reference_kwh * found.g_per_kwh,
        "price_per_kwh": None if cost is None else cost.price_per_kwh,
        "price_kind": "" if cost is None else cost.kind,
        "currency": "" if cost is None else cost.currency,
        "cost": None if cost is None else kwh * cost.price_per_kwh,
        "reference_cost": None if cost is None or reference_kwh is None else reference_kwh * cost.price_per_kwh,
    }


def _repriced(record: IntervalRecord, series: Series, prices: PriceSeries, pue: float) -> IntervalRecord:
    found, cost = price(series, record.start, record.end), paid(prices, record.start, record.end)
    if found is None and cost is None:
        return record
    found, cost = _surer(record, found), _surer_cost(record, cost)
    bill = _bill(drawn_j(record), reference_j(record), found, cost, pue)
    return record if _same(record, bill) else replace(record, **bill)


def _surer(record: IntervalRecord, found: Price | None) -> Price | None:
    """What is known now, unless what was booked is better."""
    if record.intensity_g_per_kwh is None:
        return found
    kind = Kind(record.intensity_kind)
    if found is None or worst([found.kind, kind]) != kind:
        return Price(record.intensity_g_per_kwh, kind, record.intensity_source)
    return found


def _surer_cost(record: IntervalRecord, cost: Paid | None) -> Paid | None:
    if record.price_per_kwh is None:
        return cost
    if cost is None or (cost.kind == ASSUMED and record.price_kind != ASSUMED):
        return Paid(record.price_per_kwh, record.currency, record.price_kind)
    return cost


def _same(record: IntervalRecord, bill: dict[str, Any]) -> bool:
    """But for rounding; and where a first version said neither PUE nor source, these alone are no change."""
    for name, new in bill.items():
        old = getattr(record, name)
        if old != new and not (name in {"pue", "intensity_source"} and not old) and not _close(old, new):
            return False
    return True


def _close(old: Any, new: Any) -> bool:
    numbers = isinstance(old, float) and isinstance(new, float)
    return numbers and math.isclose(old, new, rel_tol=1e-12, abs_tol=1e-12)
