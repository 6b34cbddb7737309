"""What a poller of a live API saw, replayed as that API: is anything decided or booked on a value that is not right?

    python benchmarks/polled_replay.py [--zones FR PL SE] [--days 0] [--first-words 0.4]

An HTTP server on loopback answers as Electricity Maps does (the last 24 rows; no forecast in this plan) with what the
log says was known at each moment: hours that come late or never, and a newest hour that goes back. The log has one
value of each hour, so of the share ``--first-words`` of the hours the server first says something else (up to 15 % off,
by the hour's own dice), and the logged value 1 to 26 hours later; measured shares are 14 to 68 % (0: the bare log).
The real provider, session, signal, database, controller and prices run against it on a clock that is moved by hand, in
steps of ten minutes. ``CHASE_DATA`` is the folder of the data (default ``../shared/data``).

Exit status 1 if any decision was taken on an expired value or on one older than the one before, if a revision was not
kept, or if energy is not priced at the newest value.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import random
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from chase.clock import ManualClock
from chase.config import RegionConfig, load, profile_path
from chase.controller import Controller
from chase.events import EventLog
from chase.jobs import Peer, Registration
from chase.outlook import FALLBACK, FRESH
from chase.recall import best_known
from chase.repricing import reprice_recent
from chase.signal import GridSignal, Limits
from chase.store import Store
from providers import registry
from providers.base import Kind, Scope, Signal
from providers.session import Session
from zeus_core.gpus.simulated import SimulatedSystem, load_profile

ROOT = Path(__file__).resolve().parent.parent
ZONES = ("FR", "PL", "SE")
HOUR = timedelta(hours=1)
STEP_S = 600.0
REPRICE_S = 6 * 3600.0  # the service does it hourly
ROWS = 24  # of history in one answer
OWNER = Peer(1000, 4321)
PUE = 1.2


@dataclass(frozen=True)
class Row:
    """An hour, its value as last read, and when that was: afterwards the API said another hour was its newest."""

    start: datetime
    g_per_kwh: float
    polled_at: datetime


@dataclass
class Api:
    """What the API says at each moment. ``said`` are the values of each hour in the order in which they were given."""

    zone: str
    rows: Sequence[Row]
    clock: ManualClock
    first_words: float = 0.0
    said: dict[datetime, list[float]] = field(default_factory=dict)
    newest: list[datetime] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = sorted(self.rows, key=lambda row: row.polled_at)

    @cached_property
    def _times(self) -> list[datetime]:
        return [row.polled_at for row in self.rows]

    def history(self) -> dict[str, object]:
        now = self.clock.now()
        known = self.rows[: bisect_right(self._times, now)]
        newest = known[-1].start
        self.newest.append(newest)
        # An hour is read late where another one had been the newest; with the log alone it is not known until then.
        shown = [row for row in known[-3 * ROWS :] if newest - ROWS * HOUR < row.start <= newest]
        return {
            "zone": self.zone,
            "history": [self._row(row, now) for row in sorted(shown, key=lambda row: row.start)],
            "temporalGranularity": "hourly",
        }

    def _row(self, row: Row, now: datetime) -> dict[str, object]:
        value = self._value(row, now)
        before = self.said.setdefault(row.start, [])
        if before[-1:] != [value]:
            before.append(value)
        stamp = f"{row.start:%Y-%m-%dT%H:%M:%S.000Z}"
        return {"zone": self.zone, "datetime": stamp, "carbonIntensity": value, "isEstimated": value != row.g_per_kwh}

    def _value(self, row: Row, now: datetime) -> float:
        dice = random.Random(f"{self.zone} {row.start}")
        if dice.random() >= self.first_words or now >= row.polled_at + dice.uniform(1, 26) * HOUR:
            return row.g_per_kwh
        return float(round(row.g_per_kwh * dice.uniform(0.85, 1.15)))


@contextmanager
def served(api: Api) -> Iterator[str]:
    """The address of a server that answers for ``api``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one packet, or each answer waits 40 ms for an acknowledgement

        def do_GET(self) -> None:
            if urlsplit(self.path).path.endswith("/history"):
                self._answer(200, api.history())
            else:
                text = "Request unauthorized for zoneKey: You do not have access to this endpoint"
                self._answer(401, {"error": text})

        def _answer(self, status: int, document: object) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads a line for each of a hundred thousand requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Counts:
    """What came out of one zone. The last five must be 0, and ``wrong`` says how so if not."""

    zone: str
    answers: int = 0
    answers_back: int = 0  # their newest hour was before that of the answer before
    hours: int = 0
    revisions: int = 0
    vintages: int = 0
    held: int = 0
    ticks: Counter[str] = field(default_factory=Counter)
    decisions: int = 0
    intervals: int = 0
    repriced: int = 0
    expired: int = 0
    called_fresh: int = 0
    steps_back: int = 0
    lost: int = 0
    mispriced: int = 0

    @property
    def wrong(self) -> int:
        return self.expired + self.called_fresh + self.steps_back + self.lost + self.mispriced


