"""What docs/sources.md says, done: its region files load, its files are read, its options are those of the code."""

from __future__ import annotations

import json
import sys
import threading
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import ModuleType

import pytest
from pages import ROOT, examples, page, quoted, rows, section

from chase.clock import ManualClock
from chase.config import load, load_region, region_file
from providers import columns, registry
from providers.base import BadRequest, Capabilities, Kind
from providers.session import Session
from providers.table import _LISTS, FORMATS
from providers.testing import ProviderSuite

NOW = datetime(2026, 3, 4, 9, 20, tzinfo=UTC)
PAGE = "\n".join([page("sources.md"), *(path.read_text() for path in sorted((ROOT / "docs/sources").glob("*.md")))])
TOML = examples(PAGE, "toml")
REGIONS = [text for text in TOML if "[region]" in text]
PRICES = [text for text in TOML if "[[prices]]" in text and "[region]" not in text]
SOURCES = [text for text in TOML if "[[sources]]" in text and "[region]" not in text]
PROVIDER, SUITE = examples(PAGE, "python")
MEANING = {"signal": "average", "scope": "direct"}
NEEDED = {
    "carbon_aware_sdk": MEANING,
    "file": {"path": "grid.csv"},
    "octopus": {"gsp": "C"},
    "prometheus": {"query": "grid", **MEANING},
    "static": {"g_per_kwh": [[100] * 24] * 12},
}
ZONES = {
    "caiso": "US-CAL-CISO",
    "eia": "US-CAL-CISO",
    "energinet": "DK1",
    "energy_charts": "DE",
    "entsoe": "FR",
    "ieso": "CA-ON",
    "neso": "GB",
    "octopus": "GB",
    "open_electricity": "NSW1",
    "rte": "FR",
    "smard": "DE",
}
PRICE_ZONES = {"energy_charts": "DE-LU"}
ADDRESSES = dict.fromkeys(("carbon_aware_sdk", "chase", "prometheus"), "http://127.0.0.1:9")
HEADER = """
[region]
id = "home"
name = "Home"
time_zone = "Europe/London"
signal = "{signal}"
scope = "{scope}"
currency = "GBP"
"""


def header(source):
    """A region into which the source fits: of its scope and signal, as its options or else its provider say."""
    options = source.get("options", {})
    unsaid = region_file._SCOPE_UNSAID | region_file._ONLY_SCOPE
    scope = options.get("scope", unsaid.get(source["provider"], "direct"))
    signal = options.get("signal", region_file._SIGNAL_UNSAID.get(source["provider"], "average"))
    return HEADER.format(scope="direct" if scope == "unspecified" else scope, signal=signal)


def at_now():
    return NOW


def made(name, session, **options):
    given = {"options": options, "token": None, "base_url": ADDRESSES.get(name), "session": session, "now": at_now}
    return registry.create(name, zone=ZONES.get(name, "home"), **given)


def made_prices(name, session, **options):
    given = {"options": options, "token": None, "base_url": None, "session": session, "now": at_now}
    return registry.create_prices(name, zone=PRICE_ZONES.get(name, ZONES.get(name, "home")), **given)


@pytest.fixture
def session():
    session = Session(rate_per_s=1000.0, now=at_now)
    yield session
    session.close()


