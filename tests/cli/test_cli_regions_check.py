"""``chase regions check``: a region looked into, offline and with each of its sources asked once."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from chase.cli.checks.finding import State
from chase.cli.checks.sources import INTENSITY, Answer, _intensity
from chase.config import load_region, region_ids
from providers.base import Boundary, IntensityPoint, Kind, Scope, Series, Signal

SECRET = "Hunter2-abcdef"
HOUR = timedelta(hours=1)
REGION = """\
[region]
id = "lab"
name = "Lab"
time_zone = "Europe/Berlin"
signal = "average"
scope = "lifecycle"
currency = "EUR"
"""
CHARTS = '[[sources]]\nprovider = "energy_charts"\nzone = "DE"\n'


@pytest.fixture
def vendor():
    """A loopback vendor: ``answers`` gives status and body by the first part of the path."""

    class Handler(BaseHTTPRequestHandler):
        answers: ClassVar[dict[str, tuple[int, object]]] = {}
        asked: ClassVar[list[str]] = []

        def do_GET(self):
            name = next((key for key in self.answers if self.path.startswith(key)), "")
            status, reply = self.answers.get(name, (404, {"detail": "no content found"}))
            self.asked.append(self.path)
            body = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Nothing on stderr."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Handler.answers, Handler.asked = {}, []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    server.handler = Handler
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def lab(tmp_path):
    """A region file of these sources and prices."""

    def write(*tables: str) -> object:
        path = tmp_path / "lab.toml"
        path.write_text(REGION + "".join(tables))
        return path

    return write


def table(kind: str, provider: str, url: str, more: str = "", zone: str = "DE") -> str:
    return f'[[{kind}]]\nprovider = "{provider}"\nzone = "{zone}"\nbase_url = "{url}"\n{more}\n'


def maps(now: datetime) -> dict[str, object]:
    start = (now - 2 * HOUR).replace(minute=0, second=0, microsecond=0)
    row = {"carbonIntensity": 211, "datetime": start.isoformat(), "isEstimated": True}
    return {"zone": "DE", "history": [row], "temporalGranularity": "hourly"}


@pytest.mark.parametrize("region", ["de", "gb", "at", "dk1"])
def test_a_shipped_region_is_good_offline(run, region):
    """Nobody is asked; a fallback without its token does no harm."""
    result = run("regions", "check", region)
    assert result.exit_code == 0, result.stdout
    assert "not asked" in result.stdout
    assert "ok" not in result.stdout.split()


def test_a_region_that_nobody_can_be_asked_of_ends_with_one(run):
    """Every source lacks its token: the variables are named."""
    result = run("regions", "check", "us-ne-isne")
    assert result.exit_code == 1
    assert "EIA_API_KEY is not set" in result.stdout
    assert "No source of intensity could be asked" in result.stderr
    assert run("regions", "check", "us-ne-isne", env={"EIA_API_KEY": SECRET}).exit_code == 0


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ('[[sources]]\nprovider = "file"\nzone = "x"\noptions = { pth = "a.csv" }\n', "'pth'"),
        (CHARTS + 'options = { scope = "all" }\n', "scope"),
        (CHARTS + '[[prices]]\nprovider = "energy_charts"\nzone = "de"\n', "bidding zone"),
        ('[[sources]]\nprovider = "octopus"\nzone = "GB"\n', "is unknown"),
        ('[[sources]]\nprovider = "watttime"\nzone = "CAISO_NORTH"\n', "never mixed"),
        ("", "has neither [[sources]] nor [typical]"),
    ],
)
def test_a_file_that_cannot_be_used_ends_with_two(run, lab, tables, said):
    """Options that a provider does not take, of intensity and of prices; the JSON form says the same."""
    path = lab(tables)
    result = run("regions", "check", path)
    assert result.exit_code == 2
    assert said in result.stderr
    document = json.loads(run("regions", "check", path, "--json").stdout)
    assert document["ok"] is False
    assert any(said in problem for problem in document["problems"])


def test_each_source_is_asked_once_and_says_value_kind_and_age(run, lab, vendor):
    """Intensity and price, with their units; the token reaches the vendor and nobody else."""
    now = datetime.now(UTC)
    first = now.replace(minute=0, second=0, microsecond=0) - 3 * HOUR
    seconds = [int((first + n * HOUR).timestamp()) for n in range(6)]
    vendor.handler.answers = {
        "/v4/carbon-intensity": (200, maps(now)),
        "/price": (200, {"unix_seconds": seconds, "price": [50, 60, 70, 80, 90, 100], "unit": "EUR/MWh"}),
    }
    path = lab(
        table("sources", "electricity_maps", f"{vendor.url}/v4", 'token_env = "LAB_TOKEN"'),
        table("prices", "energy_charts", vendor.url, zone="DE-LU"),
    )

    result = run("regions", "check", path, "--online", "--json", env={"LAB_TOKEN": SECRET})

    document = json.loads(result.stdout)
    assert (result.exit_code, document["ok"]) == (0, True)
    (source,) = document["sources"]
    assert (source["value"], source["unit"], source["kind"], source["state"]) == (211, "g/kWh", "estimated", "ok")
    assert 0 <= source["age_s"] <= 2 * 3600
    (price,) = document["prices"]
    assert (price["value"], price["unit"], price["kind"], price["age_s"]) == (0.08, "EUR/kWh", "day-ahead", 0)
    assert len([path for path in vendor.handler.asked if path.startswith("/price")]) == 1
    text = run("regions", "check", path, "--online", env={"LAB_TOKEN": SECRET})
    assert "electricity_maps (DE): 211 g/kWh, estimated, " in text.stdout
    assert "energy_charts (DE-LU): 0.0800 EUR/kWh, day-ahead, 0 s old" in text.stdout
    assert SECRET not in result.stdout + result.stderr + text.stdout + text.stderr


@pytest.mark.parametrize(
    ("status", "reply", "problem", "advice"),
    [
        (401, {"error": f"Invalid auth-token {SECRET}"}, "AuthError", "check the token in the variable"),
        (404, {"error": 'No recent data for zone "DE"'}, "NoData", "try again at the next full hour"),
        (400, {"status": "error", "message": "Missing arguments"}, "BadRequest", "check zone, options and base_url"),
        (200, {"zone": "FR", "history": []}, "", ""),
    ],
)
def test_a_source_that_fails_says_what_and_the_fix(run, lab, vendor, *, status, reply, problem, advice):
    """Exit code 1, the kind of the error, what to do; and never the secret, though the vendor repeats it."""
    vendor.handler.answers = {"/v4": (status, reply)}
    path = lab(table("sources", "electricity_maps", f"{vendor.url}/v4", 'token_env = "LAB_TOKEN"'))
    result = run("regions", "check", path, "--online", env={"LAB_TOKEN": SECRET})
    assert result.exit_code == 1
    assert problem in result.stdout
    assert advice in result.stdout
    assert SECRET not in result.stdout + result.stderr


def test_a_source_without_its_token_is_not_asked(run, lab, vendor):
    """It is a fallback then, and nothing goes over the network for it."""
    path = lab(
        table("sources", "energy_charts", vendor.url),
        table("sources", "electricity_maps", f"{vendor.url}/v4", 'token_env = "LAB_TOKEN"'),
    )
    document = json.loads(run("regions", "check", path, "--online", "--json").stdout)
    assert document["sources"][1]["problem"] == "not asked: LAB_TOKEN is not set"
    assert not [asked for asked in vendor.handler.asked if asked.startswith("/v4")]


def test_a_price_in_another_currency_fails(run, lab, vendor):
    """It would be refused by the service too: prices are not converted."""
    seconds = [int(datetime.now(UTC).timestamp()) // 3600 * 3600]
    vendor.handler.answers = {"/price": (200, {"unix_seconds": seconds, "price": [5.0], "unit": "GBP/MWh"})}
    path = lab(
        table("sources", "energy_charts", vendor.url), table("prices", "energy_charts", vendor.url, zone="DE-LU")
    )
    document = json.loads(run("regions", "check", path, "--online", "--json").stdout)
    assert "prices in GBP where the region counts in EUR" in document["prices"][0]["problem"]


def test_a_source_of_another_scope_fails(run, tmp_path):
    """The service would refuse it: a file says in its rows what no option says."""
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - HOUR
    (tmp_path / "grid.csv").write_text(f"start,g_per_kwh\n{start:%Y-%m-%dT%H:%MZ},100\n")
    for scope in ("lifecycle", "direct"):
        region = tmp_path / f"{scope}.toml"
        head = REGION.replace('scope = "lifecycle"', f'scope = "{scope}"')
        options = f'options = {{ path = "{tmp_path}/grid.csv", signal = "average", scope = "{scope}" }}'
        region.write_text(f'{head}[[sources]]\nprovider = "file"\nzone = "lab"\n{options}\n')
        assert run("regions", "check", region, "--online").exit_code == 0
    answer = _intensity(
        _Other(), datetime.now(UTC), load_region(tmp_path / "direct.toml"), Answer(INTENSITY, "x", "lab")
    )
    assert answer.state is State.FAIL
    assert answer.problem == "it gives average lifecycle intensities, and the region is average direct"


class _Other:
    """What a node gives that has gone over to a source of another scope."""

    def observe(self, start, end):
        given = {"zone": "lab", "start": start, "end": end, "g_per_kwh": 5.0, "kind": Kind.MEASURED}
        labels = {"signal": Signal.AVERAGE, "scope": Scope.LIFECYCLE, "boundary": Boundary.UNSPECIFIED}
        return Series.of([IntensityPoint(**given, **labels, source="x", fetched_at=end)])


def test_the_list_says_which_need_no_key(run):
    """In the table and in the document."""
    rows = {row["id"]: row for row in json.loads(run("regions", "list", "--json").stdout)}
    assert set(rows) == set(region_ids())
    assert (rows["de"]["keyless"], rows["us-ne-isne"]["keyless"]) == (True, False)
    assert rows["de"]["prices"][0]["provider"] == "energy_charts"


def test_a_flat_profile_is_shown_as_one(run):
    """One figure and what it means, rather than twelve equal months; prices have their place too."""
    out = run("regions", "show", "fr").stdout
    assert "32 g/kWh at all times: a yearly average, which tells no hour from another" in out
    assert "Jan" not in out
    assert "Prices, in order:" in out
