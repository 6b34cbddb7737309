"""Files that others keep: every form, every fault, and what happens while they are being written."""

from __future__ import annotations

import json
import os
from datetime import timedelta

import pytest
from grid_server import NOW

from providers.base import BadRequest, Boundary, Kind, NoData, ProviderError, SchemaError, Scope, Signal, Transient
from providers.file import FileProvider
from providers.testing import ProviderSuite

HOUR = timedelta(hours=1)
HEADER = "start,end,g_per_kwh\n"
CSV = HEADER + "".join(
    f"2026-03-04T{hour:02}:00:00Z,2026-03-04T{hour + 1:02}:00:00Z,{100 + hour}\n" for hour in range(23)
)


class TestFileSuite(ProviderSuite):
    """A day of measured and expected hours."""

    @pytest.fixture
    def provider(self, tmp_path):
        path = tmp_path / "grid.csv"
        path.write_text(CSV)
        return FileProvider(zone="GB", options={"path": str(path)}, now=lambda: self.NOW)


@pytest.fixture
def make(tmp_path, clock):
    """A provider of a file with the given content."""

    def make(content="", name="grid.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return FileProvider(zone="GB", options={"path": str(path), **options}, now=clock.now)

    return make


def _day(provider):
    return provider.observe(NOW - 24 * HOUR, NOW + 24 * HOUR).points


def _ahead(provider):
    return provider.forecast(NOW, NOW + 24 * HOUR).points


def test_rows_that_have_begun_were_observed(make):
    """Intervals as written, measured unless the row says otherwise; later rows are what is expected."""
    provider = make(CSV)
    assert [point.start.hour for point in _day(provider)] == list(range(10))
    assert [point.start.hour for point in _ahead(provider)] == list(range(10, 23))
    point = _day(provider)[-1]
    assert (point.g_per_kwh, point.kind, point.end - point.start) == (109.0, Kind.MEASURED, HOUR)
    assert (point.signal, point.scope, point.boundary) == (Signal.AVERAGE, Scope.UNSPECIFIED, Boundary.UNSPECIFIED)


@pytest.mark.parametrize(
    ("header", "row", "scope"),
    [
        ("start,g_per_kwh", "2026-03-04T08:00Z,12.5", Scope.UNSPECIFIED),
        (
            "start_utc,lifecycle_gco2e_per_kwh,direct_gco2_per_kwh,estimated",
            "2026-03-04T08:00:00Z,12.5,9.9,0",
            Scope.LIFECYCLE,
        ),
        ("start_utc,gco2e_per_kwh,last_polled_utc", "2026-03-04T08:00:00,12.5,2026-03-04T09:00:04Z", Scope.UNSPECIFIED),
        ("Datetime (UTC),carbon_intensity", "2026-03-04 08:00:00,12.5", Scope.UNSPECIFIED),
        ("datetime,carbonIntensity", "2026-03-04T08:00:00.000Z,12.5", Scope.UNSPECIFIED),
        ("from,to,intensity_g_per_kwh", "2026-03-04T08:00Z,2026-03-04T09:00Z,12.5", Scope.UNSPECIFIED),
        ("TIMESTAMP, G_per_kWh", "2026-03-04T10:00:00+02:00, 12.5", Scope.UNSPECIFIED),
        ('"start","g_per_kwh"', '"2026-03-04T08:00Z","12.5"', Scope.UNSPECIFIED),
        ("\ufeffstart,g_per_kwh", "2026-03-04T08:00Z,12.5", Scope.UNSPECIFIED),
        ("# my grid\n\nstart,g_per_kwh", "# a note\n\n2026-03-04T08:00Z,1.25e1", Scope.UNSPECIFIED),
    ],
)
def test_the_usual_column_names_are_known(make, header, row, scope):
    """Whoever exported the table, the hour at 08:00 UTC was 12.5, and a telling column says the scope."""
    (point,) = _day(make(f"{header}\n{row}\n"))
    assert (point.start, point.end - point.start, point.g_per_kwh) == (NOW.replace(hour=8, minute=0), HOUR, 12.5)
    assert (point.scope, point.kind) == (scope, Kind.MEASURED)


def test_of_two_value_columns_the_scope_chooses(make):
    """Lifecycle and direct figures side by side are not mixed."""
    table = "start_utc,lifecycle_gco2e_per_kwh,direct_gco2_per_kwh\n2026-03-04T08:00:00Z,75,20\n"
    (point,) = _day(make(table, scope="direct"))
    assert (point.g_per_kwh, point.scope) == (20.0, Scope.DIRECT)
    with pytest.raises(SchemaError, match="no column for g_per_kwh"):
        _day(make(table.replace("direct_", "x_"), scope="direct"))


def test_any_column_can_be_named(make):
    """The option wins over the known names; a wrong name gets a suggestion."""
    table = "start,g_per_kwh,my_value\n2026-03-04T08:00Z,1,2\n"
    assert _day(make(table, column="My_Value"))[0].g_per_kwh == 2.0
    with pytest.raises(
        BadRequest, match=r"no column 'my_valeu' \(did you mean 'my_value'\?\); it has start, g_per_kwh"
    ):
        _day(make(table, column="my_valeu"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("g.json", [{"start": "2026-03-04T08:00Z", "g_per_kwh": 12.5}]),
        ("g.json", {"zone": "GB", "history": [{"datetime": "2026-03-04T08:00:00.000Z", "carbonIntensity": 12.5}]}),
        ("g.json", {"data": [{"start": "2026-03-04T08:00Z", "g_per_kwh": "12.5", "extra": {"a": []}}]}),
    ],
)
def test_json_documents_are_read(make, name, content):
    """A list, or a list under one of the usual keys."""
    assert [point.g_per_kwh for point in _day(make(json.dumps(content), name))] == [12.5]


@pytest.mark.parametrize("end", ["", "\n", '\n{"start": "2026-03-04T09:00Z", "g_pe'])
@pytest.mark.parametrize("name", ["g.jsonl", "g.ndjson"])
def test_json_lines_are_read_while_they_grow(make, name, end):
    """An object whose brace is closed is complete; a line without its end is not there yet."""
    assert [
        point.g_per_kwh for point in _day(make('{"start": "2026-03-04T08:00Z", "g_per_kwh": 12.5}' + end, name))
    ] == [12.5]


def test_the_format_may_be_given(make):
    """A name that says nothing needs the option."""
    assert len(_day(make(CSV, "grid.dat", format="csv"))) == 10


@pytest.mark.parametrize("blank", ["", " ", "null", "None", "NaN", "NA", "n/a"])
def test_a_blank_is_a_gap(make, blank):
    """The hours around it are kept at their own length; it is never 0."""
    points = _day(make(f"start,g_per_kwh\n2026-03-04T06:00Z,1\n2026-03-04T07:00Z,{blank}\n2026-03-04T08:00Z,3\n"))
    assert [(point.start.hour, point.end.hour, point.g_per_kwh) for point in points] == [(6, 7, 1.0), (8, 9, 3.0)]


def test_a_json_null_is_a_gap(make):
    """So is a value that is not there."""
    rows = [
        {"start": f"2026-03-04T0{hour}:00Z", **more}
        for hour, more in ((6, {"g_per_kwh": None}), (7, {}), (8, {"g_per_kwh": 0}))
    ]
    assert [(point.start.hour, point.g_per_kwh) for point in _day(make(json.dumps(rows), "g.json"))] == [(8, 0.0)]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            "start,g_per_kwh\n2026-03-04T08:00Z,12\n2026-03-04T09:00Z,abc\n",
            r"grid\.csv line 3: g_per_kwh is 'abc', not a number",
        ),
        ("start,g_per_kwh\n2026-03-04T08:00Z,-1\n", r"line 2: g_per_kwh is -1\.0, not within 0 to 5000"),
        ("start,g_per_kwh\n2026-03-04T08:00Z,inf\n", r"line 2: g_per_kwh is inf, not within"),
        ("start,g_per_kwh\n2026-03-04T08:00Z,117000\n", r"line 2: g_per_kwh is 117000\.0"),
        ('start,g_per_kwh\n2026-03-04T08:00Z,"12,5"\n', "line 2: g_per_kwh is '12,5'"),
        (
            "start,g_per_kwh\n2026-03-04T08:00,12\n",
            "line 2: start is '2026-03-04T08:00', not a time with its UTC offset",
        ),
        ("start,g_per_kwh\nyesterday,12\n", "line 2: start is 'yesterday'"),
        ("start,g_per_kwh\n1772611200,12\n", "line 2: start is '1772611200'"),
        ("start,g_per_kwh\n,12\n", "line 2: start is missing"),
        ("start,g_per_kwh\n9999-12-31T23:30Z,12\n", "line 2: start is '9999-12-31T23:30Z'"),
        ("start,end,g_per_kwh\n2026-03-04T08:00Z,2026-03-04T08:00Z,1\n", "line 2: end .* is not after start"),
        ("start,g_per_kwh\n2026-03-04T08:00Z\n", "line 2: 1 fields where the header has 2"),
        (
            "start,g_per_kwh,kind\n2026-03-04T08:00Z,1,mesured\n",
            r"line 2: kind is 'mesured' \(did you mean 'measured'\?\)",
        ),
        ("start,g_per_kwh,issued_at\n2026-03-04T08:00Z,1,now\n", "line 2: issued_at is 'now'"),
        ("start;g_per_kwh\n2026-03-04T08:00Z;1\n", r"no column for start .*; it has start;g_per_kwh"),
        ("start,value\n2026-03-04T08:00Z,1\n", r"no column for g_per_kwh \(g_per_kwh, .*; it has start, value"),
        ('start,g_per_kwh\n2026-03-04T08:00Z,"1"x\n', "line 2: .*expected"),
        (b"start,g_per_kwh\n2026-03-04T08:00Z,\xff\n", "line 2: byte 0xff is not UTF-8"),
        ("zone,start,g_per_kwh\nFR,2026-03-04T08:00Z,1\nDE,2026-03-04T08:00Z,1\n", "has the zones DE, FR, not GB"),
    ],
)
def test_a_fault_is_named_by_file_line_and_value(make, content, text):
    """Whoever keeps the file finds the place at once."""
    with pytest.raises(SchemaError, match=text):
        _day(make(content))


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        ('[{"start": "2026-03-04T08:00Z", "g_per_kwh": "x"}]', SchemaError, r"g\.json item 1: g_per_kwh is 'x'"),
        ('[{"start": "2026-03-04T08:00Z", "g_per_kwh": true}]', SchemaError, "item 1: g_per_kwh is True"),
        ('[{"start": "2026-03-04T08:00Z", "g_per_kwh": NaN}]', SchemaError, "item 1: g_per_kwh is nan"),
        ('[{"start": 5, "g_per_kwh": 1}]', SchemaError, "item 1: start is 5"),
        ("[1]", SchemaError, "item 1: 1 is not an object"),
        ('{"rows": []}', SchemaError, "no list of rows"),
        ("7", SchemaError, "no list of rows"),
        ('[{"a": 1},\n {"a" 2}]', SchemaError, r"g\.json line 2 column 7: Expecting ':'"),
        ("[" * 100_000, ProviderError, r"g\.json"),
        ("[" + "9" * 5000 + "]", SchemaError, r"g\.json: "),
        ('[{"start": "2026-03-04T08:00Z", "g_per', Transient, "ends too early; is it being written"),
        ('[{"start": "2026-03-04T08:00Z"},', Transient, "ends too early"),
        ("[]", NoData, "no complete row"),
        ("", NoData, "no complete row"),
    ],
)
def test_a_fault_in_json_is_named_by_item(make, content, error, text):
    """A document cut at its end may be whole a moment later; any other fault is the keeper's."""
    with pytest.raises(error, match=text):
        _day(make(content, "g.json"))


