"""Which intervals are compared with full power: those that must not be, and rare reports at any limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from account_cases import THREE, booked, frontier, jobs, point, series, work
from hypothesis import given
from hypothesis import strategies as st

from chase.accounting import summarise
from chase.records import IntervalRecord
from zeus_core.frontier import Frontier

SAVINGS = ("saved_energy_j", "saved_grams", "slowdown", "efficiency_grams", "timing_grams")
NO_REFERENCE = {"reference_energy_j": None, "reference_s": None, "reference_grams": None}


def minute(
    number: int,
    units: float,
    *,
    limit_w: float | None = 200.0,
    power_w: float = 192.0,
    compare: bool = True,
    known: Frontier | None = THREE,
) -> IntervalRecord:
    """The interval of one minute, at 100 g/kWh; 48 units at 192 W are what 200 W gives, 60 at 300 W full power."""
    facts = {"units": units, "energy_j": 60.0 * power_w, "power_limit_w": limit_w, "frontier": known}
    grid = series(point(60.0 * number, 60.0 * number + 60, 100.0))
    return booked(60.0 * number, series=grid, compare=compare, **facts)


def savings(rows: list[IntervalRecord], of: Frontier | None = THREE) -> dict[str, object]:
    summary = summarise(rows, of)
    return {name: pytest.approx(getattr(summary, name), rel=1e-6, abs=1e-6) for name in SAVINGS}


def found(rows: list[IntervalRecord], of: Frontier | None = THREE) -> dict[str, object]:
    summary = summarise(rows, of)
    return {name: getattr(summary, name) for name in SAVINGS}


@given(jobs(st.floats(0.0, 1200.0)), st.data())
def test_what_is_not_compared_counts_the_same_on_both_sides(job, data):
    """Whichever intervals are left out, savings are those of the rest, and energy and grams those of all."""
    chosen, rows = job
    kept = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    mixed = [row if keep else replace(row, **NO_REFERENCE) for row, keep in zip(rows, kept, strict=True)]
    rest = [row for row, keep in zip(rows, kept, strict=True) if keep]
    whole, part = summarise(mixed, chosen), summarise(rest, chosen)
    assert whole.energy_j == pytest.approx(sum(row.energy_j for row in rows))
    assert whole.grams == pytest.approx(sum(row.grams for row in rows))
    assert whole.saved_energy_j == (part.saved_energy_j if any(kept) else None)
    assert whole.slowdown == (part.slowdown if any(kept) else None)
    if any(kept):
        assert whole.reference_energy_j - whole.energy_j == pytest.approx(part.saved_energy_j, abs=1e-3)
        saved, of_rest = (s.reference_grams_by_interval - s.grams for s in (whole, part))
        assert saved == pytest.approx(of_rest, abs=1e-6 * max(1.0, whole.grams))
        assert whole.compared_share == pytest.approx(part.energy_j / whole.energy_j)


def test_nothing_compared_is_no_saving():
    """A GPU that was shared all along has an energy, and no number is made up for what it saved."""
    summary = summarise([minute(0, 48, compare=False), minute(1, 0, compare=False)], THREE)
    assert summary.energy_j == pytest.approx(2 * 60 * 192)
    assert (summary.saved_energy_j, summary.reference_grams, summary.slowdown) == (None, None, None)
    assert summary.compared_share == 0.0


@pytest.mark.parametrize("units_before", [0.0, 20.0])
def test_work_of_a_time_that_must_not_be_compared_is_not_credited(units_before: float):
    """The GPU was shared until a minute ago, and the report that comes now is of both minutes: no saving of it."""
    rows = [minute(0, units_before, compare=False, power_w=80.0), minute(1, 96.0 - units_before), minute(2, 48)]
    assert found(rows) == savings([minute(2, 48)])


def test_a_leap_over_one_shared_minute_is_left_out_whole():
    """Three quiet minutes and a report, the GPU shared in one of them: the others are no saving and no loss."""
    quiet = [minute(0, 0), minute(1, 0, compare=False), minute(2, 0), minute(3, 192)]
    rows = [*quiet, minute(4, 48)]
    assert found(rows) == savings([minute(4, 48)])


def test_a_shared_minute_before_ordinary_work_taints_nothing():
    """What fits into its own interval is compared, whatever came before."""
    rows = [minute(0, 48, compare=False), minute(1, 48), minute(2, 0, compare=False), minute(3, 48)]
    assert found(rows) == savings([minute(1, 48), minute(3, 48)])


def test_a_leap_that_must_not_be_compared_drags_nothing_along():
    """The quiet minutes before it are no loss."""
    rows = [minute(0, 48), minute(1, 0), minute(2, 0), minute(3, 144, compare=False), minute(4, 48)]
    assert found(rows) == savings([minute(0, 48), minute(4, 48)])


def test_work_from_before_there_was_a_frontier_is_not_credited():
    """The first report after the frontier was measured is of the minutes before, too."""
    rows = [minute(0, 0, known=None), minute(1, 0, known=None), minute(2, 144), minute(3, 0), minute(4, 96)]
    assert found(rows) == savings([minute(3, 48), minute(4, 48)])


def test_a_leap_after_compared_work_is_compared():
    """Reports that come a little late shift work by one interval; the sum is right."""
    assert found([minute(0, 36), minute(1, 60), minute(2, 48)]) == savings([minute(i, 48) for i in range(3)])


LIMITS = [200.0, 199.7, 200.4, 210.0, 230.0, 180.0, None]


@pytest.mark.parametrize("limit_w", LIMITS)
@pytest.mark.parametrize("quiet", [1, 4, 9])
def test_rare_reports_are_right_whatever_is_known_of_the_limit(limit_w: float | None, quiet: int):
    """Rounded by the driver, between two that were measured, below all, or not known: all quiet minutes were work."""
    rows = [minute(i, 0, limit_w=limit_w) for i in range(1, quiet + 1)]
    rows = [minute(0, 48), *rows, minute(quiet + 1, 48.0 * (quiet + 1), limit_w=limit_w)]
    assert found(rows) == savings([minute(i, 48) for i in range(quiet + 2)])


@pytest.mark.parametrize(
    ("limit_w", "units"),
    [(180.0, 46), (199.7, 48), (200.0, 48), (200.4, 48), (230.0, 54), (300.0, 60), (400.0, 62), (None, 48), (None, 60)],
)
def test_a_pause_stays_a_pause_whatever_is_known_of_the_limit(limit_w: float | None, units: float):
    """An evaluation before a minute of ordinary work: at no limit does it become work."""
    row = minute(1, units, limit_w=limit_w)
    assert found([minute(0, 0, limit_w=limit_w, power_w=100.0), row]) == savings([row])


@given(st.integers(1, 6), st.integers(0, 6), st.sampled_from([(300.0, 60.0, 300.0), (200.0, 48.0, 192.0)]))
def test_a_limit_that_is_not_known_never_finds_more(quiet: int, hung: int, setting: tuple[float, float, float]):
    """A hang and then rare reports: where it is not known how long the work took, the saving is the smaller one."""
    limit_w, units, power_w = setting
    hang = [minute(i, 0, power_w=100.0) for i in range(hung)]

    def reported(limit: float | None) -> list[IntervalRecord]:
        still = [minute(hung + i, 0, limit_w=limit, power_w=power_w) for i in range(quiet)]
        return [*hang, *still, minute(hung + quiet, units * (quiet + 1), limit_w=limit, power_w=power_w)]

    unknown, known = summarise(reported(None), THREE), summarise(reported(limit_w), THREE)
    assert unknown.saved_energy_j <= known.saved_energy_j + 1e-6
    assert unknown.energy_j == known.energy_j


def test_a_frontier_without_power_limits_is_no_match_for_an_unknown_one():
    """A point of "as found" is full power; a limit that is not known is not that point."""
    as_found = frontier((None, 1.0, 300.0), (200.0, 1.25, 240.0))
    rows = [minute(0, 48, known=as_found), minute(1, 0, known=as_found, limit_w=None)]
    rows += [minute(2, 0, known=as_found, limit_w=None), minute(3, 144, known=as_found, limit_w=None)]
    assert found(rows, as_found) == savings([minute(i, 48, known=as_found) for i in range(4)], as_found)


def test_without_a_frontier_at_hand_full_power_decides():
    """A report from the database alone: the reference's seconds are in the rows."""
    rows = [minute(0, 0, limit_w=None), minute(1, 120, limit_w=None, power_w=300.0)]
    summary = summarise(rows)
    assert summary.slowdown == pytest.approx(0.0)
    assert summary.saved_energy_j == pytest.approx(120 * 300 - 60 * 492)


def test_a_mixture_of_settings_is_compared_each_by_its_own_time():
    """Quiet minutes at 200 W before one at full power that reports for itself alone stay a pause."""
    rows = [*work(THREE, [(300.0, 60, 100.0)]), minute(1, 0, power_w=90.0), minute(2, 60, limit_w=300.0, power_w=300.0)]
    assert found(rows)["saved_energy_j"] == pytest.approx(0.0)
