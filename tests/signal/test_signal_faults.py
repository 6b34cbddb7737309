"""Providers that break their word: one of them never costs us the others."""

from __future__ import annotations

import pytest
from signal_bench import HOUR, NOW, Source, point

from providers.base import Kind, NoData, SchemaError, Transient

STRANGE = [
    KeyError("carbonIntensity"),
    ValueError("Expecting value: line 1 column 1 (char 0)"),
    TypeError("'NoneType' object is not subscriptable"),
    OSError("Connection reset"),
    RuntimeError(),
    AssertionError("never"),
    RecursionError("maximum recursion depth exceeded"),
    ZeroDivisionError("division by zero"),
]


def _name(error: Exception) -> str:
    return type(error).__name__


@pytest.mark.parametrize("error", STRANGE, ids=_name)
def test_any_error_of_a_provider_moves_on_to_the_next(make, events, error):
    """What is no ProviderError counts as transient; its type and text are an event, and the next source is asked."""
    first = Source(error=error)
    grid = make(first, Source("second", observed={NOW: 99.0}))
    assert grid.poll()
    assert grid.outlook().now.source == "second"
    ((code, text),) = events
    assert code == "source-failed"
    assert text.startswith(f"first (XX): Transient: {_name(error)}: {error}".strip())
    assert grid.states[0].problem.startswith(f"Transient: {_name(error)}")


@pytest.mark.parametrize("error", STRANGE, ids=_name)
def test_any_error_of_a_forecast_leaves_the_observation(make, events, error):
    """The same of a forecast: it is missing, and nothing else is."""
    grid = make(Source(observed={NOW: 180.0}, forecast_error=error))
    grid.poll()
    assert grid.outlook().now.g_per_kwh == 180.0
    assert [code for code, _ in events] == ["forecast-failed"]
    assert _name(error) in events[0][1]


def test_a_source_with_a_strange_error_comes_back(make, clock, events):
    """It is asked at its next slot like after any other failure."""
    source = Source(error=KeyError("x"))
    grid = make(source)
    grid.poll()
    source.error, source.observed = None, {NOW: 180.0}
    clock.advance(300)
    grid.poll()
    assert [code for code, _ in events] == ["source-failed", "source-back"]
    assert grid.outlook().now.g_per_kwh == 180.0


@pytest.mark.parametrize(
    "answer", [None, 7, [None], ["text"], [{"g_per_kwh": 1}], pytest.param(object(), id="an object")], ids=repr
)
@pytest.mark.parametrize("method", ["observe", "forecast"])
def test_an_answer_that_is_no_series_moves_on(make, events, answer, method):
    """What a provider gives is looked at before it is taken in."""

    class Stranger(Source):
        pass

    setattr(Stranger, method, lambda *_: answer)
    first = Stranger(observed={NOW: 180.0}, expected={NOW: 1.0})
    grid = make(first, Source("second", observed={NOW: 99.0}))
    grid.poll()
    observed = method == "observe"
    assert grid.outlook().now.source == ("second" if observed else "first")
    assert [code for code, _ in events] == ["source-failed" if observed else "forecast-failed"]


def test_a_plain_list_is_as_good_as_a_series(make):
    """Points in a list, in any order, are points."""

    class Plain(Source):
        def observe(self, start, end):
            return list(reversed(list(super().observe(start, end))))

    grid = make(Plain(observed={NOW - i * HOUR: 100.0 + i for i in range(5)}))
    grid.poll()
    assert [p.g_per_kwh for p in grid.outlook().recent] == [104.0, 103.0, 102.0, 101.0, 100.0]


def test_capabilities_that_fail_are_the_sources_fault_too(make):
    """A property is an outsider's code as well."""

    class Moody(Source):
        @property
        def capabilities(self):
            if self.asked < 0:
                raise LookupError("not today")
            return super().capabilities

    first = Moody()
    grid = make(first, Source("second", observed={NOW: 99.0}))
    first.asked = -1
    grid.poll()
    assert grid.outlook().now.source == "second"
    assert grid.states[0].problem == "Transient: LookupError: not today"


def test_the_text_of_a_strange_error_is_bounded_on_one_line_and_without_credentials(make):
    """A whole page, or an address with a token in it, does not reach the log or the database."""
    long = "<html>\n" + "x" * 10_000
    for text, bound in ((long, 330), ("GET https://x.org/?zone=DE&api_key=Hunter2 refused\n", 100)):
        grid = make(Source(error=ValueError(text)))
        grid.poll()
        problem = grid.states[0].problem
        assert len(problem) <= bound
        assert "\n" not in problem
        assert "Hunter2" not in problem


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=_name)
def test_what_ends_the_process_is_not_caught(make, error):
    """Only errors are a source's fault."""
    with pytest.raises(type(error)):
        make(Source(error=error)).poll()


def test_a_forecast_that_fails_is_said_when_it_begins_and_again_after_it_worked(make, clock, events):
    """One event for each time it begins to fail, whatever its texts, and none while it goes on."""
    source = Source(observed={NOW: 180.0}, expected={NOW: 1.0})
    grid = make(source)
    said = []
    for error in (SchemaError("a"), SchemaError("a"), NoData("b"), None, None, NoData("c"), Transient("d"), None):
        source.forecast_error = error
        grid.poll()
        said.append(len(events))
        clock.advance(300)
    assert said == [1, 1, 1, 1, 1, 2, 2, 2]
    assert [text for _, text in events] == [
        "first (XX) gives no forecast: SchemaError: a",
        "first (XX) gives no forecast: NoData: c",
    ]


def test_two_sources_forecasts_fail_apart(make, clock, events):
    """One source's forecast that works again does not let another's be told twice."""
    first = Source(observed={NOW - 4 * HOUR: 1.0}, forecast_error=NoData("a"))
    second = Source("second", observed={NOW: 1.0}, forecast_error=NoData("b"))
    grid = make(first, second)
    for error in (NoData("a"), None, NoData("a")):
        first.forecast_error = error
        first.expected = {NOW: 1.0}
        grid.poll()
        clock.advance(300)
    assert [text.split()[0] for _, text in events] == ["first", "second", "first"]


def test_a_point_of_the_wrong_kind_in_a_memory_is_put_where_it_belongs(make):
    """Forecasts and observations come back from one list."""
    grid = make(Source(error=Transient("down")))
    grid.remember([point(NOW, 5.0), point(NOW + HOUR, 6.0, kind=Kind.FORECAST)])
    (state,) = grid.states
    assert (list(state.observed), list(state.forecast)) == ([NOW], [NOW + HOUR])