def test_a_fault_in_json_lines_is_named_by_line(make):
    """Only the last line may be incomplete."""
    with pytest.raises(SchemaError, match=r"g\.jsonl line 2: "):
        _day(make('{"start": "2026-03-04T08:00Z", "g_per_kwh": 1}\n{"start"\n{}\n', "g.jsonl"))


def test_a_table_of_many_zones_gives_ours(make):
    """Another zone's number is never taken for ours."""
    table = "zone,start,g_per_kwh\nFR,2026-03-04T08:00Z,50\nGB,2026-03-04T08:00Z,150\nFR,2026-03-04T08:30Z,51\n"
    (point,) = _day(make(table))
    assert (point.g_per_kwh, point.end - point.start) == (150.0, HOUR)


def test_kinds_are_as_the_rows_say(make):
    """Measured, estimated and typical are observed once they have begun; a future measurement is clock skew."""
    rows = [
        "07:00Z,1,measured",
        "08:00Z,2,Estimated",
        "09:00Z,3,typical",
        "10:00Z,4,measured",
        "11:00Z,5,forecast",
        "12:00Z,6,",
    ]
    provider = make("start,g_per_kwh,kind\n" + "".join(f"2026-03-04T{row}\n" for row in rows))
    assert [(point.g_per_kwh, point.kind) for point in _day(provider)] == [
        (1.0, Kind.MEASURED),
        (2.0, Kind.ESTIMATED),
        (3.0, Kind.TYPICAL),
    ]
    assert [(point.g_per_kwh, point.kind) for point in _ahead(provider)] == [(5.0, Kind.FORECAST), (6.0, Kind.FORECAST)]


