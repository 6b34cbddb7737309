"""What a node tells of its grid: as its source gave it, with a tag, and nothing else."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from share_bench import Region, span, text
from signal_bench import HOUR, NOW, Source, Typical

from providers.base import Boundary, Kind, Scope, Signal, Transient

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(["xx", "XX"])
times_asked = st.datetimes().map(lambda at: f"{at.isoformat()}Z")
LIFECYCLE = (Signal.AVERAGE, Scope.LIFECYCLE, Boundary.CONSUMPTION)


class TestIntensity:
    def test_points_say_what_they_are(self, region, caller):
        """Source, zone, signal, scope and boundary once; value, kind and times of each point."""
        told = caller.intensity(back_h=2, ahead_h=1)
        assert told.status == 200
        (expected,) = region.source.forecast(NOW, NOW + HOUR)
        rows = [(NOW - 2 * HOUR, 102.0), (NOW - HOUR, 101.0)]
        assert told.body == {
            "version": 1,
            "region": "xx",
            "zones": ["XX"],
            "source": "first",
            "zone": "XX",
            "signal": "average",
            "scope": "direct",
            "boundary": "production",
            "observed": [
                {**times(at), "fetched_at": text(at + HOUR), "g_per_kwh": grams, "kind": "measured"}
                for at, grams in rows
            ],
            "forecast": [
                {
                    **times(NOW),
                    "issued_at": text(expected.issued_at),
                    "fetched_at": text(expected.fetched_at),
                    "g_per_kwh": 200.0,
                    "kind": "forecast",
                }
            ],
        }

    def test_it_is_found_by_region_and_by_zone(self, caller):
        """Also by the zone of its prices; anything else is 404 and names what there is."""
        assert {caller.intensity(place).status for place in ("xx", "XX", "BZN")} == {200}
        told = caller.intensity("atlantis")
        assert (told.status, told.body["error"]["code"]) == (404, "404")
        assert told.body["error"]["message"] == "there is no such region or zone here; there is xx"

    def test_the_source_that_is_gone_by_is_told(self, serve):
        """The first is down: the second's points, under the second's name, and none of both."""
        second = Source("second", "XX", {NOW - i * HOUR: 300.0 for i in range(1, 72)}, of=LIFECYCLE)
        region = Region(observed={}, expected={}, others=(second,))
        region.source.error = Transient("down")
        told = serve(region).intensity().body
        assert (told["source"], told["zone"], told["scope"], told["zones"]) == ("second", "XX", "lifecycle", ["XX"])
        assert {row["g_per_kwh"] for row in told["observed"]} == {300.0}

    def test_an_old_value_is_told_as_old_as_it_is(self, region, caller):
        """The source is silent for a day: what it said last, and its own forecast, never one of ours."""
        region.clock.advance(86400)
        told = caller.intensity(back_h=24, ahead_h=48).body
        assert [row["g_per_kwh"] for row in told["observed"][-1:]] == [101.0]
        assert told["forecast"][0]["start"] == text(NOW + 24 * HOUR)
        assert {row["kind"] for row in told["forecast"]} == {"forecast"}

    def test_what_is_typical_is_not_passed_on(self, serve):
        """Everybody has a typical profile; it is no news of the grid."""
        region = Region(observed={}, expected={}, others=(Typical("static", kind=Kind.TYPICAL),))
        region.source.error = Transient("down")
        told = serve(region).intensity().body
        assert (told["observed"], told["forecast"], "source" in told) == ([], [], False)

    def test_an_outlier_that_is_held_back_is_not_passed_on(self, region, caller):
        """What this node does not go by, others shall not either."""
        region.observed[NOW] = 4000.0
        region.clock.advance(3600)
        region.poll()
        assert region.grid.states[0].gate.held
        assert 4000.0 not in {row["g_per_kwh"] for row in caller.intensity().body["observed"]}

    def test_what_was_revised_is_told_as_revised(self, region, caller):
        """The newest vintage, with the time of its reading."""
        region.observed[NOW - HOUR] = 111.0
        region.clock.advance(300)
        region.poll()
        assert caller.intensity().body["observed"][-1]["g_per_kwh"] == 111.0

    @pytest.mark.parametrize(
        ("back_h", "ahead_h", "first", "last"), [(5, -3, 5, 4), (2.5, -1.5, 3, 2), (200, -70, 72, 71)]
    )
    def test_what_reaches_into_the_time_asked_for(self, caller, back_h, ahead_h, first, last):
        """The interval that holds at the start belongs to it, the one that begins at the end does not."""
        found = [row["start"] for row in caller.intensity(back_h=back_h, ahead_h=ahead_h).body["observed"]]
        assert (found[0], found[-1]) == (text(NOW - first * HOUR), text(NOW - last * HOUR))


def times(at) -> dict[str, str]:
    return {"start": text(at), "end": text(at + HOUR)}


class TestPrices:
    def test_prices_say_what_they_are(self, caller):
        """Currency, market and licence once; they may be negative."""
        told = caller.get("/v1/grid/BZN/prices", span(1, 1))
        head = {"source": "market", "zone": "BZN", "currency": "EUR", "market": "day-ahead", "licence": "CC BY 4.0"}
        assert {name: told.body[name] for name in head} == head
        hours = (NOW - HOUR, NOW)
        assert told.body["prices"] == [
            {**times(at), "fetched_at": text(NOW), "price_per_kwh": -0.01 * at.hour} for at in hours
        ]

    def test_a_price_of_another_day_is_not_passed_on(self, region, caller):
        """What only stands in for a price is this node's own guess."""
        region.clock.advance(9 * 86400)
        assert caller.get("/v1/grid/xx/prices", span(0, 48)).body["prices"] == []

    def test_a_region_without_prices_has_none(self, serve, region):
        """An empty list, and no error."""
        region.prices = None
        told = serve(region).get("/v1/grid/xx/prices", span(1, 1))
        assert (told.status, told.body) == (200, {"version": 1, "region": "xx", "zones": [], "prices": []})


