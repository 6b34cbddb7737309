"""California ISO's tables: no dates, days of 23 and 25 hours, cells that say nothing, and files of yesterday."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import ClassVar

import caiso_fakes as fakes
import pytest
from caiso_fakes import CO2, FOLLOWING, LABELS, LOAD, as_csv, co2_row, load_row, minutes
from grid_server import NOW, Answer, as_json, html
from http_suite import HttpProviderSuite
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, mutated_text, outcome

from providers.base import (
    BadRequest,
    Boundary,
    Kind,
    NoData,
    ProviderError,
    RateLimited,
    SchemaError,
    Scope,
    Signal,
    Transient,
)
from providers.caiso import Caiso
from providers.caiso_day import parse
from providers.reading import MOST_G_PER_KWH
from providers.transport import RawReply

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
STEP = timedelta(minutes=5)
TODAY, YESTERDAY = date(2026, 3, 4), date(2026, 3, 3)  # 01:20 in California
G_PER_KWH = 1000 * (80 + 110 + 5000 + 0 + 1800 + 7) / 20_000
SPRING, AUTUMN = date(2026, 3, 8), date(2026, 11, 1)


class TestCaisoSuite(HttpProviderSuite):
    """The whole of it; four days have two tables each."""

    MORE_REQUESTS = 7
    ERRORS: ClassVar = {"wrong-length": ProviderError}  # half of a JSON is a text, and no table

    def make(self, session, base_url):
        return Caiso(zone="CAISO", options={}, base_url=base_url, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(fakes.caiso(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


@pytest.fixture
def make(server, session, clock):
    server.answer_with(fakes.caiso(clock.now))

    def make(now=clock.now):
        return Caiso(zone="US-CAL-CISO", options={}, base_url=server.url, session=session, now=now)

    return make


def _tables(server, co2, load, co2_header=CO2, load_header=LOAD):
    """The same two tables for each day that is asked for."""
    tables = {"co2": as_csv(co2_header, co2), "netdemand": as_csv(load_header, load)}
    server.answer_with(lambda sent: tables[sent.path.rsplit("/", 1)[1].removesuffix(".csv")])


def _row(server, co2, label="01:00", load=None):
    """A table of a good row and the one in question."""
    good = minutes("00:50", 1)[0]
    _tables(server, [co2_row(good), co2], [load_row(good), load or load_row(label)])


def _today(make, now=NOW):
    """The labels of the day so far, by their wall clock."""
    midnight = fakes.wall(now.astimezone(fakes.CLOCK).date(), "00:00").astimezone(UTC)
    points = make(lambda: now).observe(midnight, now + timedelta(seconds=1)).points
    return [f"{point.start.astimezone(fakes.CLOCK):%H:%M}" for point in points]


# What it is


def test_intensity_is_all_the_carbon_over_the_demand(make, server):
    """t/h over MW, times a thousand; average, direct, of what is consumed, in five minutes of Pacific time."""
    points = make().observe(NOW - HOUR, NOW).points
    assert [point.start for point in points] == [NOW - HOUR + n * STEP for n in range(12)]
    assert {point.end - point.start for point in points} == {STEP}
    assert [point.g_per_kwh for point in points] == [pytest.approx(G_PER_KWH)] * 12
    labels = {(point.kind, point.signal, point.scope, point.boundary, point.method) for point in points}
    assert labels == {(Kind.MEASURED, Signal.AVERAGE, Scope.DIRECT, Boundary.CONSUMPTION, "CO2 over current demand")}
    assert [sent.path for sent in server.requests] == ["/current/co2.csv", "/current/netdemand.csv"]


def test_days_that_are_over_are_asked_by_date(make, server):
    """Newest first, and midnight in California is where the files change."""
    points = make().observe(NOW - 30 * HOUR, NOW).points
    assert [sent.path.rpartition("/")[0] for sent in server.requests[::2]] == [
        "/current",
        "/history/20260303",
        "/history/20260302",
    ]
    assert len(points) == 30 * 12
    assert all(before.end == after.start for before, after in pairwise(points))


def test_a_long_range_is_its_last_eight_days(make, server):
    """Each day is two requests, so a month of them is not asked for at once."""
    points = make().observe(NOW - 28 * DAY, NOW).points
    assert len(server.requests) == 16
    assert points[0].start == fakes.wall(date(2026, 2, 25), "00:00").astimezone(UTC)


def test_a_day_gone_by_is_kept(make, server, clock):
    """Read once in six hours, or sooner where it has just ended and may not be complete."""
    provider = make()
    for hours in (0, 1, 4, 2):
        clock.advance(hours * 3600.0)
        provider.observe(clock.now() - 48 * HOUR, clock.now())
    asked = [sent.path for sent in server.requests if sent.path.endswith("co2.csv")]
    assert asked.count("/current/co2.csv") == 4
    assert asked.count("/history/20260302/co2.csv") == 2
    assert asked.count("/history/20260303/co2.csv") == 3


def test_a_past_day_that_fails_costs_itself_alone(make, server, clock):
    """The newest value is not lost for an old one."""
    healthy = fakes.caiso(clock.now)
    server.answer_with(lambda sent: html(503) if "20260303" in sent.path else healthy(sent))
    points = make().observe(NOW - 48 * HOUR, NOW).points
    days = {point.start.astimezone(fakes.CLOCK).date() for point in points}
    assert days == {date(2026, 3, 2), TODAY}


def test_days_that_are_not_there_are_no_data(make, server):
    """Before it began nothing is published, which a page under 404 says."""
    with pytest.raises(NoData, match=r"has no .*/history/20180101/co2\.csv"):
        make().observe(datetime(2018, 1, 1, 9, tzinfo=UTC), datetime(2018, 1, 1, 12, tzinfo=UTC))


@pytest.mark.parametrize("zone", ["PJM", "caiso", "US-CAL", ""])
def test_it_is_for_california_iso_alone(session, zone):
    """Its figures are never filed under another zone, nor under the state, of which it is a part."""
    with pytest.raises(BadRequest, match="must be one of CAISO, CISO, US-CAL-CISO"):
        Caiso(zone=zone, options={}, base_url=None, session=session, now=lambda: NOW)


def test_nothing_is_asked_of_what_it_does_not_have(make, server):
    """The future has no observations, and there is no forecast."""
    assert len(make().observe(NOW + HOUR, NOW + 2 * HOUR)) == 0
    assert len(make().forecast(NOW, NOW + HOUR)) == 0
    assert server.requests == []


# Days and clocks


def test_a_day_of_23_hours_has_no_third(make, server):
    """Whether the rows of the hour that never was are blank or filled, they are of no time."""
    now = fakes.wall(SPRING, "06:00").astimezone(UTC)
    _tables(server, [co2_row(label) for label in LABELS[:72]], [load_row(label) for label in LABELS[:72]])
    points = make(lambda: now).observe(now - 5 * HOUR, now).points
    assert [f"{point.start.astimezone(fakes.CLOCK):%H}" for point in points][::12] == ["00", "01", "03", "04", "05"]
    assert len(points) == 60
    assert all(before.end == after.start for before, after in pairwise(points))


AFTER = fakes.wall(AUTUMN, "06:00").astimezone(UTC)  # seven hours after that midnight


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_day_of_25_hours_has_two_of_its_second(make, server, interleaved):
    """Rows that come twice are of summer time first, one block after the other or in pairs; none is lost."""
    twice = minutes("01:00", 12)
    hours = [label for label in twice for _ in range(2)] if interleaved else twice * 2
    labels = [*LABELS[:12], *hours, *LABELS[24:72]]
    counted = dict.fromkeys(labels, 0)
    rows = []
    for label in labels:
        rows.append(co2_row(label, gas=5000 + 100 * counted[label]))
        counted[label] += 1
    _tables(server, rows, [load_row(label) for label in labels])
    points = make(lambda: AFTER).observe(AFTER - 7 * HOUR, AFTER).points
    assert len(points) == 7 * 12
    assert all(before.end == after.start for before, after in pairwise(points))
    values = [point.g_per_kwh for point in points[::12]]
    assert values == [pytest.approx(G_PER_KWH + (5.0 if hour == 2 else 0.0)) for hour in range(7)]


def test_an_hour_that_comes_twice_and_stands_once_is_a_gap(make, server):
    """Nobody can tell of which of the two hours it is."""
    labels = LABELS[:72]
    _tables(server, [co2_row(label) for label in labels], [load_row(label) for label in labels])
    points = make(lambda: AFTER).observe(AFTER - 7 * HOUR, AFTER).points
    starts = {point.start for point in points}
    midnight = AFTER - 7 * HOUR
    assert starts == {midnight + n * STEP for n in range(7 * 12) if not 12 <= n < 36}


def test_the_first_of_two_hours_is_known_while_the_second_has_not_begun(make, server):
    """At 01:30 summer time there is one 01:00 so far."""
    now = fakes.wall(AUTUMN, "01:30").astimezone(UTC)
    labels = [label for label in LABELS if label <= "01:30"]
    _tables(server, [co2_row(label) for label in labels], [load_row(label) for label in labels])
    points = make(lambda: now).observe(now - HOUR, now).points
    assert [point.start for point in points] == [now - HOUR + n * STEP for n in range(12)]


def test_the_last_row_is_of_the_next_day(make, server):
    """A trailing 00:00, and a few rows behind it, are not of the morning; the next file has them."""
    labels = [*LABELS, FOLLOWING, "00:05"]
    rows = [co2_row(label, gas=5000 if index < 288 else 1) for index, label in enumerate(labels)]
    _tables(server, rows, [load_row(label) for label in labels])
    start = fakes.wall(YESTERDAY, "00:00").astimezone(UTC)
    points = make().observe(start, start + DAY).points
    assert len(points) == 288
    assert {round(point.g_per_kwh, 6) for point in points} == {round(G_PER_KWH, 6)}


def test_yesterdays_file_is_not_todays(make, server):
    """After midnight ``current`` may be a day old: its rows of times to come give it away."""
    now = fakes.wall(TODAY, "00:07").astimezone(UTC)
    labels = [*LABELS, FOLLOWING]
    _tables(server, [co2_row(label) for label in labels], [load_row(label) for label in labels])
    provider = make(lambda: now)
    with pytest.raises(NoData, match="rows of times to come"):
        provider.observe(now - timedelta(minutes=5), now)
    points = provider.observe(now - HOUR, now).points
    assert {point.start.astimezone(fakes.CLOCK).date() for point in points} == {YESTERDAY}


@pytest.mark.parametrize("old", ["co2", "netdemand"])
def test_one_of_two_files_being_yesterdays_is_enough(make, server, old):
    """They are not renewed at one time: this day's carbon over that day's demand is no intensity."""
    now = fakes.wall(TODAY, "00:07").astimezone(UTC)
    days = {"co2": ["00:00", "00:05"], "netdemand": ["00:00", "00:05"]} | {old: LABELS}
    carbon = [co2_row(label, gas=9000) for label in days["co2"]]
    _tables(server, carbon, [load_row(label) for label in days["netdemand"]])
    with pytest.raises(NoData, match="rows of times to come"):
        make(lambda: now).observe(now - timedelta(minutes=5), now)


def test_a_file_that_has_stood_still_over_midnight_is_not_todays(make, server, clock):
    """Cut short in the morning and never renewed, it would fit the next morning as well."""
    labels = minutes("00:00", 17)
    _tables(server, [co2_row(label) for label in labels], [load_row(label) for label in labels])
    provider = make()
    assert provider.observe(NOW - HOUR, NOW).points
    clock.advance(86400.0)
    with pytest.raises(NoData, match="is still that of 2026-03-04"):
        provider.observe(clock.now() - HOUR, clock.now())


def test_the_future_was_not_measured(make, server):
    """A clock that is minutes behind theirs loses the rows that have not begun by it, and no others."""
    labels = minutes("00:00", 19)  # up to 01:30
    _tables(server, [co2_row(label) for label in labels], [load_row(label) for label in labels])
    assert _today(make)[-1] == "01:20"


# Cells


@pytest.mark.parametrize("changed", [str.upper, str.lower, str.title, lambda header: f" {header.replace(',', ' , ')} "])
def test_names_of_columns_are_read_in_any_case(make, server, changed):
    """They have changed over the years, and are padded at times."""
    rows = [co2_row("00:00")], [load_row("00:00")]
    _tables(server, *rows, co2_header=changed(CO2), load_header=changed(LOAD))
    assert _today(make) == ["00:00"]


def test_columns_may_stand_anywhere(make, server):
    """They are found by their names."""
    header = "Time,Imports CO2,Total CO2,Natural Gas CO2"
    _tables(server, ["00:00,1000,9999,3000"], ["00:00,20000"], header, "Time,Demand")
    midnight = fakes.wall(TODAY, "00:00").astimezone(UTC)
    assert make().observe(midnight, midnight + STEP).points[0].g_per_kwh == pytest.approx(200.0)


def test_a_source_with_nothing_to_report_all_day_is_left_empty(make, server):
    """There is no coal any more: its column of blanks is no gap, and one that has a figure elsewhere is."""
    load = [load_row("00:00"), load_row("00:05")]
    _tables(server, [co2_row("00:00", coal=""), co2_row("00:05", coal="")], load)
    assert _today(make) == ["00:00", "00:05"]
    _tables(server, [co2_row("00:00", coal=""), co2_row("00:05", coal="3")], load)
    assert _today(make) == ["00:05"]


@pytest.mark.parametrize("value", ["", "  ", "NaN", "nan", "-", "n/a", "1_000", "٤", "1e999", "0", "-5"])
def test_a_row_without_gas_is_a_gap(make, server, value):
    """Blank, no number, negative, or 0, which this grid's gas has never been: the rest would pass for the whole."""
    _row(server, co2_row("01:00", gas=value))
    assert _today(make) == ["00:50"]