def test_flags_and_defaults_make_kinds(make):
    """``estimated`` columns count, and option ``kind`` is for rows that say nothing."""
    table = "start,g_per_kwh,estimated\n2026-03-04T07:00Z,1,0\n2026-03-04T08:00Z,2,1\n2026-03-04T09:00Z,3,True\n"
    assert [point.kind for point in _day(make(table))] == [Kind.MEASURED, Kind.ESTIMATED, Kind.ESTIMATED]
    assert _day(make(table, kind="typical"))[0].kind is Kind.TYPICAL
    assert _day(make(table, kind="forecast", column="g_per_kwh"))[0].kind is Kind.ESTIMATED


def test_the_forecast_issued_last_counts_and_none_of_later(make, clock):
    """Three vintages of one hour: what was known at the time is what is given."""
    rows = "".join(
        f"2026-03-04T12:00Z,{value},2026-03-04T{issued}Z\n"
        for issued, value in (("08:00", 1), ("06:00", 2), ("10:00", 3))
    )
    provider = make("start,g_per_kwh,issued_at\n" + rows)
    (point,) = _ahead(provider)
    assert (point.g_per_kwh, point.kind, point.issued_at) == (1.0, Kind.FORECAST, NOW.replace(hour=8, minute=0))
    clock.advance(3600)
    assert [point.g_per_kwh for point in _ahead(provider)] == [3.0]
    assert _day(provider) == ()


