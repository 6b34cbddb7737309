"""The typical profiles of ``config/regions``, computed again from a year of hourly data.

    python benchmarks/typical_profiles.py            compare what is shipped with the data
    python benchmarks/typical_profiles.py --write    put the figures into the region files

``CHASE_DATA`` is the folder of the data (default ``../shared/data``). Each figure is the mean over the days of one
month of the intensity in one UTC hour, in gCO2eq/kWh, rounded to whole grams.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent
REGIONS = ROOT / "config" / "regions"

# Zone and column of each region that has hourly figures. The others have one yearly figure, which is not computed here.
# For California there is EIA-930 data of 2022 in the public domain, which is not used: by its stamps the sun rises and
# sets half an hour earlier up to 2022-06-13 than afterwards, so they do not mean one thing, and it counts no imports,
# while the live source does.
_LIFECYCLE, _DIRECT = "lifecycle_gco2e_per_kwh", "direct_gco2_per_kwh"
SOURCES = {
    "au-nsw": ("AU-NSW", _DIRECT),
    "au-vic": ("AU-VIC", _DIRECT),
    "br-cs": ("BR-CS", _LIFECYCLE),
    "ca-on": ("CA-ON", _LIFECYCLE),
    "cl-sen": ("CL-SEN", _LIFECYCLE),
    "de": ("DE", _LIFECYCLE),
    "es": ("ES", _LIFECYCLE),
    "gb": ("GB", _DIRECT),
    "no": ("NO", _LIFECYCLE),
    "us-cal-ciso": ("US-CAL-CISO", _DIRECT),
    "us-mida-pjm": ("US-MIDA-PJM", _LIFECYCLE),
    "us-ny-nyis": ("US-NY-NYIS", _LIFECYCLE),
    "us-tex-erco": ("US-TEX-ERCO", _LIFECYCLE),
    "za": ("ZA", _LIFECYCLE),
}

Sample = tuple[datetime, float]
Table = list[list[int]]


def data_dir() -> Path:
    return Path(os.environ.get("CHASE_DATA") or ROOT.parent / "shared" / "data")


def samples(region: str, data: Path) -> Iterator[Sample]:
    """Hours of 2023 by their start, from the data sets of Electricity Maps."""
    zone, column = SOURCES[region]
    with gzip.open(data / "intensity" / f"{zone}_2023_hourly.csv.gz", "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield datetime.fromisoformat(row["start_utc"]), float(row[column])


def table(found: Iterator[Sample]) -> Table:
    """12 months of 24 UTC hours."""
    cells: dict[tuple[int, int], list[float]] = defaultdict(list)
    for start, g_per_kwh in found:
        cells[start.month, start.hour].append(g_per_kwh)
    return [[round(fmean(cells[month, hour])) for hour in range(24)] for month in range(1, 13)]


def shipped(region: str) -> Table:
    text = (REGIONS / f"{region}.toml").read_text()
    return tomllib.loads(text)["typical"]["g_per_kwh"]  # type: ignore[no-any-return]


def largest_difference(ours: Table, theirs: Table) -> float:
    return max(abs(a - b) for row, other in zip(ours, theirs, strict=True) for a, b in zip(row, other, strict=True))


def toml(figures: Table) -> str:
    return "g_per_kwh = [\n" + "".join(f"  [{', '.join(map(str, row))}],\n" for row in figures) + "]\n"


def write(region: str, figures: Table) -> None:
    path = REGIONS / f"{region}.toml"
    path.write_text(re.sub(r"g_per_kwh = \[\n(.*\n)*?\]\n", toml(figures), path.read_text()))


def main(arguments: list[str]) -> int:
    data = data_dir()
    if not (data / "intensity").is_dir():
        print(f"{data}: the data is not here; set CHASE_DATA to its folder", file=sys.stderr)
        return 1
    worst = 0.0
    for region in SOURCES:
        figures = table(samples(region, data))
        if "--write" in arguments:
            write(region, figures)
        difference = largest_difference(figures, shipped(region))
        mean = fmean(value for row in figures for value in row)
        print(f"{region}: 288 figures, mean {mean:.0f} gCO2eq/kWh, shipped ones differ by at most {difference:g}")
        worst = max(worst, difference)
    return 0 if worst == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