@pytest.mark.parametrize("value", ["", "NaN", "x", "1e999", "0", "-20000", "999999"])
def test_a_row_without_demand_is_a_gap(make, server, value):
    """Divided by 0, by a placeholder or by infinity it would be no intensity, or a clean one."""
    _row(server, co2_row("01:00"), load=load_row("01:00", value))
    assert _today(make) == ["00:50"]


@pytest.mark.parametrize("imports", ["1e308", "-1e308", "1e999", "-1e999"])
@pytest.mark.parametrize("gas", ["5000", "1e308", "1e999"])
def test_cells_that_no_sum_can_hold_are_a_gap(make, server, gas, imports):
    """Added up they would overflow, or be infinities of both signs."""
    _row(server, co2_row("01:00", gas=gas, imports=imports))
    assert _today(make) == ["00:50"]


def test_exports_are_taken_off(make, server):
    """Imports may be negative; a sum that is, is a gap and not the cleanest hour."""
    _row(server, co2_row("01:00", imports=-1000))
    midnight = fakes.wall(TODAY, "00:00").astimezone(UTC)
    assert make().observe(midnight, NOW).points[-1].g_per_kwh == pytest.approx(G_PER_KWH - 140)
    _row(server, co2_row("01:00", imports=-6000))
    assert _today(make) == ["00:50"]