@pytest.mark.parametrize(
    ("starts", "options", "minutes"),
    [
        (["08:00"], {}, [60]),
        (["08:00"], {"step_s": 300}, [5]),
        (["08:00", "08:30", "09:00"], {}, [30, 30, 30]),
        (["06:00", "06:30", "08:30", "09:00"], {}, [30, 30, 30, 30]),
        (["07:00", "08:00", "08:15"], {"step_s": 3600}, [60, 15, 60]),
    ],
)
def test_rows_without_an_end_last_a_step(make, starts, options, minutes):
    """The usual distance of rows, or the option; never into the next row, and gaps stay gaps."""
    table = "start,g_per_kwh\n" + "".join(f"2026-03-04T{start}Z,1\n" for start in starts)
    points = _day(make(table, **options))
    assert [(point.end - point.start) / timedelta(minutes=1) for point in points] == minutes


def test_of_duplicate_rows_the_last_wins(make):
    """A feed that appends its corrections is read in order."""
    assert [point.g_per_kwh for point in _day(make("start,g_per_kwh\n2026-03-04T08:00Z,1\n2026-03-04T08:00Z,2\n"))] == [
        2.0
    ]


def test_a_growing_file_is_followed(make, tmp_path):
    """Rows count when their line has ended, not before: 12 might become 123."""
    provider = make(HEADER)
    path = tmp_path / "grid.csv"
    with pytest.raises(NoData):
        _day(provider)
    seen = []
    for piece in ("2026-03-04T08:00Z,2026-03-04T09:00Z,12", "3\n", "2026-03-04T09:00Z,", "2026-03-04T10:00Z,7\n2026"):
        with path.open("a") as stream:
            stream.write(piece)
        try:
            seen.append([point.g_per_kwh for point in _day(provider)])
        except NoData:
            seen.append([])
    assert seen == [[], [123.0], [123.0], [123.0, 7.0]]


def test_a_rewritten_file_is_read_again(make, tmp_path):
    """In place or by renaming, shorter or of the same length: the new rows alone count."""
    provider = make("start,g_per_kwh\n2026-03-04T08:00Z,111\n2026-03-04T09:00Z,112\n")
    path = tmp_path / "grid.csv"
    assert len(_day(provider)) == 2
    path.write_text("start,g_per_kwh\n2026-03-04T08:00Z,222\n")
    assert [point.g_per_kwh for point in _day(provider)] == [222.0]
    other = tmp_path / "new.csv"
    other.write_text("start,g_per_kwh\n2026-03-04T08:00Z,333\n")
    before = path.stat()
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    assert [point.g_per_kwh for point in _day(provider)] == [333.0]


