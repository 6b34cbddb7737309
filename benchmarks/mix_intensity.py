"""A year of EIA-930 generation in California made into intensities, held against the figures that came with it.

    python benchmarks/mix_intensity.py

``CHASE_DATA`` is the folder of the data (default ``../shared/data``). Shown are: the provider ``eia`` asked over HTTP
for the whole year; the factors that the file's own ``avg_CI`` was made with, found by least squares; what is left
between it and ours with the same factors; what our own table makes of the same mix; and whether the hours lie where the
sun says. It fails where an error is larger than stated below.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import fmean
from urllib.parse import parse_qs, urlsplit

import numpy as np

from providers.base import Scope
from providers.eia import Eia
from providers.emission_factors import TABLE, Factors, Fuel
from providers.mix import Generation, intensities
from providers.redact import Secret
from providers.session import Session

ROOT = Path(__file__).resolve().parent.parent
FILE = "intensity/CISO_2022_eia930_mix.csv.gz"
CODES = {
    "WND": Fuel.WIND,
    "SUN": Fuel.SOLAR,
    "WAT": Fuel.HYDRO,
    "OIL": Fuel.OIL,
    "NG": Fuel.GAS,
    "COL": Fuel.COAL,
    "NUC": Fuel.NUCLEAR,
    "OTH": Fuel.OTHER,
}
HOUR = timedelta(hours=1)
STATED_G = 1e-6  # of the same factors, in each hour
STATED_OWN_G = 10.0  # of our own table, in the mean: it takes OTH as thermal plants, the file as biomass
STATED_SUN_H = 0.25
LONGITUDE = -118.5  # between the deserts, where most panels are, and the Central Valley
ONE_MEANING_SINCE = datetime(2022, 6, 14, 8, tzinfo=UTC)  # the stamps jump at a gap on the 13th


@dataclass(frozen=True)
class Row:
    """What the file says of the hour that ended at ``end``; nothing in the three hours without figures."""

    end: datetime
    mw: dict[str, float]
    avg_ci: float | None


def data_dir() -> Path:
    return Path(os.environ.get("CHASE_DATA") or ROOT.parent / "shared" / "data")


def read(path: Path) -> list[Row]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return [
            Row(
                datetime.fromisoformat(row["timestamp"]),
                {code: float(row[code]) for code in CODES if row[code]},
                float(row["avg_CI"]) if row["avg_CI"] else None,
            )
            for row in csv.DictReader(file)
        ]


# Over HTTP


class Api(BaseHTTPRequestHandler):
    """The rows as the EIA sends them: those of a query, in pages."""

    rows: tuple[Row, ...] = ()

    def do_GET(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        first, last, offset = query["start"], query["end"], int(query["offset"])
        found = [cell for row in self.rows if first <= f"{row.end:%Y-%m-%dT%H}" <= last for cell in self.cells(row)]
        page = found[offset : offset + int(query["length"])]
        body = json.dumps({"response": {"total": str(len(found)), "data": page}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def cells(self, row: Row) -> Iterator[dict[str, str]]:
        same = {"period": f"{row.end:%Y-%m-%dT%H}", "respondent": "CISO", "value-units": "megawatthours"}
        return ({**same, "fueltype": code, "value": f"{mw:g}"} for code, mw in row.mw.items())

    def log_message(self, *_: object) -> None:
        """Nothing."""


def over_http(rows: Sequence[Row]) -> dict[datetime, float]:
    """What the provider makes of the year, month by month, by the start of each hour."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Year", (Api,), {"rows": tuple(rows)}))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    session, end = Session(rate_per_s=1e6, burst=1000), rows[-1].end
    url = f"http://127.0.0.1:{server.server_port}"
    given = {"zone": "US-CAL-CISO", "options": {}, "token": Secret("none"), "base_url": url}
    provider = Eia(**given, session=session, now=lambda: end)  # type: ignore[arg-type]
    found: dict[datetime, float] = {}
    start = rows[0].end - HOUR
    while start < end:
        stop = min(start + timedelta(days=30), end)
        found.update((point.start, point.g_per_kwh) for point in provider.observe(start, stop))
        start = stop
    session.close()
    server.shutdown()
    server.server_close()
    return found


# The factors of the file


def factors_of(rows: Sequence[Row]) -> dict[str, float]:
    """Those that explain ``avg_CI`` best as a mean of factors by generation."""
    known = [row for row in rows if row.avg_ci is not None]
    mw = np.array([[row.mw[code] for code in CODES] for row in known])
    found, *_ = np.linalg.lstsq(mw / mw.sum(axis=1, keepdims=True), np.array([row.avg_ci for row in known]), rcond=None)
    return dict(zip(CODES, (round(float(factor), 6) for factor in found), strict=True))