@pytest.mark.parametrize(
    "row",
    ["", ",,,,,,", "01:00", "01:00,,,,,,", "01:00,80,110,5000,0,1800,7,,,9", "24:00,1,1,1,1,1,1", "1:0,1,1,1,1,1,1"],
)
def test_a_row_that_cannot_be_read_is_a_gap(make, server, row):
    """Blank lines, times that are none, and more cells than columns; empty cells behind the last are padding."""
    _row(server, row)
    assert _today(make) == ["00:50"]
    _row(server, f"{co2_row('01:00')},,,")
    assert _today(make) == ["00:50", "01:00"]


def test_rows_without_their_counterpart_are_gaps(make, server):
    """The tables need not end at the same time."""
    _tables(server, [co2_row("00:00"), co2_row("00:05")], [load_row("00:05"), load_row("00:10")])
    assert _today(make) == ["00:05"]


def test_of_duplicate_rows_the_last_wins(make, server):
    """On a day of 24 hours."""
    _tables(server, [co2_row("00:00", gas=9000), co2_row("00:00")], [load_row("00:00")])
    midnight = fakes.wall(TODAY, "00:00").astimezone(UTC)
    assert [point.g_per_kwh for point in make().observe(midnight, NOW)] == [pytest.approx(G_PER_KWH)]


