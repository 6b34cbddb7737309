"""Two real services: the first reads a file and shares, the second has the first as its source."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from share_bench import Caller, until

from chase.build import stored_as
from chase.config import load, load_region
from chase.errors import ChaseError
from chase.store import Reader
from chase.unixhttp import request
from providers.base import AuthError, Kind
from providers.chase_node import ChaseNode
from providers.redact import Secret
from providers.session import Session

ROOT = Path(__file__).parents[2]
TOKEN = "fleet-token-0123456789abcdef"
hour = timedelta(hours=1)

REGION = """
[region]
id = "{name}"
name = "A grid of files"
time_zone = "UTC"
signal = "average"
scope = "direct"
currency = "EUR"
[[sources]]
{source}
"""
SERVICE = """
[service]
region = "{folder}/region.toml"
state_dir = "{folder}/state"
run_dir = "{folder}/run"
[control]
gpus = "simulated"
[simulated]
count = 1
{more}
"""
FILE = 'provider = "file"\nzone = "XX"\noptions = {{ path = "{trace}", scope = "direct" }}'
NODE = (
    'provider = "chase"\nzone = "XX"\nbase_url = "{url}"\ntoken_env = "FLEET_TOKEN"\noptions = {{ region = "first" }}'
)
SHARE = '[share]\nlisten = "127.0.0.1:0"\ntoken_env = "FLEET_TOKEN"'


class Service:
    """``chase serve`` in ``folder``."""

    def __init__(self, folder: Path, source: str, more: str = "", token: str = TOKEN) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "region.toml").write_text(REGION.format(name=folder.name, source=source))
        (folder / "chase.toml").write_text(SERVICE.format(folder=folder, more=more))
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(folder), "FLEET_TOKEN": token}
        argv = [sys.executable, "-m", "chase", "serve", "--config", str(folder / "chase.toml")]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(argv, env={**env, "CHASE_LOG__LEVEL": "debug"}, stdout=log, stderr=log)

    def grid(self) -> dict[str, object]:
        """What its status says of the region, once there is a value."""
        return until(self._grid, f"{self.folder.name} knows its grid: {self.said()}", within_s=20)

    def _grid(self) -> dict[str, object]:
        try:
            status = request(self.folder / "run/chase.sock", "GET", "/v1/status")
        except ChaseError:
            return {}
        found = status["signal"][self.folder.name]
        return found if found["g_per_kwh"] is not None else {}

    @property
    def url(self) -> str:
        """Where it shares, as its log tells."""
        self.grid()
        with Reader(self.folder / "state/chase.sqlite") as log:
            (event,) = log.events(code="sharing")
        return event.message.rpartition(" ")[2]

    def said(self) -> str:
        return (self.folder / "log").read_text()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


@pytest.fixture
def first(place: Path) -> Iterator[Service]:
    """It reads a file of three hours before and four ahead, and shares what it reads."""
    trace, now = place / "trace.csv", datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    values = {now + i * hour: 100 if i < 2 else 200 + i for i in range(-3, 5)}  # the same should the hour end meanwhile
    rows = [f"{at.isoformat()},{(at + hour).isoformat()},{grams}\n" for at, grams in values.items()]
    trace.write_text("".join(["start,end,g_per_kwh\n", *rows]))
    service = Service(place / "first", FILE.format(trace=trace), SHARE)
    yield service
    service.stop()


def node(url: str, token: str, session: Session) -> ChaseNode:
    return ChaseNode(
        zone="XX",
        options={"region": "first"},
        token=Secret(token),
        base_url=url,
        session=session,
        now=lambda: datetime.now(UTC),
    )


def test_a_fleet_asks_one_node(first, place, caplog):
    """Another process reads it through a session: values, tag, refusal; a second service goes by it. No log has the
    token.
    """
    session = Session(attempts=1)
    statuses: list[int] = []
    ask = session.get

    def counted(*given, **more):
        reply = ask(*given, **more)
        statuses.append(reply.status)
        return reply

    session.get = counted
    now = datetime.now(UTC)
    with caplog.at_level(logging.DEBUG):
        good = node(first.url, TOKEN, session)
        observed = good.observe(now - 72 * hour, now)
        assert good.observe(now - 72 * hour, now).points[-1].g_per_kwh == observed.points[-1].g_per_kwh == 100.0
        assert statuses == [200, 304]
        assert (observed.points[-1].kind, observed.points[-1].method) == (Kind.MEASURED, "file XX")
        assert [point.g_per_kwh for point in good.forecast(now, now + 48 * hour)][-2:] == [203.0, 204.0]
        with pytest.raises(AuthError):
            node(first.url, "another-token-of-somebody", session).observe(now - hour, now)
    session.close()
    assert Caller(first.url).intensity("first").status == 401

    second = Service(place / "second", NODE.format(url=first.url))
    try:
        found = second.grid()
        assert (found["g_per_kwh"], found["source"], found["freshness"]) == (100.0, "chase_node", "fresh")
    finally:
        second.stop()
    with Reader(second.folder / "state/chase.sqlite") as log:
        assert [point.g_per_kwh for point in log.points("XX", "chase_node")][-1] == 100.0
    kept = b"".join(path.read_bytes() for path in place.rglob("chase.sqlite*"))
    assert TOKEN.encode() not in kept
    assert TOKEN not in f"{first.said()}{second.said()}{caplog.text}"
    assert "Traceback" not in f"{first.said()}{second.said()}"


def test_a_service_that_cannot_share_as_told_says_why(place):
    """A token that is too short ends it with status 2, for which a service manager does not start it again."""
    service = Service(place / "first", FILE.format(trace=place / "none.csv"), SHARE, token="short-secret")
    assert service.process.wait(30) == 2
    assert "share.token_env: FLEET_TOKEN holds no token of at least 16" in service.said()
    assert "short-secret" not in service.said()
    assert "Traceback" not in service.said()


def test_the_page_shows_a_configuration_that_loads(place):
    """The example of [share] is a service file as it stands."""
    page = (ROOT / "docs/sources/chase.md").read_text()
    (text,) = [
        part.partition("```")[0] for part in page.split("```toml\n")[1:] if "[share]" in part.partition("```")[0]
    ]
    (place / "chase.toml").write_text(text)
    share = load(service_file=place / "chase.toml", env={"HOME": "/"}).config.share
    assert (share.listen, share.token_env) == ("10.0.0.5:8420", "CHASE_SHARE_TOKEN")


def test_what_came_through_another_node_is_found_by_its_name(tmp_path):
    """In a file the provider is chase, and its points are of chase_node: history and scores look for those."""
    region = tmp_path / "hall.toml"
    region.write_text(
        '[region]\nid = "hall"\nname = "Hall"\ntime_zone = "UTC"\nsignal = "average"\nscope = "direct"\n'
        'currency = "EUR"\n'
        '[[sources]]\nprovider = "chase"\nzone = "XX"\nbase_url = "http://127.0.0.1:9"\n'
        '[[sources]]\nprovider = "neso"\nzone = "GB"\n'
    )
    assert stored_as(load_region(region)) == [("XX", "chase_node"), ("GB", "neso")]