def computed(rows: Sequence[Row], factors: dict[str, float] | None = None) -> dict[datetime, float]:
    """By the start of each hour; with these factors, or with our own table."""
    mixes = [Generation(row.end - HOUR, row.end, {CODES[code]: mw for code, mw in row.mw.items()}) for row in rows]
    given = {"zone": "US-CAL-CISO", "scope": Scope.LIFECYCLE, "source": "eia", "fetched_at": rows[-1].end}
    if factors is not None:
        theirs = Factors("of the file", {CODES[code]: factor for code, factor in factors.items()})
        given["table"] = lambda *_: theirs
    return {point.start: point.g_per_kwh for point in intensities(mixes, **given)}  # type: ignore[arg-type]


# The hours


def middle_of_the_suns_day(rows: Sequence[Row], shift: timedelta) -> float:
    """Hours between the middle of a day's solar generation and noon by the sun, in the mean over the days of ``rows``.

    An hour whose stamp is ``end`` is taken to begin at ``end`` + ``shift``. A perfect answer is a few minutes from 0:
    panels do not all look south.
    """
    days: dict[object, list[tuple[datetime, float]]] = {}
    for row in rows:
        middle = row.end + shift + HOUR / 2
        days.setdefault((middle - timedelta(hours=8)).date(), []).append((middle, row.mw.get("SUN", 0.0)))
    whole = [day for day in days.values() if len(day) == 24 and any(mw for _, mw in day)]
    return fmean(_middle(day) - _solar_noon(day[0][0]) for day in whole)


def _middle(day: Sequence[tuple[datetime, float]]) -> float:
    """In hours of the UTC day on which the first of them lies."""
    midnight = day[0][0].replace(hour=0, minute=0)
    return sum((at - midnight) / HOUR * mw for at, mw in day) / sum(mw for _, mw in day)


def _solar_noon(day: datetime) -> float:
    """UTC hour, by the usual approximation of the equation of time (good to half a minute or so)."""
    angle = 2 * math.pi * (day.timetuple().tm_yday - 81) / 364
    minutes = 9.87 * math.sin(2 * angle) - 7.53 * math.cos(angle) - 1.5 * math.sin(angle)
    return 12 - LONGITUDE / 15 - minutes / 60


def differences(ours: dict[datetime, float], rows: Sequence[Row]) -> list[float]:
    theirs = {row.end - HOUR: row.avg_ci for row in rows}
    return [g - ci for start, g in ours.items() if (ci := theirs[start]) is not None]


def main() -> int:
    path = data_dir() / FILE
    if not path.is_file():
        print(f"{path}: the data is not here; set CHASE_DATA to its folder", file=sys.stderr)
        return 1
    rows = read(path)
    factors = factors_of(rows)
    same = differences(computed(rows, factors), rows)
    own = computed(rows)
    asked = over_http(rows)
    mine = differences(own, rows)
    worst, bias = max(map(abs, same)), fmean(mine)
    http = max(abs(asked.get(start, math.inf) - g) for start, g in own.items()) if len(asked) == len(own) else math.inf
    print(f"hours: {len(rows)}, of which {len(own)} make an intensity; without figures: {len(rows) - len(own)}")
    print("factors of avg_CI:", ", ".join(f"{code} {factor:g}" for code, factor in factors.items()))
    print("our table:        ", ", ".join(f"{code} {TABLE[fuel].lifecycle:g}" for code, fuel in CODES.items()))
    print(f"same factors: largest difference {worst:.1e} g/kWh (stated: {STATED_G:g})")
    print(f"our table: {bias:+.1f} g/kWh in the mean, {fmean(map(abs, mine)):.1f} absolute (stated: {STATED_OWN_G:g})")
    print(f"provider over HTTP: {len(asked)} hours, largest difference from the above {http:.1e} g/kWh")
    sun = _say_of_the_sun(rows)
    return 0 if worst <= STATED_G and abs(bias) <= STATED_OWN_G and http <= STATED_G and abs(sun) <= STATED_SUN_H else 1


def _say_of_the_sun(rows: Sequence[Row]) -> float:
    """Of the time in which the stamps mean one thing, with the hour ending at its stamp."""
    halves = {
        "to 2022-06-13": [row for row in rows if row.end < ONE_MEANING_SINCE],
        "from 2022-06-14": [row for row in rows if row.end >= ONE_MEANING_SINCE],
    }
    for name, half in halves.items():
        ending, starting = (60 * middle_of_the_suns_day(half, shift) for shift in (-HOUR, timedelta(0)))
        print(
            f"{name}: the sun's day lies {ending:+.0f} min from noon if stamps end hours, {starting:+.0f} if they begin"
        )
    return middle_of_the_suns_day(halves["from 2022-06-14"], -HOUR)


if __name__ == "__main__":
    sys.exit(main())
