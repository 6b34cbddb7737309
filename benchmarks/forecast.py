"""How good our forecast is, beside the simple ones, the Chase paper's and statsforecast's, from one run.

    python benchmarks/forecast.py [--grids DE,GB] [--every 29] [--peers DE,GB]

Hourly intensity of 2023 in CHASE_DATA (default ../shared/data). At each hour (or each ``--every``-th) every forecaster
is given the 28 days up to then and asked for 1, 6, 24, 48 and 96 hours ahead; judged are the hours from March 1 on. The
simple ones and the paper's have no quantiles of their own: they are given those of their own errors of the 28 days
before. The paper's needs scikit-learn; statsforecast is asked on ``--peers`` at each 97th hour, where it is installed.
A whole run takes half an hour and exits with 1 if a claim fails.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import os
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from chase.forecast import named
from chase.forecast.model import Model
from chase.forecast.score import Past, forecasts, losses
from chase.forecast.svr import HistoryFit
from chase.forecast.window import WINDOW_H, Floats, Ints, Window

LEADS_H = (1, 6, 24, 48, 96)
YEAR, MARCH = datetime(2023, 1, 1, tzinfo=UTC), 59 * 24
OURS = "chase"
SMALL = (*named.SIMPLE, "svr")
NAIVE = named.SIMPLE
SWINGING = ("DE", "GB", "ES", "US-CAL-CISO")
PEERS_EVERY = 97
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Result:
    """Of one forecaster on one grid at one lead; mape and coverage are shares."""

    mae: float
    mape: float
    pinball: float
    coverage: float


Results = dict[tuple[str, str, int], Result]  # grid, forecaster, lead


def data_dir() -> Path:
    return Path(os.environ.get("CHASE_DATA") or ROOT.parent / "shared" / "data")


def grids(data: Path) -> list[str]:
    return sorted(path.name.removesuffix("_2023_hourly.csv.gz") for path in data.glob("intensity/*_2023_hourly.csv.gz"))


def past_of(data: Path, grid: str) -> Past:
    with gzip.open(data / "intensity" / f"{grid}_2023_hourly.csv.gz", "rt", encoding="utf-8", newline="") as file:
        x = np.array([float(row["lifecycle_gco2e_per_kwh"]) for row in csv.DictReader(file)])
    return Past(x, np.ones(len(x), bool), int(YEAR.timestamp()) // 3600)


def measure(data: Path, grid: str, every: int, names: Sequence[str]) -> Iterator[tuple[tuple[str, str, int], Result]]:
    """Origins before March serve the leads that end in it, and the others' errors of the 28 days before."""
    past, k = past_of(data, grid), np.array(LEADS_H)
    o = np.arange(MARCH - LEADS_H[-1], len(past.x) - 1, every)
    earlier = np.arange(o[0] - every * (-(-(WINDOW_H + LEADS_H[-1]) // every)), o[0], every)
    for name in names:
        own = name == OURS
        f = forecasts(past, named.ALL[name], o if own else np.concatenate([earlier, o]), k)
        for j, lead_h in enumerate(LEADS_H):
            z = past.came(o, k)[:, j]
            fj = f[:, :, j] if own else from_errors(past, np.concatenate([earlier, o]), f[:, 0, j], lead_h, every)
            judged = np.isfinite(z) & (o + lead_h >= MARCH)
            yield (grid, name, lead_h), result(fj[-len(o) :][judged], z[judged])


def from_errors(past: Past, o: Ints, middle: Floats, lead_h: int, every: int) -> Floats:
    """(r, 3): with the quantiles of those errors of the 28 days before that were known at each origin."""
    error = past.came(o, np.array([lead_h]))[:, 0] - middle
    length, delay = WINDOW_H // every, -(-lead_h // every)
    q = np.full((2, len(o)), np.nan)
    ended = sliding_window_view(error, length)[: len(o) - delay - length + 1]
    q[:, length - 1 + delay :] = np.quantile(ended, [0.1, 0.9], axis=1)
    return np.stack([middle, middle + np.minimum(q[0], 0), middle + np.maximum(q[1], 0)], axis=1)


def result(f: Floats, z: Floats) -> Result:
    error = np.abs(f[:, 0] - z)
    inside = (f[:, 1] <= z) & (z <= f[:, 2])
    return Result(float(error.mean()), float((error / z).mean()), float(losses(f, z).mean()), float(inside.mean()))


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def print_leads(results: Results, chosen: Sequence[str], names: Sequence[str]) -> None:
    print("\nMean over the grids; MAE and pinball loss as shares of ours (over 1: worse than ours)")
    print(f"{'lead':>5}  {'forecaster':12} {'MAE':>6} {'MAPE':>8} {'pinball':>8} {'in 80 %':>8}")
    for lead_h in LEADS_H:
        for name in names:
            rows = [(results[grid, name, lead_h], results[grid, OURS, lead_h]) for grid in chosen]
            mae, loss = mean(r.mae / ours.mae for r, ours in rows), mean(r.pinball / ours.pinball for r, ours in rows)
            mape, inside = mean(r.mape for r, _ in rows), mean(r.coverage for r, _ in rows)
            print(f"{lead_h:>3} h  {name:12} {mae:6.3f} {mape:8.2%} {loss:8.3f} {inside:8.1%}")


def print_grids(results: Results, chosen: Sequence[str], small: Sequence[str]) -> None:
    print("\nOur MAE as a share of the best small one's / of persistence's, and hours inside the 80 % interval")
    print(f"{'grid':13}" + "".join(f"{f'{lead_h} h':>21}" for lead_h in LEADS_H))
    for grid in chosen:
        cells = []
        for lead_h in LEADS_H:
            ours = results[grid, OURS, lead_h]
            best = min(results[grid, name, lead_h].mae for name in small)
            share = ours.mae / results[grid, "persistence", lead_h].mae
            cells.append(f"{ours.mae / best:8.3f} {share:5.2f} {ours.coverage:6.1%}")
        print(f"{grid:13}" + "".join(cells))


Claim = tuple[str, bool, str]


def claims(results: Results, chosen: Sequence[str], small: Sequence[str]) -> Iterator[Claim]:
    ours = {(grid, lead_h): results[grid, OURS, lead_h] for grid in chosen for lead_h in LEADS_H}

    def share(grid: str, lead_h: int, names: Sequence[str]) -> float:
        return ours[grid, lead_h].mae / min(results[grid, name, lead_h].mae for name in names)

    worst = max((share(grid, lead_h, small), grid, lead_h) for grid, lead_h in ours)
    text = f"worst {worst[0]:.3f}, {worst[1]} at {worst[2]} h (of {len(ours)} cases)"
    yield "ours is the best small one or within 2 % of it on every grid and lead", worst[0] <= 1.02, text
    swinging = [grid for grid in SWINGING if grid in chosen]
    for lead_h, least in ((1, 0.25), (6, 0.30)) if swinging else ():
        saved = {grid: 1 - share(grid, lead_h, ("persistence",)) for grid in swinging}
        text = ", ".join(f"{grid} {part:.1%}" for grid, part in saved.items())
        fine = all(part >= least for part in saved.values())
        yield f"at {lead_h} h at least {least:.0%} under persistence on each of {', '.join(swinging)}", fine, text
    far = mean(1 - share(grid, lead_h, NAIVE) for grid, lead_h in ours if lead_h >= 24)
    yield "from 24 h on at least 5 % under the best naive one on average", far >= 0.05, f"{far:.1%}"
    overall = mean(r.coverage for r in ours.values())
    by_lead = [mean(ours[grid, lead_h].coverage for grid in chosen) for lead_h in LEADS_H]
    fine = all(0.76 <= inside <= 0.84 for inside in (overall, *by_lead))
    within = sum(0.76 <= r.coverage <= 0.84 for r in ours.values())
    text = f"overall {overall:.1%}; by lead {', '.join(f'{inside:.1%}' for inside in by_lead)}; "
    yield "80 % intervals hold 76 to 84 % of hours", fine, f"{text}so do {within} of {len(ours)} grids and leads alone"


def trace(data: Path) -> Path:
    return data / "chase_iclr23" / "miso_2022-10.csv"


def paper_claims(data: Path) -> Iterator[Claim]:
    """Papers' figures: the run's forecast curve begins 613.451, 611.658, 609.897 g; rows 60 to 154 of 0 to 166."""
    with trace(data).open(encoding="utf-8", newline="") as file:
        x = np.array([float(row["hist"]) for row in csv.DictReader(file)])
    before, z = x[59:154], x[60:155]
    f = HistoryFit.on(x[11:60]).next(np.arange(48, 48 + len(z)), before)
    svr, stays = mean(np.abs(f - z) / z), mean(np.abs(before - z) / z)
    ours = mean(abs(Model(miso_window(x[: i + 1])).at(np.array([1]))[0, 0] / x[i + 1] - 1) for i in range(59, 154))
    text = f"{svr:.3%}; curve begins {', '.join(f'{value:.3f}' for value in f[:3])}; ours, from 1 to 3 days: {ours:.3%}"
    yield "on the paper's own trace its SVR errs by 1.316 %", abs(svr - 0.01316) < 1e-4, text
    yield "and persistence by 1.329 %", abs(stays - 0.01329) < 1e-4, f"{stays:.3%}"


def miso_window(x: Floats) -> Window:
    return Window(x, np.ones(len(x), bool), 12, 2)


def cost_claims(data: Path) -> Iterator[Claim]:
    past = past_of(data, "DE")
    window, k = past.window(WINDOW_H - 1), np.arange(1, 169)
    spent = []
    for _ in range(21):
        began = time.process_time()
        Model(past.window(WINDOW_H - 1)).at(k)
        spent.append(time.process_time() - began)
    tracemalloc.start()
    Model(window).at(k)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    text = f"median {np.median(spent) * 1e3:.0f} ms of CPU for all of 7 days ahead"
    yield "a refit on 28 days of hours takes under 50 ms", float(np.median(spent)) < 0.05, text
    yield "and under 5 MB", peak < 5e6, f"{peak / 1e6:.1f} MB at most"


Peer = Callable[[Floats], Floats]


def statsforecast_peers() -> dict[str, Peer]:
    if importlib.util.find_spec("statsforecast") is None:
        return {}
    from statsforecast.models import MSTL, AutoETS

    def peer(make: Callable[[], Any]) -> Peer:
        return lambda x: np.asarray(make().forecast(y=x, h=LEADS_H[-1])["mean"])

    return {
        "MSTL": peer(lambda: MSTL(season_length=[24, 168])),
        "AutoETS": peer(lambda: AutoETS(season_length=24)),
    }


def print_peers(data: Path, chosen: Sequence[str]) -> None:
    peers = statsforecast_peers()
    if not peers:
        print("\nstatsforecast is not installed: not compared (pip install statsforecast)")
        return
    print(f"\nOur MAE as a share of statsforecast's, each {PEERS_EVERY}th hour, the same 28 days for both")
    k = np.array(LEADS_H)
    for grid in chosen:
        past = past_of(data, grid)
        o = np.arange(MARCH, len(past.x) - LEADS_H[-1], PEERS_EVERY)
        z = past.came(o, k)
        ours = np.abs(forecasts(past, named.ALL[OURS], o, k)[:, 0] - z).mean(axis=0)
        for name, peer in peers.items():
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                f = np.stack([peer(past.window(int(step)).x)[k - 1] for step in o])
            ratio = ours / np.abs(f - z).mean(axis=0)
            each_s = (time.perf_counter() - began) / len(o)
            shares = " ".join(f"{h} h {part:.2f}" for h, part in zip(LEADS_H, ratio, strict=True))
            print(
                f"{grid:13} {name:8} {shares}   ({each_s:.2f} s a forecast of theirs, {len(o)} forecasts)", flush=True
            )


def measured(data: Path, chosen: Sequence[str], every: int, names: Sequence[str]) -> Results:
    results: Results = {}
    for grid in chosen:
        began = time.perf_counter()
        results.update(measure(data, grid, every, names))
        print(f"{grid}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", default="", help="zones, by commas; all by default")
    parser.add_argument("--every", type=int, default=1, help="judge each so many-th hour only, for a quick look")
    parser.add_argument("--peers", default="DE,GB,ES,US-CAL-CISO", help="grids on which statsforecast is asked")
    options = parser.parse_args()
    if not 1 <= options.every <= 168:
        parser.error("--every must be 1 to 168: the errors of 28 days are to tell quantiles")
    data = data_dir()
    there = grids(data)
    chosen = [grid for grid in options.grids.split(",") if grid] or there
    if not there or not trace(data).exists():
        print(f"{data}: the data is not here; set CHASE_DATA to its folder", file=sys.stderr)
        return 1
    if unknown := sorted(set(chosen) - set(there)):
        print(f"{data}: no such grid: {', '.join(unknown)}; there are {', '.join(there)}", file=sys.stderr)
        return 1
    paper = importlib.util.find_spec("sklearn") is not None
    small = SMALL if paper else NAIVE
    names = (OURS, *small, "week-mean")
    print(f"{len(chosen)} grids, hours of 2023 from March 1 on, every {options.every}; leads {LEADS_H} h", flush=True)
    results = measured(data, chosen, options.every, names)
    print_leads(results, chosen, names)
    print_grids(results, chosen, small)
    print_peers(data, [grid for grid in options.peers.split(",") if grid in chosen])
    found = [*claims(results, chosen, small), *(paper_claims(data) if paper else ()), *cost_claims(data)]
    print()
    for text, fine, detail in found:
        print(f"{'pass' if fine else 'FAIL'}  {text}: {detail}")
    if not paper:
        print("skip  the paper's SVR: scikit-learn is not installed")
    return 0 if all(fine for _, fine, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