class Replay:
    """One zone: a job on two simulated GPUs, whose controller only observes."""

    def __init__(self, api: Api, url: str, folder: Path, stack: ExitStack) -> None:
        self.api, self.clock, self.counts = api, api.clock, Counts(api.zone)
        self.limits = Limits()
        session = Session(
            monotonic=self.clock.monotonic, now=self.clock.now, sleep=self.clock.advance, rate_per_s=1e3, burst=1000
        )
        stack.callback(session.close)
        source = registry.create(
            "electricity_maps",
            zone=api.zone,
            options={},
            token="replay",
            base_url=url,
            session=session,
            now=self.clock.now,
        )
        self.store = Store(folder / f"{api.zone}.sqlite", clock=self.clock)
        stack.callback(self.store.close, 60.0)
        self.signal = GridSignal(
            "replay",
            [source],
            clock=self.clock,
            limits=self.limits,
            store=self.store,
            wants=(Signal.AVERAGE, Scope.LIFECYCLE),
            on_event=self._event,
        )
        self.controller = self._controller(folder)
        stack.callback(self.controller.close)
        self._gone_by: datetime | None = None

    def _controller(self, folder: Path) -> Controller:
        config = load(region="gb", overrides={"service.state_dir": folder, "service.run_dir": folder}, env={}).config
        region = RegionConfig(
            id="replay",
            name="Replay",
            time_zone="UTC",
            signal="average",
            scope="lifecycle",
            currency="EUR",
            sources=(),
            pue=PUE,
        )
        system = SimulatedSystem(load_profile(profile_path("a40-resnet50")), 2, monotonic=self.clock.monotonic)
        controller = Controller(
            config=config,
            system=system,
            actuator=None,
            regions={"replay": region},
            signals={"replay": self.signal},
            store=self.store,
            clock=self.clock,
            events=EventLog(_Nowhere(), self.clock),
            observe_reason="a replay",
        )
        self.gpus = system.gpus()
        uuids = tuple(gpu.uuid for gpu in self.gpus)
        self.job = controller.register(
            Registration(id="a" * 16, name="train", gpus=uuids, profile="a40-resnet50"), OWNER
        )
        for gpu in self.gpus:
            gpu.occupy(OWNER.pid, OWNER.uid)
        return controller

    def run(self, until: datetime) -> Counts:
        steps, units = 0, 0.0
        while self.clock.now() < until:
            units += sum(gpu.rate() for gpu in self.gpus) * STEP_S
            self.controller.report(self.job.id, OWNER, units)
            self.signal.poll()
            self.controller.tick()
            self._look()
            steps += 1
            if steps * STEP_S % REPRICE_S == 0:
                self._reprice()
            self.clock.advance(STEP_S)
        self.store.flush(60.0)
        self._reprice()
        self.store.flush(60.0)
        self._check_vintages()
        self._check_prices()
        return self.counts

    def _look(self) -> None:
        """What the decision just taken went by."""
        outlook, counts, limits = self.signal.outlook(), self.counts, self.limits
        now = outlook.now
        counts.ticks[outlook.freshness if now else "nothing"] += 1
        if now is None or now.kind not in {Kind.MEASURED, Kind.ESTIMATED}:
            return
        age_s = max(0.0, (self.clock.now() - now.end).total_seconds())
        counts.expired += age_s > limits.usable_s or outlook.freshness == FALLBACK
        counts.called_fresh += outlook.freshness == FRESH and age_s > limits.fresh_s
        counts.steps_back += self._gone_by is not None and now.end < self._gone_by
        self._gone_by = now.end

    def _reprice(self) -> None:
        now = self.clock.now()
        since = now - timedelta(hours=72)
        series = best_known(self.signal, self.store, since, now)
        self.counts.repriced += reprice_recent(self.store, series, pue=PUE, region="replay", since=since)

    def _check_vintages(self) -> None:
        """Each value that was said of each hour is there, in the order in which it was said."""
        kept: dict[datetime, list[float]] = {}
        for point in self.store.vintages(self.api.zone, "electricity_maps"):
            kept.setdefault(point.start, []).append(point.g_per_kwh)
        counts, said = self.counts, self.api.said
        counts.answers, counts.hours = len(self.api.newest), len(said)
        counts.answers_back = sum(b < a for a, b in zip(self.api.newest, self.api.newest[1:], strict=False))
        counts.revisions = sum(len(values) - 1 for values in said.values())
        counts.vintages = sum(map(len, kept.values()))
        counts.lost = sum(kept.get(start) != values for start, values in said.items())
        counts.decisions = self.store.decision_count(self.job.id)

    def _check_prices(self) -> None:
        """Each interval against the last that was said of the hours it lies in, where something was said of all."""
        last = {start: values[-1] for start, values in self.api.said.items()}
        for row in self.store.intervals(job=self.job.id):
            hours = [row.start.replace(minute=0, second=0, microsecond=0) + n * HOUR for n in range(3)]
            parts = [(_overlap_s(row.start, row.end, hour), last.get(hour)) for hour in hours]
            parts = [(seconds, value) for seconds, value in parts if seconds > 0]
            self.counts.intervals += 1
            if all(value is not None for _, value in parts):
                mean = sum(seconds * (value or 0.0) for seconds, value in parts) / sum(s for s, _ in parts)
                grams = row.energy_j * PUE * mean / 3.6e6
                self.counts.mispriced += row.grams is None or abs(row.grams - grams) > 1e-6 * max(1.0, grams)

    def _event(self, code: str, _severity: str, _text: str, **_: object) -> None:
        self.counts.held += code == "outlier-held"


