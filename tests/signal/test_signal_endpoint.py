"""One thing that a source is asked: its slots on the wall clock, its spread over a fleet, what of a fault is news."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_bench import NOW

from chase.clock import ManualClock
from chase.endpoint import Endpoint, spread_s
from providers.base import AuthError, NoData, RateLimited, Transient

QUARTER_S = 900.0


def asked_at(endpoint: Endpoint, clock: ManualClock, seconds: int, every_s: int = 1) -> list[float]:
    """Seconds at which somebody who looks all the time finds it due."""
    found = []
    for _ in range(0, seconds, every_s):
        if clock.monotonic() >= endpoint.due:
            endpoint.begin(clock.monotonic(), clock.now())
            found.append(clock.monotonic())
        clock.advance(every_s)
    return found


class TestSlots:
    def test_after_the_first_it_is_asked_at_the_full_quarter(self):
        """Started at 12:07, it asks at once and then from half a minute before each quarter on."""
        clock = ManualClock(NOW + timedelta(minutes=7))
        assert asked_at(Endpoint(QUARTER_S), clock, 3600) == [0, 450, 1350, 2250, 3150]

    def test_its_own_offset_moves_its_slots(self):
        """A node that is spread by a minute asks a minute after the others."""
        clock = ManualClock(NOW)
        assert asked_at(Endpoint(QUARTER_S, offset_s=60.0), clock, 3000) == [0, 30, 930, 1830, 2730]

    def test_the_next_slot_is_told(self):
        """For the timer that is to meet it."""
        assert Endpoint(QUARTER_S).next_slot_s(NOW + timedelta(minutes=7)) == 480.0
        assert Endpoint(QUARTER_S).next_slot_s(NOW) == QUARTER_S
        assert Endpoint(QUARTER_S, 60.0).next_slot_s(NOW) == 60.0

    def test_a_clock_that_is_set_loses_no_slot(self):
        """An hour back or ahead: the next request comes within one slot all the same, on the monotonic clock."""
        for seconds in (-3600.0, 3600.0, 451.0):
            clock = ManualClock(NOW)
            endpoint = Endpoint(QUARTER_S)
            endpoint.begin(clock.monotonic(), clock.now())
            clock.step_wall(seconds)
            assert endpoint.due <= QUARTER_S
            found = asked_at(endpoint, clock, 3600)
            assert all(later - earlier <= QUARTER_S for earlier, later in zip([0, *found], found, strict=False))

    @settings(deadline=None)
    @given(st.floats(1, 86400), st.floats(0, 1), st.floats(0, 1e7))
    def test_it_is_due_within_one_slot_and_not_at_once(self, poll_s, share, after_s):
        """Whatever its period, offset and the time of day."""
        endpoint = Endpoint(poll_s, share * poll_s * 0.1)
        endpoint.begin(0.0, NOW + timedelta(seconds=after_s))
        assert 0 <= endpoint.due <= poll_s


class TestSpread:
    def test_it_is_the_same_each_time_and_differs_by_node_source_and_zone(self):
        """No dice: a restart asks in its old seconds."""
        names = [("n1", "neso", "GB"), ("n2", "neso", "GB"), ("n1", "eia", "GB"), ("n1", "neso", "DE")]
        found = [spread_s(QUARTER_S, *who) for who in names]
        assert found == [spread_s(QUARTER_S, *who) for who in names]
        assert len(set(found)) == 4

    @pytest.mark.parametrize(("poll_s", "most_s"), [(10, 1), (300, 30), (900, 90), (86400, 300)])
    def test_a_fleet_is_spread_over_a_tenth_of_a_slot_and_at_most_five_minutes(self, poll_s, most_s):
        """Of a thousand nodes no more than a few ask in one hundredth of that time."""
        found = [spread_s(poll_s, f"node-{n}", "neso", "GB") for n in range(1000)]
        assert min(found) >= 0
        assert max(found) < most_s
        crowd = [sum(1 for s in found if k <= s / most_s * 100 < k + 1) for k in range(100)]
        assert max(crowd) <= 25
        assert min(found) < 0.05 * most_s
        assert max(found) > 0.95 * most_s


class TestNews:
    def fail(self, endpoint: Endpoint, *errors: Exception) -> list[bool]:
        return [endpoint.failed(error, 0.0, NOW) for error in errors]

    @pytest.mark.parametrize(
        "text",
        [
            "503 at 2026-03-02T12:{n:02}:07Z",
            "timed out after {n}.5 s",
            "request id 7f3a{n}c9-11d{n}",
            "no data since 2026-03-{n:02}",
        ],
    )
    def test_a_text_that_only_counts_on_is_no_news(self, text):
        """Times, durations and the ids of requests differ each time and say nothing new."""
        assert self.fail(Endpoint(300.0), *(Transient(text.format(n=n)) for n in range(1, 20))) == [True] + [False] * 18

    def test_another_kind_of_fault_is_news(self):
        """A person should know that it is the token now."""
        assert self.fail(Endpoint(300.0), Transient("cut"), AuthError("refused"), NoData("nothing")) == [True] * 3

    def test_faults_that_take_turns_are_each_said_once(self):
        """A, B, A, B for days is two lines."""
        assert sum(self.fail(Endpoint(300.0), *[Transient("reset"), Transient("timed out")] * 500)) == 2

    def test_texts_without_end_are_not_said_without_end(self):
        """A server that makes up a new sentence each time is silenced after a few."""
        words = ("".join(chr(97 + n // 26**k % 26) for k in range(3)) for n in range(200))
        assert sum(self.fail(Endpoint(300.0), *(Transient(word) for word in words))) == 8

    def test_after_an_answer_everything_is_news_again(self):
        """The next outage is another one."""
        endpoint = Endpoint(300.0)
        self.fail(endpoint, Transient("cut"))
        assert endpoint.answered(NOW) == NOW
        assert endpoint.answered(NOW) is None
        assert self.fail(endpoint, Transient("cut")) == [True]


class TestOutage:
    def test_it_says_since_when_and_when_it_was_last_good(self):
        """What a person needs first, in place of 'check your token' (hass-entso-e 321)."""
        endpoint = Endpoint(300.0)
        endpoint.answered(NOW)
        for minutes in (5, 10, 15):
            endpoint.failed(Transient("503"), 0.0, NOW + timedelta(minutes=minutes))
        expected = "down since 2026-03-02 12:05Z, last good 2026-03-02 12:00Z: Transient: 503"
        assert endpoint.outage == expected
        endpoint.answered(NOW + timedelta(minutes=20))
        assert endpoint.outage == ""

    def test_one_that_never_answered_says_so(self):
        """No date is made up."""
        endpoint = Endpoint(300.0)
        endpoint.failed(Transient("503"), 0.0, NOW)
        assert endpoint.outage == "down since 2026-03-02 12:00Z, no answer so far: Transient: 503"


def test_a_wait_that_was_asked_for_is_never_shortened():
    """Neither by a later fault that asks for less, nor by none."""
    endpoint = Endpoint(300.0)
    endpoint.failed(RateLimited("x", retry_after_s=5000.0), 0.0, NOW)
    endpoint.failed(RateLimited("x", retry_after_s=10.0), 0.0, NOW)
    assert endpoint.due == 5000.0
