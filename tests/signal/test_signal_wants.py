"""A region says which signal and scope its sources give, and nothing else passes for it: not live, and not stored."""

from __future__ import annotations

from dataclasses import replace

import pytest
from signal_bench import DIRECT, HOUR, NOW, Kept, Source, point

from providers.base import Boundary, Kind, Scope, Signal, Transient

AVERAGE_DIRECT = (Signal.AVERAGE, Scope.DIRECT)
LIFECYCLE = (Signal.AVERAGE, Scope.LIFECYCLE, Boundary.CONSUMPTION)
MARGINAL = (Signal.MARGINAL, Scope.DIRECT, Boundary.PRODUCTION)
UNSAID = (Signal.AVERAGE, Scope.UNSPECIFIED, Boundary.UNSPECIFIED)
OTHERS = pytest.mark.parametrize("other", [LIFECYCLE, MARGINAL], ids="-".join)


@OTHERS
def test_what_an_earlier_configuration_stored_does_not_serve(make, other):
    """The scope was changed, and the source is down since: the old values are neither gone by nor compared with."""
    grid = make(Source(error=Transient("down")), wants=AVERAGE_DIRECT)
    grid.remember([point(NOW - n * HOUR, 500.0, of=other) for n in range(100)])
    grid.remember([point(NOW + n * HOUR, 480.0, of=other, kind=Kind.FORECAST) for n in range(48)])
    outlook = grid.outlook()
    assert (outlook.now, outlook.recent, outlook.ahead) == (None, (), ())


@OTHERS
def test_of_a_mixed_memory_the_wanted_part_serves(make, other):
    """Also where the unwanted part was read last."""
    grid = make(Source(error=Transient("down")), wants=AVERAGE_DIRECT)
    old = [point(NOW - n * HOUR, 75.0, of=DIRECT) for n in range(40, 90)]
    grid.remember([*old, *(point(NOW - n * HOUR, 500.0, of=other) for n in range(40))])
    assert [p.g_per_kwh for p in grid.outlook().recent] == [75.0] * 50


@OTHERS
def test_a_live_source_of_another_kind_is_refused(make, events, other):
    """Its values would be compared with something else: an error that says what it gives, and the next source."""
    kept = Kept()
    grid = make(Source(observed={NOW: 500.0}, of=other), Source("second", observed={NOW: 80.0}), store=kept)
    wrong = make(
        Source(observed={NOW: 500.0}, of=other),
        Source("second", observed={NOW: 80.0}),
        wants=AVERAGE_DIRECT,
        store=kept,
    )
    grid.poll()
    assert grid.outlook().now.source == "first"
    kept.points.clear()
    wrong.poll()
    assert wrong.outlook().now.source == "second"
    assert {p.source for p in kept.points} == {"second"}
    said = f"it gives {other[0]} {other[1]}, and the region wants average direct"
    assert events == [("source-failed", f"first (XX): SchemaError: {said}")]


@OTHERS
def test_a_forecast_of_another_kind_is_refused_alone(make, events, other):
    """The observation of the right kind is taken."""

    class Torn(Source):
        def forecast(self, start, end):
            found = super().forecast(start, end)
            return type(found)(tuple(replace(p, signal=other[0], scope=other[1]) for p in found))

    grid = make(Torn(observed={NOW: 75.0}, expected={NOW + HOUR: 500.0}), wants=AVERAGE_DIRECT)
    grid.poll()
    assert grid.outlook().now.g_per_kwh == 75.0
    assert 500.0 not in [hour.g_per_kwh for hour in grid.outlook().ahead]
    assert [code for code, _ in events] == ["forecast-failed"]


def test_a_source_that_does_not_say_its_scope_is_the_owners_to_judge(make):
    """A file without the word, or a query of one's own: its owner has put it into the region."""
    grid = make(Source(observed={NOW: 75.0}, of=UNSAID), wants=AVERAGE_DIRECT)
    grid.poll()
    assert grid.outlook().now.g_per_kwh == 75.0


def test_without_a_wish_anything_is_taken(make):
    """A signal over one source of its own needs no region."""
    grid = make(Source(observed={NOW: 75.0}, of=MARGINAL))
    grid.poll()
    assert grid.outlook().now.signal is Signal.MARGINAL
