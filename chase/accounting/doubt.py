"""How uncertain a saving is, as one standard deviation, from intensities that were not measured and the profile.

Notation: x is saved, efficiency or timing, and x_i interval i's part of it.

    eps_k   relative error of an intensity of kind k (``RELATIVE_ERROR``)
    d_p     relative standard error of the energy of operating point p: its spread / sqrt(its windows)
    b       a stretch of six hours

    intensity:  var = sum_k eps_k^2 / 2 * [ (sum_(i of k) x_i)^2  +  sum_b (sum_(i of k, in b) x_i)^2 ]
    profile:    var = sum_p (g_p d_p)^2,    g_p the part of x that rests on point p: R on the reference, -F on the mix

Intensities of one kind err half together, all through the job (a bias), and half each stretch for itself (weather): a
common error alone would leave the timing, which lives from differences, next to certain. The four kinds, the points and
both sums are independent of each other, so that variances add up. What is measured is taken as it is: which emissions
count (life cycle or direct, average or marginal) makes more of a difference than its error, and is no matter of chance.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from chase.accounting.split import Split
from chase.records import IntervalRecord
from providers.base import Kind
from zeus_core.frontier import OperatingPoint, Setting

# One standard deviation: 1.25 mean absolute errors. A forecast: ours miss by 13.32 % a day ahead on the mean of
# 14 grids (docs/forecast.md). An estimate: as ours six hours ahead, 9.27 %; sources were seen to revise theirs by 7 to
# 44 % within hours, and a value carried on for an hour misses by 5 %. What is typical: means by month and hour miss by
# 23 % in their own year (the same grids), and by 33 and 48 % in the year after (Norway, Spain).
RELATIVE_ERROR: Mapping[Kind, float] = MappingProxyType(
    {Kind.MEASURED: 0.0, Kind.ESTIMATED: 0.12, Kind.FORECAST: 0.17, Kind.TYPICAL: 0.30}
)
_STRETCH_S = 21600

Parts = tuple[float, float, float]  # of saved, efficiency and timing
_NONE: Parts = (0.0, 0.0, 0.0)


def deviations(split: Split, reference: OperatingPoint) -> Parts:
    """The standard deviations of saved, efficiency and timing. ``reference`` is the frontier's, with the host in it."""
    intensity, profile = _from_intensity(split), _from_profile(split, reference)
    saved, efficiency, timing = (math.sqrt(a + b) for a, b in zip(intensity, profile, strict=True))
    return saved, efficiency, timing


def _from_intensity(split: Split) -> Parts:
    common: dict[Kind, Parts] = defaultdict(lambda: _NONE)
    alone: dict[tuple[Kind, int], Parts] = defaultdict(lambda: _NONE)
    for row, parts in _parts(split):
        kind = Kind(row.intensity_kind)
        if RELATIVE_ERROR[kind]:
            stretch = int(row.start.timestamp() // _STRETCH_S)
            common[kind] = _added(common[kind], parts)
            alone[kind, stretch] = _added(alone[kind, stretch], parts)
    variance = _NONE
    for kind, parts in [*common.items(), *((kind, parts) for (kind, _), parts in alone.items())]:
        variance = _added(variance, _squared(parts, RELATIVE_ERROR[kind] ** 2 / 2))
    return variance


def _from_profile(split: Split, reference: OperatingPoint) -> Parts:
    """A point that is both the reference and of the mix counts with the difference: its error is one."""
    rests: dict[Setting, Parts] = defaultdict(lambda: _NONE)
    rests[reference.setting] = (split.reference, split.reference, 0.0)
    error = {reference.setting: _standard_error(reference)}
    for point, energy_j in split.mix.parts if split.mix else ():
        part = energy_j / split.mix.energy_j * (split.fixed or 0.0) if split.mix else 0.0
        rests[point.setting] = _added(rests[point.setting], (0.0, -part, part))
        error[point.setting] = _standard_error(point)
    variance = _NONE
    for setting, parts in rests.items():
        variance = _added(variance, _squared(parts, error[setting] ** 2))
    return variance


def _parts(split: Split) -> Iterator[tuple[IntervalRecord, Parts]]:
    fixed_of = split.fixed_of or split.reference_of
    for row, full, fixed, drawn in zip(split.rows, split.reference_of, fixed_of, split.drawn_of, strict=True):
        yield row, (full - drawn, full - fixed, fixed - drawn)


def _standard_error(point: OperatingPoint) -> float:
    return point.spread / math.sqrt(point.samples)


def _added(one: Parts, other: Parts) -> Parts:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _squared(parts: Parts, weight: float) -> Parts:
    return weight * parts[0] ** 2, weight * parts[1] ** 2, weight * parts[2] ** 2