class TestTag:
    def test_what_the_caller_has_is_not_sent_again(self, caller):
        """304, without a body, and with the same tag; also among others, and as weak."""
        told = caller.intensity()
        tag = told.headers["etag"]
        assert tag.startswith('"')
        for given_tag in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            again = caller.intensity(If_None_Match=given_tag)
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert caller.intensity(If_None_Match='"other"').status == 200

    def test_news_change_the_tag_and_time_does_not(self, region, caller):
        """An hour passes without news: the same. A revision in the past, or another hour asked for: another."""
        tag = caller.intensity().headers["etag"]
        region.clock.advance(60)
        region.poll()
        assert caller.intensity().headers["etag"] == tag
        assert caller.intensity(back_h=71).headers["etag"] != tag
        region.observed[NOW - 30 * HOUR] = 131.0
        region.clock.advance(300)
        region.poll()
        assert caller.intensity(If_None_Match=tag).status == 200

    def test_a_proxy_must_ask_again(self, caller):
        """The answer is the caller's own, and may be kept only to ask whether it still holds."""
        assert caller.intensity().headers["cache-control"] == "private, no-cache"


class TestBadQuestions:
    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ({}, "start must be a time with its UTC offset"),
            ({"start": text(NOW)}, "end must be a time"),
            ({"start": "2026-03-02T12:00", "end": text(NOW)}, "start must be a time with its UTC offset"),
            ({"start": "yesterday", "end": text(NOW)}, "start must be a time"),
            ({"start": "0001-01-01T00:00+14:00", "end": text(NOW)}, "start must be a time"),
            ({"start": text(NOW), "end": text(NOW)}, "start must be before end"),
            ({"start": text(NOW), "end": text(NOW - HOUR)}, "start must be before end"),
            ({"start": text(NOW), "end": text(NOW + 33 * 24 * HOUR)}, "at most 32 days"),
        ],
    )
    def test_a_time_that_makes_no_sense(self, caller, query, said):
        """400 that names the parameter, and how to write it."""
        told = caller.get("/v1/grid/xx/intensity", query)
        assert (told.status, told.body["error"]["code"]) == (400, "400")
        assert said in told.body["error"]["message"]

    def test_times_of_other_zones_are_the_same_times(self, caller):
        """With their offset they are as good as UTC."""
        query = {"start": "2026-03-02T16:00+05:30", "end": "2026-03-02T12:00Z"}
        found = caller.get("/v1/grid/xx/intensity", query).body["observed"]
        assert found[0]["start"] == "2026-03-02T10:00:00Z"

    @pytest.mark.parametrize(
        "path",
        ["/", "/v1", "/v1/grid/xx", "/v1/grid/xx/intensity/x", "/v1/status", "/v1/jobs", "/docs", "/v1/grid/../jobs"],
    )
    def test_nothing_else_is_told(self, caller, path):
        """No job, no status, no documentation: 404 as JSON."""
        told = caller.get(path)
        assert (told.status, told.body["error"]["code"]) == (404, "404")

    def test_any_question_is_answered_and_never_with_500(self, serve, region, monkeypatch):
        """Whatever is asked, the answer is ours, as JSON."""
        monkeypatch.setattr("chase.share.server.BURST", 1e6)
        caller = serve(region)

        @settings(max_examples=60, deadline=None)
        @given(place=texts, query=st.dictionaries(st.sampled_from(["start", "end", "x"]), texts | times_asked))
        def ask(place, query):
            told = caller.get(f"/v1/grid/{quote(place, safe='')}/intensity", query)
            assert told.status in {200, 400, 404}
            assert "error" in told.body or told.body["version"] == 1

        ask()


def test_a_fault_of_ours_is_not_shown(serve, region, monkeypatch, caplog):
    """500 as JSON without a word of the exception; the log has it."""
    caller = serve(region)
    monkeypatch.setattr(region.grid, "said", lambda *_: 1 / 0)
    told = caller.intensity()
    assert (told.status, told.body["error"]["message"]) == (500, "this node cannot tell just now")


def test_a_month_of_five_minutes_fits_one_answer(serve):
    """The largest there is: 28 days of a source of five minutes, below what a caller's session takes."""
    step = HOUR / 12
    region = Region(observed={NOW - i * step: 100.0 + i % 50 for i in range(1, 8064)}, history_h=672)
    region.source.step = step
    for _ in range(6):
        region.clock.advance(300)
        region.poll()
    told = serve(region).intensity(back_h=672, ahead_h=48)
    assert len(told.body["observed"]) > 7900
    assert int(told.headers["content-length"]) < 2_000_000


def test_the_running_hour_may_be_observed_already(serve):
    """A source that publishes it at once: it is told as observed, and once."""
    region = Region(observed={NOW - i * HOUR: 100.0 + i for i in range(72)})
    told = serve(region).intensity(back_h=3, ahead_h=3).body
    assert told["observed"][-1]["start"] == text(NOW)
    assert [row["start"] for row in told["observed"]].count(text(NOW)) == 1