@pytest.fixture
def write(tmp_path):
    def put(text, name="example.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return put


# Region files


def test_there_is_something_of_each_kind():
    """A region, a source of every provider that a region file may name, a file in each format, a package."""
    named = [source["provider"] for text in REGIONS + SOURCES for source in tomllib.loads(text)["sources"]]
    assert REGIONS
    assert set(named) == set(registry.names()) - {"static"}
    assert all(examples(PAGE, form) for form in FORMATS)


@pytest.mark.parametrize("text", REGIONS)
def test_a_region_example_is_a_region(text, write):
    """It loads as it stands, alone and as the region of a service."""
    path = write(text)
    loaded = load(service_file=write("", "chase.toml"), region=path, env={"HOME": "/"})
    assert loaded.region == load_region(path)
    assert loaded.config.policy.efficiency_above == 350
    assert loaded.config.signal.fresh_s == 3600


@pytest.mark.parametrize("text", SOURCES)
def test_a_source_example_fits_into_a_region(text, write):
    """Under a [region] of its scope it loads."""
    sources = tomllib.loads(text)["sources"]
    region = load_region(write(header(sources[0]) + text))
    assert [source.provider for source in region.sources] == [source["provider"] for source in sources]


@pytest.mark.parametrize("text", PRICES)
def test_a_price_example_fits_into_a_region(text, write, session):
    """Under a [region] of its currency it loads, and each provider takes what the example gives it."""
    prices = tomllib.loads(text)["prices"]
    currency = (
        prices[0].get("options", {}).get("currency", region_file._CURRENCY_UNSAID.get(prices[0]["provider"], "EUR"))
    )
    region = HEADER.format(scope="direct", signal="average").replace("GBP", currency)
    source = '[[sources]]\nprovider = "file"\nzone = "home"\noptions = { path = "a.csv" }\n'
    loaded = load_region(write(region + source + text))
    for price in loaded.prices:
        made = registry.create_prices(price.provider, **_given(price, session))
        assert made.zone == price.zone


@pytest.mark.parametrize("text", REGIONS + SOURCES)
def test_the_options_of_an_example_are_known(text, write, session):
    """Each provider takes what the example gives it; nothing is asked."""
    for source in load_region(
        write(text if "[region]" in text else header(tomllib.loads(text)["sources"][0]) + text)
    ).sources:
        assert registry.create(source.provider, **_given(source, session)).zone == source.zone


def _given(source, session):
    given = {"zone": source.zone, "options": source.options, "base_url": source.base_url}
    return {**given, "token": None, "session": session, "now": at_now}


def test_a_scope_that_contradicts_the_region_is_refused(write):
    """All three ways that the page names: the option, neso, and Electricity Maps without the option."""
    for scope, provider, zone, options in (
        ("direct", "file", "home", '{ path = "a.csv", scope = "lifecycle" }'),
        ("lifecycle", "neso", "GB", "{}"),
        ("direct", "electricity_maps", "DE", "{}"),
    ):
        source = f'[[sources]]\nprovider = "{provider}"\nzone = "{zone}"\noptions = {options}\n'
        with pytest.raises(Exception, match="never mixed"):
            load_region(write(HEADER.format(scope=scope, signal="average") + source))


def test_static_cannot_be_named_as_a_source(write):
    """Options hold no tables, so its figures cannot stand there."""
    row = ",".join(["1"] * 24)
    table = f"options = {{ g_per_kwh = [{','.join([f'[{row}]'] * 12)}] }}"
    with pytest.raises(Exception, match="must be text, a number, true or false"):
        load_region(
            write(
                HEADER.format(scope="direct", signal="average")
                + f'[[sources]]\nprovider = "static"\nzone = "GB"\n{table}\n'
            )
        )


# Options


def known_options(name, session):
    return _told(lambda: made(name, session, **NEEDED.get(name, {}), no_such_option=1))


def known_price_options(name, session):
    return _told(lambda: made_prices(name, session, **NEEDED.get(name, {}), no_such_option=1))


def _told(make):
    with pytest.raises(BadRequest, match=r"it knows|it has none") as caught:
        make()
    known = str(caught.value).partition("it knows ")[2]
    return set(known.split(", ")) if known else set()


def option_rows(name):
    """Option names with their default cell, from the table of the provider's section; that of its prices is another."""
    return _options(section(PAGE, name).partition("\n### Prices")[0])


def price_rows(name):
    part = section(PAGE, name)
    return _options(part if name not in BUILT_IN else part.partition("\n### Prices")[2])


def _options(text):
    return {option: cells[2] for cells in rows(text) if len(cells) == 4 for option in quoted(cells[0])}


BUILT_IN = registry.names()


def test_every_provider_has_a_section():
    """And none of another."""
    assert all(section(PAGE, name) for name in {*BUILT_IN, *registry.price_names()})
    pages = {path.stem for path in (ROOT / "docs/sources").glob("*.md")}
    assert pages - {"mix"} <= {*BUILT_IN, *registry.price_names()}


@pytest.mark.parametrize("name", registry.price_names())
def test_the_table_of_prices_has_exactly_the_options_of_the_code(name, session):
    """As that of intensities."""
    assert set(price_rows(name)) == known_price_options(name, session)


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_table_has_exactly_the_options_of_the_code(name, session):
    """An option that the code learns must be written down, and one that it forgets must go."""
    assert set(option_rows(name)) == known_options(name, session)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_default_of_the_table_is_that_of_the_code(name, session):
    """Giving it changes nothing."""
    bare = _inside(made(name, session, **NEEDED.get(name, {})))
    for option, cell in option_rows(name).items():
        for default in quoted(cell):
            value = tomllib.loads(f"value = {default}")["value"]
            same = _inside(made(name, session, **{**NEEDED.get(name, {}), option: value}))
            assert same == bare, (option, default)


def _inside(value):
    """What an object holds, and what those hold that have no equality of their own."""
    if callable(value):
        return getattr(value, "__qualname__", type(value))
    if type(value).__eq__ is not object.__eq__ or not hasattr(value, "__dict__") or isinstance(value, Session):
        return value if type(value).__eq__ is not object.__eq__ else type(value)
    return {name: _inside(held) for name, held in vars(value).items()}


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_value_of_the_table_is_accepted(name, session):
    """The choices that are listed are choices."""
    known = option_rows(name)
    for cells in rows(section(PAGE, name)):
        if len(cells) != 4 or not quoted(cells[0]) or quoted(cells[0])[0] in {"path", "version"}:
            continue
        if quoted(cells[0])[0] not in known:
            continue
        for text in quoted(cells[1]):
            option = {quoted(cells[0])[0]: tomllib.loads(f"value = {text}")["value"]}
            made(name, session, **{**NEEDED.get(name, {}), **option})


@pytest.mark.parametrize(
    ("option", "low", "high"), [("step_s", 1, 2678400), ("poll_s", 0.05, 86400), ("max_bytes", 1, 1073741824)]
)
def test_a_range_of_the_table_is_that_of_the_code(option, low, high, session):
    """Its ends are accepted and what is beyond them is refused."""
    assert f"number, {low} to {high}" in [cells[1] for cells in rows(section(PAGE, "file")) if f"`{option}`" in cells]
    for value in (low, high):
        made("file", session, path="grid.csv", **{option: value})
    for value in (low * 0.9, high + 1):
        with pytest.raises(BadRequest, match=option):
            made("file", session, path="grid.csv", **{option: value})


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_the_overview_says_of_polls_and_keys(name, session):
    """How often each is asked, and which needs a token."""
    overview = {quoted(cells[0])[0]: cells for cells in rows(PAGE) if len(cells) == 4 and cells[0].startswith("[`")}
    can = made(name, session, **NEEDED.get(name, {})).capabilities
    number, _, unit = overview[name][3].partition(" ")
    said = float("inf") if number == "never" else float(number) * {"s": 1, "min": 60}[unit]
    asked = can.poll_s if name != "static" else float("inf")
    assert (overview[name][2], said) == ("token" if can.needs_key else "none", asked)


# Files


def read(session, path, zone="home", **options):
    """What is observed and what is expected, as (start hour, g/kWh, kind)."""
    provider = registry.create(
        "file",
        zone=zone,
        options={"path": str(path), **options},
        token=None,
        base_url=None,
        session=session,
        now=at_now,
    )
    day = NOW.replace(hour=0, minute=0), NOW.replace(hour=23, minute=0)
    found = provider.observe(*day), provider.forecast(*day)
    return tuple([(point.start.hour, point.g_per_kwh, point.kind) for point in series] for series in found)


CSV, ZONES_CSV = examples(PAGE, "csv")
(JSON,) = examples(PAGE, "json")
(JSONL,) = examples(PAGE, "jsonl")
M, E, F = Kind.MEASURED, Kind.ESTIMATED, Kind.FORECAST


@pytest.mark.parametrize(
    ("name", "text", "read_as"),
    [
        ("a.csv", CSV, ([(7, 212.0, M), (9, 187.5, E)], [(10, 171.0, F)])),
        ("a.json", JSON, ([(8, 140.0, M), (9, 133.0, E)], [(10, 145.0, F)])),
        ("a.jsonl", JSONL, ([(8, 101.0, M), (9, 99.0, E)], [(12, 80.0, F)])),
        ("a.ndjson", JSONL.rstrip("\n"), ([(8, 101.0, M), (9, 99.0, E)], [(12, 80.0, F)])),
    ],
)
def test_a_file_example_says_what_the_page_says_of_it(name, text, read_as, write, session):
    """At 09:20, in each format."""
    assert read(session, write(text, name)) == read_as


@pytest.mark.parametrize(("scope", "values"), [("direct", [120.0, 110.0]), ("lifecycle", [180.0, 170.0])])
def test_the_scope_chooses_a_column_and_the_zone_its_rows(scope, values, write, session):
    """Of the example with two zones and two scopes."""
    observed, expected = read(session, write(ZONES_CSV, "a.csv"), scope=scope)
    assert [grams for _, grams, _ in observed] == values
    assert expected == []


def test_a_csv_row_without_its_newline_is_not_read(write, session):
    """It is still being written."""
    assert read(session, write(CSV.rstrip("\n"), "a.csv"))[1] == []


def test_a_plain_row_of_the_future_becomes_what_the_option_says(write, session):
    """The trap: a forecast without issued_at turns into a measurement when its hour begins."""
    text = "start,g_per_kwh\n2026-03-04T09:00Z,100\n2026-03-04T10:00Z,90\n"
    assert read(session, write(text, "a.csv")) == ([(9, 100.0, M)], [(10, 90.0, F)])
    assert read(session, write(text, "a.csv"), kind="forecast") == ([], [(9, 100.0, F), (10, 90.0, F)])
    future = "start,g_per_kwh,kind\n2026-03-04T09:00Z,100,\n2026-03-04T10:00Z,90,measured\n"
    assert read(session, write(future, "a.csv")) == ([(9, 100.0, M)], [])


def test_every_name_of_a_column_is_on_the_page(write, session):
    """The table has the names of the code, each of them is read, and no other is."""
    table = section(PAGE, "Columns")
    listed = [name for cells in rows(table) for cell in cells[:2] for name in quoted(cell)]
    known = {*columns._START, *columns._END, *columns._VALUE, *columns._ISSUED, *columns._ESTIMATED, "kind", "zone"}
    assert set(listed) == known
    assert len(listed) == len(known)
    for name in columns._START:
        time = "2026-03-04T08:00" if "utc" in name else "2026-03-04T08:00Z"
        assert read(session, write(f"{name},g_per_kwh\n{time},5\n", "a.csv")) == ([(8, 5.0, M)], [])
    assert all(f"`{name}`" in section(PAGE, "JSON") for name in _LISTS)


# A provider of your own


def module(name, text, monkeypatch):
    made = ModuleType(name)
    exec(compile(text, f"docs/sources.md: {name}", "exec"), made.__dict__)
    monkeypatch.setitem(sys.modules, name, made)
    return made


with pytest.MonkeyPatch.context() as _imports:
    module("my_grid", PROVIDER, _imports)
    PageSuite = module("test_my_grid", SUITE, _imports).TestMyGrid
    PageSuite.__test__ = False


class Rows(BaseHTTPRequestHandler):
    """Two days of hours around ``NOW`` for whoever has the token."""

    def do_GET(self):
        first = NOW.replace(minute=0) - timedelta(hours=24)
        hours = [first + timedelta(hours=index) for index in range(48)]
        rows = [
            {"from": at.isoformat(), "to": (at + timedelta(hours=1)).isoformat(), "grams": 90 + at.hour} for at in hours
        ]
        good = self.headers["X-Token"] == "the token" and self.path == "/XX?meter=main"
        body = json.dumps(rows if good else {"error": "who are you?"}).encode()
        self.send_response(200 if good else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def grid_url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Rows)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class TestThePagesProvider(PageSuite):
    """The example provider passes the suite, with the page's own fixture."""

    __test__ = True

    def test_it_is_the_suite_of_the_package(self):
        """Nothing of it is left out."""
        assert isinstance(self, ProviderSuite)


def test_the_entry_point_of_the_example_makes_a_provider(tmp_path, write, monkeypatch, session):
    """A package with the page's metadata is installed; then a region file may name its provider."""
    (text,) = [text for text in TOML if "[project" in text]
    ((group, entries),) = tomllib.loads(text)["project"]["entry-points"].items()
    info = tmp_path / "site/my_grid-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-grid\nVersion: 1.0\n")
    lines = "".join(f"{name} = {target}\n" for name, target in entries.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")
    (info.parent / "my_grid.py").write_text(PROVIDER)
    monkeypatch.syspath_prepend(str(info.parent))
    monkeypatch.delitem(sys.modules, "my_grid", raising=False)

    region = load_region(
        write(HEADER.format(scope="direct", signal="average") + '[[sources]]\nprovider = "my_grid"\nzone = "XX"\n')
    )
    provider = made(region.sources[0].provider, session, meter="roof")
    assert type(provider).__name__ == "MyGrid"
    with pytest.raises(BadRequest, match="no option 'metre'"):
        made("my_grid", session, metre="roof")
    monkeypatch.delitem(sys.modules, "my_grid", raising=False)


# Ages


def test_the_ages_and_horizons_are_those_of_the_defaults():
    """90 minutes, 6 hours, 48 hours: as the service has them."""
    from chase import ahead, signal

    defaults = load(service_file=ROOT / "config/chase.toml", env={"HOME": "/"}).config.signal
    assert (defaults.fresh_s, defaults.usable_s) == (90 * 60, 6 * 3600)
    assert ahead.OWN_FORECAST_FROM == signal._HORIZON == timedelta(hours=48)
    can = Capabilities(observed=True, forecast=False, step_s=3600, poll_s=60)
    assert can.revised_s == 72 * 3600


def test_each_step_of_the_fallbacks_comes_when_the_page_says(write, session):
    """One file source that falls silent: fresh, stale, its own forecast, ours, and typical."""
    from chase.signal import GridSignal, Limits

    clock = ManualClock(NOW)
    begun = "start,g_per_kwh,issued_at\n2026-03-04T08:00Z,100,\n"
    begun += "2026-03-04T16:00Z,77,2026-03-04T08:00Z\n"
    path = write(begun, "a.csv")
    session_now = {"base_url": None, "token": None, "session": session, "now": clock.now}
    source = registry.create("file", zone="home", options={"path": str(path), "step_s": 3600}, **session_now)
    typical = registry.create("static", zone="home", options=NEEDED["static"], **session_now)
    grid = GridSignal("home", [source], clock=clock, limits=Limits(), typical=typical)
    grid.poll()
    seen = []
    for hours in (0, 2, 7, 8, 48):
        clock.advance(timedelta(hours=hours).total_seconds() - (clock.now() - NOW).total_seconds())
        outlook = grid.outlook()
        seen.append((hours, outlook.freshness, outlook.now.kind.value, outlook.now.source))
    assert seen == [
        (0, "fresh", "measured", "file"),
        (2, "stale", "measured", "file"),
        (7, "fallback", "forecast", "chase+file"),
        (8, "fallback", "forecast", "persistence"),
        (48, "fallback", "typical", "static"),
    ]