def test_a_byte_order_mark_is_no_name(make, server):
    """A table written by a spreadsheet begins with one."""
    tables = {name: Answer("\ufeff".encode() + fakes.table(name, ["00:00"]).body) for name in ("co2", "netdemand")}
    server.answer_with(lambda sent: tables[sent.path.rsplit("/", 1)[1].removesuffix(".csv")])
    assert _today(make) == ["00:00"]


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        (("Time,Biogas CO2,Imports CO2", LOAD), "co2.csv has no column natural gas co2"),
        (("Time,Natural Gas CO2", LOAD), "co2.csv has no column imports co2"),
        ((CO2, "Time,Net demand"), "netdemand.csv has no column current demand"),
        (("Date,Natural Gas CO2", LOAD), "co2.csv begins with 'date,natural gas co2', not with a time"),
        (("Time,Coal CO2,coal co2", LOAD), "not with a time and names of columns"),
        (("", LOAD), "begins with"),
    ],
)
def test_a_table_of_something_else_is_refused(make, server, headers, text):
    """By the name of what is missing."""
    _tables(server, [co2_row("00:00")], [load_row("00:00")], *headers)
    with pytest.raises(SchemaError, match=text):
        make().observe(NOW - HOUR, NOW)


def test_a_table_that_is_longer_than_a_day_is_refused():
    """No file of this kind has four hundred rows."""
    with pytest.raises(SchemaError, match="has 402 rows, more than a day"):
        parse("\n".join([CO2, *(co2_row("00:00") for _ in range(401))]), "co2.csv")


