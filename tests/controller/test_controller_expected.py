"""A decision on an expected value says how sure that was, and can be taken again; older records can be read."""

from __future__ import annotations

from dataclasses import replace

from controller_bench import OWNER

from chase.explain import explain


def silent_for(bench, seconds: float) -> None:
    bench.grid.g_per_kwh = None
    bench.run(seconds, step_s=60.0)


def test_the_spread_of_what_is_expected_is_recorded_and_shown(bench):
    """Eight hours after the last value a forecast stands in: its 80 % interval is in the inputs and in the reasons."""
    bench.register(0)
    bench.run(30)
    silent_for(bench, 8 * 3600)
    record = bench.decisions()[-1]
    grid = record.inputs["grid"]
    assert grid["kind"] == "forecast"
    assert grid["low_g_per_kwh"] < grid["g_per_kwh"] < grid["high_g_per_kwh"]
    again = explain(record)
    assert again.same
    (line,) = (line for line in again.lines() if line.startswith("  grid "))
    assert f"(80 % within {grid['low_g_per_kwh']:.0f} to {grid['high_g_per_kwh']:.0f}) g/kWh (forecast by" in line


def test_what_was_observed_has_no_spread(bench):
    """It is what the source says."""
    bench.register(0)
    bench.run(30)
    record = bench.decisions()[-1]
    assert record.inputs["grid"]["low_g_per_kwh"] is None
    assert "80 %" not in "\n".join(explain(record).lines())


def test_a_decision_of_an_earlier_version_can_be_taken_again(bench):
    """Its inputs lack the spread."""
    bench.register(0)
    bench.run(30)
    record = bench.decisions()[-1]
    grid = {
        key: value for key, value in record.inputs["grid"].items() if key not in {"low_g_per_kwh", "high_g_per_kwh"}
    }
    assert explain(replace(record, inputs={**record.inputs, "grid": grid})).same


def test_the_account_of_a_job_that_ends_in_an_outage_is_at_the_values_known(bench):
    """A forecast stands in when it ends: what was drawn before is priced at what is known of that time by now."""
    job = bench.register(0)
    bench.run(600)
    start = bench.clock.now().replace(minute=0, second=0, microsecond=0)
    (point,) = bench.store.points("XX", "fake-grid", start)
    bench.store.add_points([replace(point, g_per_kwh=70.0, fetched_at=bench.clock.now())])
    silent_for(bench, 8 * 3600)
    summary, *_ = bench.controller.end(job.id, OWNER, "done", job.units_done)
    rows = [row for row in bench.store.intervals(job=job.id) if row.end <= point.end]
    assert {row.intensity_g_per_kwh for row in rows} == {70.0}
    assert summary.grams is not None
