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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent
REGIONS = ROOT / "config" / "regions"
HOUR = timedelta(hours=1)

# The stamps of this file change their meaning where one hour is missing. Sunrise and sunset in the solar column show
# that they are the START of the hour before this moment and its END after it; read so, the hours join without a gap.
EIA_STAMPS_ARE_ENDS_FROM = datetime(2022, 6, 13, 18, tzinfo=UTC)

# gCO2eq/kWh over the life cycle: medians of IPCC AR5 WG III, Annex III, table A.III.2; it has none for oil and for the
# rest, for which 650 and 230 (its figure for biomass) stand in: together 2 % of what is generated.
FACTORS = {"WND": 11, "SUN": 41, "WAT": 24, "NG": 490, "COL": 820, "NUC": 12, "OIL": 650, "OTH": 230}

Sample = tuple[datetime, float]
Table = list[list[int]]


def data_dir() -> Path:
    return Path(os.environ.get("CHASE_DATA") or ROOT.parent / "shared" / "data")


def electricity_maps(zone: str, column: str, data: Path) -> Iterator[Sample]:
    """Stamps are the start of the hour."""
    for row in _rows(data / "intensity" / f"{zone}_2023_hourly.csv.gz"):
        yield datetime.fromisoformat(row["start_utc"]), float(row[column])


def eia_930_california(data: Path) -> Iterator[Sample]:
    """What California generates, weighted by ``FACTORS``. Hours without data are left out."""
    for row in _rows(data / "intensity" / "CISO_2022_eia930_mix.csv.gz"):
        if all(row[fuel] for fuel in FACTORS):
            stamp = datetime.fromisoformat(row["timestamp"])
            generated = {fuel: float(row[fuel]) for fuel in FACTORS}
            grams = sum(FACTORS[fuel] * megawatts for fuel, megawatts in generated.items())
            yield stamp if stamp < EIA_STAMPS_ARE_ENDS_FROM else stamp - HOUR, grams / sum(generated.values())


def samples(region: str, data: Path) -> Iterator[Sample]:
    if region == "gb":
        return electricity_maps("GB", "direct_gco2_per_kwh", data)
    if region == "de":
        return electricity_maps("DE", "lifecycle_gco2e_per_kwh", data)
    return eia_930_california(data)


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


def regions() -> list[str]:
    return sorted(path.stem for path in REGIONS.glob("*.toml"))


def write(region: str, figures: Table) -> None:
    path = REGIONS / f"{region}.toml"
    path.write_text(re.sub(r"g_per_kwh = \[\n(.*\n)*?\]\n", toml(figures), path.read_text()))


def main(arguments: list[str]) -> int:
    data = data_dir()
    if not (data / "intensity").is_dir():
        print(f"{data}: the data is not here; set CHASE_DATA to its folder", file=sys.stderr)
        return 1
    worst = 0.0
    for region in regions():
        figures = table(samples(region, data))
        if "--write" in arguments:
            write(region, figures)
        difference = largest_difference(figures, shipped(region))
        mean = fmean(value for row in figures for value in row)
        print(f"{region}: 288 figures, mean {mean:.0f} gCO2eq/kWh, shipped ones differ by at most {difference:g}")
        worst = max(worst, difference)
    return 0 if worst == 0 else 1


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