def test_a_table_without_rows_is_no_data(make, server):
    """Just after midnight there may be none."""
    _tables(server, [], [])
    with pytest.raises(NoData, match="published nothing in current"):
        make().observe(NOW - timedelta(minutes=20), NOW)


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (as_json({"message": "Forbidden"}, 403), Transient, "from here it may not be reached"),
        (html(403), Transient, "from here it may not be reached"),
        (html(200), Transient, "HTML"),
        (as_json({}), Transient, "JSON"),
        (Answer(status=404), BadRequest, "404"),
        (Answer(status=410), BadRequest, "410"),
        (as_json({}, 429, Retry_After="60"), RateLimited, "429"),
        (html(503), Transient, "503"),
    ],
)
def test_each_refusal_of_today_has_its_class(make, server, answer, error, text):
    """It has no keys, so nobody is sent to look for one."""
    server.answer_with(answer)
    with pytest.raises(error, match=text):
        make().observe(NOW - HOUR, NOW)


# Anything at all


class _Wire(Replayed):
    """One table for the carbon, one for the load, of each day."""

    def __init__(self, co2, load):
        super().__init__(b"", 200)
        self._tables = {"co2.csv": co2, "netdemand.csv": load}

    def _fetch(self, url, *_):
        return RawReply(url, 200, "text/csv", None, "", "", self._tables[url.rsplit("/", 1)[1]])


@pytest.mark.parametrize("name", ["co2", "netdemand"])
@given(data=st.data())
def test_a_table_survives_any_edit(name, data):
    """An intensity that its cells can make, a gap, or one of our errors."""
    tables = {table: fakes.table(table, minutes("00:00", 17)).body for table in ("co2", "netdemand")}
    tables[name] = data.draw(mutated_text(tables[name].decode()))
    session = _Wire(tables["co2"], tables["netdemand"])
    provider = Caiso(zone="CAISO", options={}, base_url=None, session=session, now=lambda: NOW)
    for point in outcome(provider.observe, NOW - 2 * HOUR, NOW):
        assert 0 <= point.g_per_kwh <= MOST_G_PER_KWH
        assert point.end - point.start <= STEP
        assert point.start <= NOW
    session.close()


@given(st.lists(st.sampled_from([*LABELS[:40], FOLLOWING]), max_size=60), st.sampled_from([SPRING, AUTUMN, TODAY]))
def test_any_order_of_rows_finds_each_instant_once(labels, day):
    """Whatever the rows, an instant is within its day by the wall clock that its row showed."""
    text = "\n".join(["Time,Natural Gas CO2", *(f"{label},{index}" for index, label in enumerate(labels))])
    found = parse(text, "co2.csv").at(day, NOW + 365 * DAY)
    for at, cells in found.items():
        local = at.astimezone(fakes.CLOCK)
        assert local.date() == day
        assert f"{local:%H:%M}" == labels[round(cells["natural gas co2"])]
