"""Ontario: hours by their end in one zone of time all year, plants of two days and the end of a year's file."""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import mix_fakes
import pytest
from grid_server import NOW, Answer, html
from http_suite import HttpProviderSuite
from mix_fakes import EST, IESO_MW, as_xml, ieso_daily, ieso_day, ieso_plant, ieso_plants

from providers.base import BadRequest, Boundary, Kind, NoData, SchemaError, Scope, Signal, Transient
from providers.ieso import Ieso

HOUR = timedelta(hours=1)
TODAY, YESTERDAY = date(2026, 3, 4), date(2026, 3, 3)  # it is 04:20 there
FACTORS = {"NUCLEAR": 12, "GAS": 490, "HYDRO": 24, "WIND": 11, "SOLAR": 45, "BIOFUEL": 230, "OTHER": 700}


class TestIesoSuite(HttpProviderSuite):
    """Two days by plant, and those before them from the file of the year."""

    MORE_REQUESTS = 2

    def make(self, session, base_url):
        return Ieso(zone="CA-ON", options={}, base_url=base_url, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(mix_fakes.ieso(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


@pytest.fixture
def make(server, session, clock):
    server.answer_with(mix_fakes.ieso(clock.now))

    def make(**options):
        return Ieso(zone="CA-ON", options=options, base_url=server.url, session=session, now=clock.now)

    return make


def observe(make, server, today, yesterday=None, back=2):
    """Of these two files; a whole yesterday if none is given."""
    before = as_xml(yesterday or ieso_plants(YESTERDAY, 24))
    answers = {"20260303": before, "20260304": today if isinstance(today, Answer) else as_xml(today)}
    server.answer_with(lambda request: answers[request.path[-12:-4]])
    return make().observe(NOW - back * HOUR, NOW).points


def by_fuel(server, clock, text):
    """The plants as they should be, and this for the file of a year."""
    healthy = mix_fakes.ieso(clock.now)
    as_asked = text if callable(text) else lambda request: mix_fakes.ranged(text, request)
    server.answer_with(lambda request: as_asked(request) if "byFuel" in request.path else healthy(request))


def intensity(mw):
    return sum(mw[fuel] * FACTORS[fuel] for fuel in mw) / sum(mw.values())


# What is asked and what it means


def test_an_hour_is_named_by_its_end_in_eastern_standard_time(make, server):
    """Hour 4 of 4 March is from 8 to 9 UTC."""
    points = make().observe(NOW - 2 * HOUR, NOW).points
    assert [(point.start.hour, point.end.hour) for point in points] == [(7, 8), (8, 9)]
    assert [request.path for request in server.requests] == [
        "/GenOutputCapability/PUB_GenOutputCapability_20260303.xml",
        "/GenOutputCapability/PUB_GenOutputCapability_20260304.xml",
    ]


def test_the_intensity_is_that_of_the_plants_together(make, server):
    """What plants could do is not what they do."""
    point = make().observe(NOW - 2 * HOUR, NOW).points[-1]
    assert point.g_per_kwh == pytest.approx(intensity(IESO_MW))
    labels = (point.kind, point.signal, point.scope, point.boundary, point.source, point.zone, point.method)
    wanted = (Kind.MEASURED, Signal.AVERAGE, Scope.LIFECYCLE, Boundary.PRODUCTION, "ieso", "CA-ON")
    assert labels == (*wanted, "ipcc-ar5.1 lifecycle")


def test_the_stack_alone_is_an_option(make):
    """Only gas leaves something there."""
    point = make(scope="direct").observe(NOW - 2 * HOUR, NOW).points[-1]
    assert point.g_per_kwh == pytest.approx(370 * IESO_MW["GAS"] / sum(IESO_MW.values()))
    assert point.method == "ipcc-ar5.1 direct"


def test_older_days_come_from_the_end_of_the_years_file(make, server):
    """One request for all of them, for a part of it, which is not packed."""
    points = make().observe(NOW - 72 * HOUR, NOW).points
    assert (len(points), points[0].start, points[-1].end) == (
        72,
        NOW - 72 * HOUR - timedelta(minutes=20),
        NOW.replace(minute=0),
    )
    year = server.requests[-1]
    assert year.path == "/GenOutputbyFuelHourly/PUB_GenOutputbyFuelHourly_2026.xml"
    assert year.headers["accept-encoding"] == "identity"
    assert year.headers["range"] == f"bytes=-{6 * 32 * 1024}"
    assert len(server.requests) == 3


def test_a_server_that_sends_the_whole_file_is_understood(make, server, clock):
    """Early in the year it is not large."""
    part = make().observe(NOW - 72 * HOUR, NOW).points
    days = [date(2026, 1, 1) + timedelta(days=n) for n in range(62)]
    by_fuel(server, clock, lambda _: as_xml(mix_fakes.ieso_year(2026, days)))
    assert make().observe(NOW - 72 * HOUR, NOW).points == part


def test_it_does_not_look_ahead(make, server):
    """Nothing is asked for what is to come."""
    assert not make().forecast(NOW, NOW + 5 * HOUR).points
    assert not make().observe(NOW + HOUR, NOW + 5 * HOUR).points
    assert not server.requests


def test_a_turn_of_the_year_takes_two_files(server, session):
    """Each of its own year."""
    now = datetime(2027, 1, 4, 15, 20, tzinfo=UTC)
    server.answer_with(mix_fakes.ieso(lambda: now))
    provider = Ieso(zone="CA-ON", options={}, base_url=server.url, session=session, now=lambda: now)
    points = provider.observe(now - 96 * HOUR, now).points
    assert len(points) == 96
    assert all(before.end == after.start for before, after in pairwise(points))
    assert [request.path[-8:-4] for request in server.requests] == ["0103", "0104", "2026", "2027"]


@pytest.mark.parametrize("day", [datetime(2026, 3, 8, tzinfo=EST), datetime(2026, 11, 1, tzinfo=EST)])
def test_ontario_changes_no_clock(server, session, day):
    """On the days on which Toronto's clocks change, hour 1 begins at 5 UTC and hour 24 ends at 5 UTC all the same."""
    start = day.astimezone(UTC)
    now = start + 36 * HOUR
    server.answer_with(mix_fakes.ieso(lambda: now))
    provider = Ieso(zone="CA-ON", options={}, base_url=server.url, session=session, now=lambda: now)
    points = provider.observe(start, start + 24 * HOUR).points
    assert (len(points), points[0].start.hour, points[-1].end.hour) == (24, 5, 5)
    wall = [point.start.astimezone(ZoneInfo("America/Toronto")).hour for point in points]
    assert wall != list(range(24))


def test_the_last_hour_of_a_day_is_24(make, server):
    """It ends at midnight there, which is 5 UTC of the next day."""
    points = observe(make, server, ieso_plants(TODAY, 1), ieso_plants(YESTERDAY, 24, GAS=5000), back=6)
    at_five = next(point for point in points if point.end.hour == 5)
    assert at_five.g_per_kwh == pytest.approx(intensity({**IESO_MW, "GAS": 5000}))


# Files that are not there


def test_the_first_hour_of_a_day_has_no_file(make, server):
    """Then yesterday's is what there is."""
    points = observe(make, server, Answer(b"not found", 404, "text/plain"), back=12)
    assert points[-1].end == datetime(2026, 3, 4, 5, tzinfo=UTC)


def test_two_days_without_a_file_are_a_wrong_address(make, server):
    """One may be missing for good reason, two may not."""
    server.answer_with(Answer(b"not found", 404, "text/plain"))
    with pytest.raises(BadRequest, match=r"20260303.xml is not there, nor is.*check base_url"):
        make().observe(NOW - HOUR, NOW)


def test_old_days_that_cannot_be_had_cost_those_alone(make, server, clock, caplog):
    """Today and yesterday are answered, and the log says what is missing."""
    by_fuel(server, clock, lambda _: html(503))
    with caplog.at_level(logging.WARNING):
        points = make().observe(NOW - 72 * HOUR, NOW).points
    assert points[0].start == datetime(2026, 3, 3, 5, tzinfo=UTC)
    assert "ieso: only today and yesterday are known, because" in caplog.text


def test_old_days_alone_that_cannot_be_had_are_an_error(make, server, clock):
    """There is nothing else to give."""
    by_fuel(server, clock, lambda _: html(503))
    with pytest.raises(Transient):
        make().observe(NOW - 96 * HOUR, NOW - 72 * HOUR)


def test_a_day_far_back_in_the_year_is_not_reached(make, server, clock):
    """Of the year's file never more than 3 MiB are asked for."""
    clock.advance(200 * 86400)
    with pytest.raises(NoData):
        make().observe(NOW - 48 * HOUR, NOW)
    assert server.requests[-1].headers["range"] == f"bytes=-{3 * 1024 * 1024}"


def test_a_lifetime_takes_few_requests(make, server):
    """Years that are not reached are not asked for."""
    assert make().observe(NOW.replace(year=1975), NOW).points[0].start.year == 2025
    assert len(server.requests) == 4


@pytest.mark.parametrize("status", [401, 403])
def test_a_keyless_source_cannot_refuse_a_key(make, server, status):
    """A refusal comes from a gateway before it: nobody is sent to look for a token."""
    server.answer_with(Answer(b'{"message": "Forbidden"}', status))
    with pytest.raises(Transient, match=f"refused with {status}"):
        make().observe(NOW - HOUR, NOW)


# By plant


def test_the_file_of_another_day_is_refused(make, server):
    """Yesterday's figures are not today's."""
    with pytest.raises(SchemaError, match="asked for 2026-03-04 and answered with '2026-03-02'"):
        observe(make, server, ieso_plants(date(2026, 3, 2), 4))


def test_a_small_plant_without_a_figure_costs_nothing(make, server):
    """N/A for one that made less than 5 % of its fuel."""
    plants = [ieso_plant("A", "GAS", [(1, 2000), (2, 2000)]), ieso_plant("B", "GAS", [(1, 90), (2, None)])]
    assert len(observe(make, server, *_only(plants))) == 2


def test_a_large_plant_without_a_figure_is_a_gap(make, server):
    """A third of the gas is not known, so gas is not, so the hour is not; when it is heard of again, it is."""
    first = ieso_plant("A", "GAS", [(1, 2000), (2, 2000), (3, 2000)])
    plants = [first, ieso_plant("B", "GAS", [(1, 1000), (2, None), (3, 1000)])]
    assert [point.end.hour for point in observe(make, server, *_only(plants))] == [6, 8]


def test_what_a_plant_made_yesterday_is_missed_in_the_first_hour(make, server):
    """A file that is just being begun does not have all of them."""
    today = ieso_day(TODAY, [ieso_plant("A", "GAS", [(1, 2000)]), ieso_plant("B", "GAS", [])])
    rows = [(hour, 1000) for hour in range(1, 25)]
    yesterday = ieso_day(YESTERDAY, [ieso_plant("A", "GAS", rows), ieso_plant("B", "GAS", rows)])
    assert observe(make, server, today, yesterday, 12)[-1].end.hour == 5


def test_a_plant_that_was_shut_down_may_say_nothing(make, server):
    """It was at zero when it was last heard of, however much it made before."""
    plants = [ieso_plant("A", "GAS", [(1, 2000), (2, 2000), (3, 2000)])]
    plants.append(ieso_plant("B", "GAS", [(1, 1000), (2, 0), (3, None)]))
    assert len(observe(make, server, *_only(plants))) == 3


def test_two_plants_of_one_name_add_up(make, server):
    """Names are not keys."""
    twins = [ieso_plant("A", "GAS", [(1, 1000)]), ieso_plant("A", "GAS", [(1, 3000)])]
    wind = [ieso_plant("A", "WIND", [(1, 4000)])]
    (point,) = observe(make, server, *_only([*twins, *wind]))
    assert point.g_per_kwh == pytest.approx((490 + 11) / 2)


def _only(plants):
    """Today with these plants, and a yesterday that has no other fuels."""
    rows = [(hour, 3000) for hour in range(1, 25)]
    fuels = {text.split("<FuelType>")[1].split("<")[0] for text in plants}
    yesterday = ieso_day(YESTERDAY, [ieso_plant("A", fuel, rows) for fuel in fuels])
    return ieso_day(TODAY, plants), yesterday, 4


@pytest.mark.parametrize(("hour", "mw"), [(0, 5), (25, 5), ("x", 5), ("", 5), (1, "n/a"), (1, "1e300"), (1, "nan")])
def test_an_hour_or_a_figure_that_cannot_be_is_left_out(make, server, hour, mw):
    """It costs its plant that hour."""
    plants = [ieso_plant("A", "GAS", [(1, 2000)]), ieso_plant("A", "WIND", [(1, 2000), (hour, mw)])]
    points = observe(make, server, *_only(plants))
    assert [point.g_per_kwh for point in points] == [pytest.approx(250.5)]


def test_a_new_fuel_is_noted(make, server, caplog):
    """It counts as unknown."""
    plants = [ieso_plant("A", "GAS", [(1, 2000)]), ieso_plant("B", "STEAM & ICE", [(1, 100)])]
    with caplog.at_level(logging.WARNING):
        (point,) = observe(make, server, ieso_day(TODAY, plants), ieso_day(YESTERDAY, []), 4)
    assert "ieso: fuel 'STEAM & ICE' is not known here" in caplog.text
    assert point.method.endswith("95 % of known fuel")


def test_xml_that_is_not_what_it_should_be_is_refused(make, server):
    """Another document has no date, a cut one no end, and entities are never read."""
    with pytest.raises(SchemaError, match="answered with ''"):
        observe(make, server, "<Other/>")
    with pytest.raises(Transient, match="no XML"):
        observe(make, server, ieso_plants(TODAY, 4)[:-200])
    with pytest.raises(SchemaError, match="refused"):
        observe(make, server, '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>')


# By fuel


def test_a_fuel_without_an_output_is_missing(make, server, clock):
    """Its quality says -3; the hour is a gap, since gas matters."""
    days = [
        ieso_daily(date(2026, 2, 28)),
        ieso_daily(date(2026, 3, 1), range(1, 20)),
        ieso_daily(date(2026, 3, 1), [20], GAS=None),
    ]
    by_fuel(server, clock, f"<DocBody>{''.join(days)}</DocBody>")
    points = make().observe(NOW - 72 * HOUR, datetime(2026, 3, 2, 3, tzinfo=UTC)).points
    assert points[-1].end == datetime(2026, 3, 2, 0, tzinfo=UTC)


def test_a_revision_in_the_years_file_is_a_new_answer(make, server, clock):
    """Older days are read again each time."""
    seen = []
    for gas in (2000, 3000):
        days = "".join(ieso_daily(date(2026, 2, 28) + timedelta(days=n), GAS=gas) for n in range(3))
        by_fuel(server, clock, f"<DocBody>{days}</DocBody>")
        seen.append(make().observe(NOW - 72 * HOUR, NOW).points[0].g_per_kwh)
    assert seen == pytest.approx([intensity(IESO_MW), intensity({**IESO_MW, "GAS": 3000})])


@pytest.mark.parametrize(
    "text", ["<DocBody/>", "</DailyData>", "</DailyData><DailyData>", "<DailyData><Day>2026-03-01"]
)
def test_a_part_without_a_whole_day_is_an_error(make, server, clock, text):
    """Nothing in it can be trusted."""
    by_fuel(server, clock, text)
    with pytest.raises(Transient, match="no whole day in its last"):
        make().observe(NOW - 96 * HOUR, NOW - 72 * HOUR)


def test_no_day_that_was_not_asked_for_is_taken(make, server, clock):
    """The part reaches further back, and yesterday in it would contradict the plants."""
    days = [date(2026, 2, 20) + timedelta(days=n) for n in range(12)]
    by_fuel(
        server, clock, f"<DocBody>{''.join(ieso_daily(day) for day in days)}{ieso_daily(YESTERDAY, GAS=9000)}</DocBody>"
    )
    points = make().observe(NOW - 60 * HOUR, NOW).points
    assert {round(point.g_per_kwh, 6) for point in points if point.end.hour < 10} == {round(intensity(IESO_MW), 6)}


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-02-30", [1]), ("", [1]), ("9999-12-31", [24]), ("2026-03-01", [0, 25, "x"])]
)
def test_days_and_hours_that_cannot_be_are_refused(make, server, clock, day, hours):
    """If there is nothing else."""
    by_fuel(server, clock, f"<DocBody>{ieso_daily(day, hours)}</DocBody>")
    with pytest.raises(SchemaError, match="no row can be used"):
        make().observe(NOW - 96 * HOUR, NOW - 72 * HOUR)
