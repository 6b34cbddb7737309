"""Sources' own forecasts: their bias is taken off, they have the part that their record earns, and are named."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from forecast_points import HOUR, START, grid, history, point

from chase.forecast import Forecaster
from chase.forecast.issued import named

N = 24 * 21
X = grid(N + 72, seed=3, noise=15.0)
OBSERVED = history(X[:N])
NOW = OBSERVED[-1].end


def issue(made: int, of, *, hours=range(48), every=1, source="theirs"):
    """What a source says at hour ``made`` of the hours from then on: ``of`` gives the value of an hour."""
    at = START + made * HOUR
    return [
        point(at + h * HOUR, max(0.0, of(made + h)), issued=at, source=source)
        for h in hours[::every]
        if made + h < len(X)
    ]


def record(of, since=24 * 7, every=6, **options):
    return [p for made in range(since, N, every) for p in issue(made, of, **options)]


def noisy(size, bias=0.0, seed=11):
    noise = np.random.default_rng(seed).normal(0, size, len(X))
    return lambda i: float(X[i] + noise[i] + bias)


def expected(issued, published, *, observed=OBSERVED, at=NOW, hours=48):
    forecaster = Forecaster()
    forecaster.learn(observed, issued)
    return forecaster.expect(at, at + hours * HOUR, at=at, published=published)


def error(steps):
    return float(np.mean([abs(s.g_per_kwh - X[N + i]) for i, s in enumerate(steps)]))


OURS = error(expected([], []))


class TestRecord:
    def test_a_good_source_is_gone_by(self):
        """Near to what came on most days: its forecast is taken, and ours is left out but for the doubt."""
        of = noisy(2)
        steps = expected(record(of), issue(N, of))
        assert {s.by for s in steps[6:]} <= {"theirs", "chase+theirs"}
        assert error(steps) < 0.3 * OURS

    def test_a_bad_source_is_left_out(self):
        """Far off for two weeks: what is left of it is the doubt."""
        of = noisy(250)
        steps = expected(record(of), issue(N, of))
        alone = expected([], [])
        assert np.mean([abs(a.g_per_kwh - b.g_per_kwh) for a, b in zip(steps, alone, strict=True)]) < 30
        assert error(steps) < 1.2 * OURS

    def test_a_bias_is_taken_off(self):
        """60 g too much at each lead is learnt, as with the one public trace of a source."""
        right, wrong = noisy(3), noisy(3, bias=60.0)
        biased = expected(record(wrong), issue(N, wrong))
        assert error(biased) < 1.5 * error(expected(record(right), issue(N, right))) + 5

    def test_a_bias_is_learnt_for_each_lead(self):
        """A source that is right for the next hours and 80 g too high for tomorrow."""
        of = noisy(2)

        def made(hour):
            return [
                point(p.start, p.g_per_kwh + (80.0 if p.start - p.issued_at >= 36 * HOUR else 0.0), issued=p.issued_at)
                for p in issue(hour, of)
            ]

        issued = [p for hour in range(24 * 7, N, 6) for p in made(hour)]
        steps = expected(issued, made(N))
        assert error(steps[:30]) < 10
        assert np.mean([abs(s.g_per_kwh - X[N + 36 + i]) for i, s in enumerate(steps[36:])]) < 15

    def test_both_together_are_no_worse_than_either(self):
        """Errors that have nothing to do with each other partly cancel."""
        of = noisy(30)
        together = error(expected(record(of), issue(N, of)))
        theirs = float(np.mean([abs(of(N + i) - X[N + i]) for i in range(48)]))
        assert together < 1.1 * min(theirs, OURS)

    def test_low_and_high_are_those_of_what_both_missed(self):
        """A source that is good makes sure, one that is not does not."""
        good, bad = noisy(2), noisy(40)
        narrow, wide = (expected(record(of), issue(N, of)) for of in (good, bad))
        assert np.mean([s.high - s.low for s in narrow]) < 0.5 * np.mean([s.high - s.low for s in wide])

    def test_eight_in_ten_come_between(self):
        """Of forecasts with a record of two weeks, made on many days."""
        x = grid(24 * 60, seed=21, noise=15.0)
        noise = np.random.default_rng(5).normal(0, 20, (len(x), 24))
        inside = []
        for now in range(24 * 28, len(x) - 24, 31):
            issued = [
                point(START + (made + h) * HOUR, max(0.0, x[made + h] + noise[made, h]), issued=START + made * HOUR)
                for made in range(now - 24 * 14, now + 1, 6)
                for h in range(24)
            ]
            observed, at = history(x[:now]), START + now * HOUR
            published = [p for p in issued if p.issued_at == issued[-1].issued_at and p.start >= at]
            steps = expected(issued, published, observed=observed, at=at, hours=12)
            inside += [s.low <= x[now + i] <= s.high for i, s in enumerate(steps)]
        assert 0.7 < np.mean(inside) < 0.92

    def test_forecasts_of_hours_that_have_not_come_say_nothing_of_skill(self):
        """There is nothing to hold them against."""
        of = noisy(2)
        assert expected(issue(N, of), issue(N, of)) == expected([], issue(N, of))

    def test_forecasts_issued_later_are_not_known(self):
        """Nor are those of the past that were issued after the hour they speak of, as far as that was after now."""
        of = noisy(2)
        late = [point(p.start, p.g_per_kwh, issued=NOW + HOUR, source="theirs") for p in record(of)]
        assert expected(late, issue(N, of)) == expected([], issue(N, of))

    def test_forecasts_of_unobserved_hours_are_left_out(self):
        """A gap is no error."""
        of = noisy(2)
        gone = [p for i, p in enumerate(OBSERVED) if i % 3]
        steps = expected(record(of), issue(N, of), observed=gone)
        assert error(steps) < 0.3 * OURS


class TestWithoutRecord:
    def test_an_unknown_source_has_a_small_part_next_and_half_of_it_later(self):
        """The next hour we know better, from a quarter of a day on it may know the weather."""
        ours = expected([], [])
        steps = expected([], [point(NOW + h * HOUR, 1000.0, issued=NOW, source="theirs") for h in range(48)])
        part = [(s.g_per_kwh - o.g_per_kwh) / (1000.0 - o.g_per_kwh) for s, o in zip(steps, ours, strict=True)]
        assert part[0] == pytest.approx(0.1)
        assert part[5:] == pytest.approx([0.5] * 43)
        assert part[:5] == sorted(part[:5])
        assert {s.by for s in steps} == {"chase+theirs"}

    def test_after_hours_without_a_value_what_was_just_issued_weighs_more(self):
        """It is our own lead that counts: their next hour is our seventh."""
        published = [point(NOW + h * HOUR, 1000.0, issued=NOW, source="theirs") for h in range(48)]
        late = expected([], published, observed=OBSERVED[:-6])
        assert late[0].g_per_kwh > expected([], published)[0].g_per_kwh + 100

    def test_what_it_does_not_speak_of_is_ours(self):
        """Only the hours that were published are blended."""
        steps = expected([], issue(N, noisy(2), hours=range(10, 12)))
        assert [s.by for s in steps[9:13]] == ["chase", "chase+theirs", "chase+theirs", "chase"]

    def test_against_mere_persistence_it_soon_goes_ahead(self):
        """With three hours of history there is no model to hold against it."""
        steps = expected([], issue(N, noisy(2)), observed=OBSERVED[-3:])
        assert steps[0].by == "chase+theirs"
        assert steps[20].g_per_kwh == pytest.approx(0.9 * noisy(2)(N + 20) + 0.1 * X[N - 1])

    def test_its_bias_is_taken_off_even_then(self):
        """What overlaps is enough to see it."""
        of = noisy(0, bias=100.0)
        issued = [p for made in range(N - 12, N, 2) for p in issue(made, of)]
        plain = expected([], issue(N, of), observed=OBSERVED[-10:])
        steps = expected(issued, issue(N, of), observed=OBSERVED[-10:])
        near = slice(0, 8)
        assert error(steps[near]) < error(plain[near])


class TestSources:
    def test_a_record_is_of_its_own_source(self):
        """Another's good record lends nothing."""
        of = noisy(2)
        other = record(of, source="other")
        assert expected(other, issue(N, of)) == expected([], issue(N, of))

    def test_of_two_sources_the_one_that_says_more_is_taken(self):
        """They are never mixed."""
        of = noisy(2)
        published = [*issue(N, of), *issue(N, lambda _: 9.0, hours=range(10), source="other")]
        assert expected([], published) == expected([], issue(N, of))

    def test_half_hours_speak_of_hours(self):
        """Both halves make the hour, in the forecast as in its record."""
        of = noisy(2)

        def halves(points):
            half = timedelta(minutes=30)
            return [
                point(p.start + i * half, p.g_per_kwh + sign, length=half, issued=p.issued_at, source="theirs")
                for p in points
                for i, sign in enumerate((-5.0, 5.0))
            ]

        steps = expected(halves(record(of)), halves(issue(N, of)))
        assert error(steps) < 0.4 * OURS

    def test_a_forecast_dated_ahead_of_now_is_taken_as_made_now(self):
        """A clock that is off by a minute costs nothing."""
        of = noisy(2)
        ahead = [point(p.start, p.g_per_kwh, issued=NOW + HOUR, source="theirs") for p in issue(N, of)]
        assert len(expected(record(of), ahead)) == 48

    @pytest.mark.parametrize(
        ("omega", "by"), [(0.0, "chase"), (0.05, "chase"), (0.5, "chase+them"), (0.95, "them"), (1.0, "them")]
    )
    def test_who_expects_it_is_who_has_a_part(self, omega, by):
        """A twentieth is none."""
        assert named("chase", "them", omega) == by
