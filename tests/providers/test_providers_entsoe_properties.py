"""ENTSO-E's documents with anything in them, and the two rules that make steps of them, against plain models."""

from __future__ import annotations

import re
from datetime import timedelta

import entsoe_fakes as fakes
from entsoe_fakes import DE_LU, HALF, HOUR, PUBLICATION, QUARTER, RESOLUTION, acknowledgement, document, generation
from grid_server import NOW
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, mutated_text, outcome

from providers.base import PriceSeries, Scope
from providers.emission_factors import STORAGE, Fuel, factors_for
from providers.entsoe import Entsoe
from providers.entsoe_document import Step, cut, read
from providers.entsoe_prices import EntsoePrices
from providers.price_reading import MOST_PER_KWH
from providers.redact import Secret
from providers.xml import parse

START = NOW.replace(hour=0, minute=0)
SPAN = timedelta(hours=12)
MIX = document(
    generation("B14", fakes.period(START, START + 9 * HOUR, HOUR, {1: 500, 4: 520, 9: 480}), curve="A03"),
    generation("B04", fakes.period(START, START + 9 * HOUR, HOUR, {n: 300 + n for n in range(1, 10)})),
    generation(
        "B16",
        fakes.period(START, START + 7 * HOUR, HOUR, {1: 0}),
        fakes.period(START + 7 * HOUR, START + 9 * HOUR, QUARTER, {1: 10, 5: 200}),
        curve="A03",
    ),
    generation("B10", fakes.period(START, START + 9 * HOUR, HOUR, {1: 90}), curve="A03", consumed=True),
)
PRICES = document(
    fakes.prices(fakes.period(START, START + 24 * HOUR, HOUR, {1: 80.5, 7: -3.2, 20: 120}, "price.amount")),
    fakes.prices(fakes.period(START, START + 2 * HOUR, QUARTER, {1: 9}, "price.amount"), position="2"),
    kind=PUBLICATION,
)
FACTORS = [factors_for("DE_LU", Scope.LIFECYCLE, NOW).g_per_kwh(fuel) for fuel in Fuel if fuel not in STORAGE]
STATUSES = st.sampled_from([200, 200, 200, 200, 400, 401, 404, 429, 500])


def replayed(made, body, status):
    session = Replayed(body, status, "text/xml")
    return session, made(zone="DE_LU", options={}, token=Secret("t"), base_url=None, session=session, now=lambda: NOW)


@given(mutated_text(MIX), STATUSES)
def test_a_mix_survives_any_edit(body, status):
    """Values between the cleanest and the dirtiest factor, of intervals that ended within the span, or one line."""
    session, provider = replayed(Entsoe, body, status)
    for point in outcome(provider.observe, NOW - SPAN, NOW):
        assert min(FACTORS) <= point.g_per_kwh <= max(FACTORS)
        assert timedelta(0) < point.end - point.start <= HOUR
        assert point.end > NOW - SPAN
        assert point.start <= NOW
    session.close()


@given(mutated_text(PRICES), STATUSES)
def test_prices_survive_any_edit(body, status):
    """Each price is one that was written; else a gap, or an error of one line."""
    session, provider = replayed(EntsoePrices, body, status)
    prices = outcome(provider.prices, NOW - SPAN, NOW + SPAN)
    written = {
        float(text) for text in re.findall(r">\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*<", body.decode(errors="replace"))
    }
    for price in prices:
        assert isinstance(prices, PriceSeries)
        assert abs(price.price_per_kwh) <= MOST_PER_KWH
        assert price.price_per_kwh in {number / 1000 for number in written}
        assert timedelta(0) < price.end - price.start <= HOUR
        assert price.currency == "EUR"
    session.close()


@given(mutated_text(acknowledgement("No matching data found")), STATUSES)
def test_an_acknowledgement_survives_any_edit(body, status):
    """It never becomes a point."""
    session, provider = replayed(Entsoe, body, status)
    assert not list(outcome(provider.observe, NOW - SPAN, NOW))
    session.close()


@given(
    step=st.sampled_from([QUARTER, HALF, HOUR]),
    count=st.integers(1, 30),
    curve=st.sampled_from(["A01", "A03"]),
    data=st.data(),
)
def test_positions_become_steps_as_the_curve_type_says(step, count, curve, data):
    """A01 gives the positions that are there; A03 repeats each to the next one or to the end."""
    points = data.draw(st.dictionaries(st.integers(1, count), st.integers(-100, 9999), min_size=1, max_size=count))
    shuffled = dict(data.draw(st.permutations(list(points.items()))))
    text = document(generation("B04", fakes.period(START, START + count * step, step, shuffled), curve=curve))
    expected = []
    for position in range(1, count + 1):
        before = [known for known in points if known <= position]
        if position in points or (curve == "A03" and before):
            value = points[position] if curve == "A01" else points[max(before)]
            expected.append(Step(START + (position - 1) * step, START + position * step, float(value)))
    found = read(parse(text, "x"), document=fakes.GL, value="quantity", most=1e6, where="x")
    assert [one for series in found for one in series.steps] == expected


STEPS = st.builds(
    lambda at, length, value: Step(START + at * length, START + (at + 1) * length, float(value)),
    at=st.integers(0, 6),
    length=st.sampled_from(list(RESOLUTION)),
    value=st.integers(0, 9),
)


@given(st.lists(st.tuples(st.sampled_from("ab"), STEPS), max_size=12))
def test_cutting_keeps_what_is_covered_and_lets_the_finest_win(steps):
    """Minute by minute: covered before is covered after, by the finest, and of equally fine ones by the last."""
    pieces: dict[tuple[str, object, object], float] = {}
    for key, step in cut(steps):
        pieces[key, step.start, step.end] = step.value
    for key in "ab":
        for minute in range(0, 7 * 60, 15):
            at = START + timedelta(minutes=minute)
            mine = [step for name, step in steps if name == key and step.start <= at < step.end]
            shortest = min((step.end - step.start for step in mine), default=None)
            expected = [step.value for step in mine if step.end - step.start == shortest][-1:]
            assert [
                value for (name, start, end), value in pieces.items() if name == key and start <= at < end
            ] == expected


def test_the_documents_here_are_what_they_seem():
    """Unmutated they give points, so that the mutations start from something."""
    session, provider = replayed(Entsoe, MIX.encode(), 200)
    assert len(provider.observe(NOW - SPAN, NOW)) == 15
    session.close()
    session, provider = replayed(EntsoePrices, PRICES.encode(), 200)
    assert len(provider.prices(NOW - SPAN, NOW + SPAN)) == 22
    session.close()
    assert DE_LU in MIX