def test_an_unchanged_file_is_not_read_again(make, tmp_path, clock, monkeypatch):
    """Polling every few seconds costs a look at its date; points keep the time at which they were read."""
    provider = make(CSV)
    first = _day(provider)
    monkeypatch.setattr("providers.watched_file.parse", lambda *_: pytest.fail("read again"))
    clock.advance(60)
    assert _day(provider) == first
    assert first[0].fetched_at == NOW


def test_trouble_with_the_file_passes(make, tmp_path):
    """Away, empty, broken, and back: each is told, and the last good content returns by itself."""
    provider = make(CSV)
    path = tmp_path / "grid.csv"
    expected = _day(provider)
    path.unlink()
    with pytest.raises(Transient, match=r"grid\.csv does not exist"):
        _day(provider)
    for content, error in (("", NoData), ("nonsense\n1\n", SchemaError)):
        path.write_text(content)
        for _ in range(2):
            with pytest.raises(error):
                _day(provider)
    path.write_text(CSV)
    assert [point.g_per_kwh for point in _day(provider)] == [point.g_per_kwh for point in expected]


def test_what_is_no_file_is_refused(tmp_path, clock):
    """Directories, pipes and devices are named, and no pipe makes us wait."""
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    for name in (tmp_path / "pipe.csv", tmp_path / "folder.csv", "/dev/zero"):
        provider = FileProvider(zone="GB", options={"path": str(name), "format": "csv"}, now=clock.now)
        with pytest.raises(BadRequest, match=f"{name} is not a regular file"):
            _day(provider)
    with pytest.raises(BadRequest, match="cannot be opened"):
        _day(FileProvider(zone="GB", options={"path": "a\0.csv"}, now=clock.now))


def test_a_path_that_leads_nowhere_is_named(tmp_path, clock):
    """The system's own words say what is wrong with it."""
    (tmp_path / "ring.csv").symlink_to("ring.csv")
    (tmp_path / "plain").touch()
    for name, text in (("ring.csv", "symbolic links"), ("plain/grid.csv", "Not a directory")):
        with pytest.raises(BadRequest, match=f"{name} cannot be opened: .*{text}"):
            _day(FileProvider(zone="GB", options={"path": str(tmp_path / name)}, now=clock.now))


def test_a_huge_file_is_refused(make):
    """Its size is looked at before it is read, and the error says what to change."""
    with pytest.raises(BadRequest, match=r"has 1\d{3} bytes, more than max_bytes = 1000"):
        _day(make(CSV, max_bytes=1000))


def test_half_a_file_is_half_the_truth_and_never_a_lie(make, tmp_path, clock):
    """Cut anywhere, a CSV gives the first of its points, unchanged, or nothing."""
    clock.advance(14 * 3600)
    provider, whole = make(), CSV.encode()[: len(HEADER) + 300]
    for length in range(len(whole)):
        (tmp_path / "grid.csv").write_bytes(whole[:length])
        complete = max(0, whole[:length].count(b"\n") - 1)
        assert _given(provider) == [100.0 + hour for hour in range(complete)]


def test_half_a_json_document_is_no_lie_either(make, tmp_path):
    """Cut anywhere, a JSON document is whole or not there yet: a brace within a text ends nothing."""
    rows = [{"start": f"2026-03-04T{hour:02}:00Z", "g_per_kwh": 100.5 + hour, "by": 'mé}"\u2192'} for hour in range(4)]
    whole = json.dumps({"data": rows, "made": ["by hand"]}, ensure_ascii=False).encode()
    provider = make(name="grid.json")
    for length in range(len(whole)):
        (tmp_path / "grid.json").write_bytes(whole[:length])
        assert _given(provider) == []
    (tmp_path / "grid.json").write_bytes(whole)
    assert _given(provider) == [row["g_per_kwh"] for row in rows]


def _given(provider):
    """The values that are there by now; only what time may mend is an excuse for none."""
    try:
        return [point.g_per_kwh for point in _day(provider)]
    except (NoData, Transient):
        return []