class _Nowhere:
    def add_event(self, event: object) -> None:
        """A replay's events are its counts."""


def _overlap_s(start: datetime, end: datetime, hour: datetime) -> float:
    return (min(end, hour + HOUR) - max(start, hour)).total_seconds()


def replay(zone: str, rows: Iterable[Row], folder: Path, *, days: float = 0.0, first_words: float = 0.4) -> Counts:
    """Replay the first ``days`` (0: all) of a log."""
    rows = sorted(rows, key=lambda row: row.polled_at)
    began = rows[0].polled_at
    until = began + timedelta(days=days) if days else rows[-1].polled_at + 2 * HOUR
    api = Api(zone, rows, ManualClock(began), first_words)
    with served(api) as url, ExitStack() as stack:
        return Replay(api, url, folder, stack).run(until)


def data_dir() -> Path:
    return Path(os.environ.get("CHASE_DATA") or ROOT.parent / "shared" / "data")


def log_of(zone: str, data: Path) -> list[Row]:
    found = sorted((data / "intensity").glob(f"{zone}_*_polled.csv.gz"))
    if not found:
        raise SystemExit(
            f"there is no polled log of {zone} in {data / 'intensity'}: set CHASE_DATA to the data's folder"
        )
    with gzip.open(found[0], "rt", encoding="utf-8", newline="") as file:
        return [
            Row(
                datetime.fromisoformat(row["start_utc"]),
                float(row["gco2e_per_kwh"]),
                datetime.fromisoformat(row["last_polled_utc"]),
            )
            for row in csv.DictReader(file)
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--zones", nargs="+", default=list(ZONES))
    parser.add_argument("--days", type=float, default=0.0, help="only the first so many; 0 is all")
    parser.add_argument("--first-words", type=float, default=0.4, help="share of the hours that are revised")
    asked = parser.parse_args()
    wrong = 0
    for zone in asked.zones:
        rows, began = log_of(zone, data_dir()), time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            counts = replay(zone, rows, Path(folder), days=asked.days, first_words=asked.first_words)
        wrong += counts.wrong
        print(report(counts, time.perf_counter() - began), flush=True)
    return 1 if wrong else 0


def report(counts: Counts, took_s: float) -> str:
    ticks = ", ".join(f"{counts.ticks[name]} {name}" for name in ("fresh", "stale", "fallback", "nothing"))
    return f"""{counts.zone}  ({took_s:.0f} s)
  answers               {counts.answers}, {counts.answers_back} of them with a newest hour before the last answer's
  hours said            {counts.hours}, revised {counts.revisions} times; {counts.vintages} vintages kept
  held back             {counts.held}
  ticks                 {ticks}; {counts.decisions} decisions recorded
  intervals             {counts.intervals}, priced anew {counts.repriced} times
  on an expired value   {counts.expired}
  old and called fresh  {counts.called_fresh}
  steps back in time    {counts.steps_back}
  hours with a revision lost or out of order  {counts.lost}
  intervals not at the newest value           {counts.mispriced}"""


if __name__ == "__main__":
    sys.exit(main())
