"""What the budget policy saves on real grids, and how near that is to the most that could be saved.

    python benchmarks/savings.py [--quick] [--out FOLDER] [--engine processes] [--grids DE,GB]

Hourly 2023 of fourteen grids (lifecycle, Electricity Maps) in CHASE_DATA (default ../shared/data), four published
frontiers of Zeus's artifact, jobs of 1, 3, 7 and 30 days at full power, 2.5 to 20 % of slowdown, 24 starts over the
year. Each job is replayed through the real controller, policy, forecaster, database and accounts, hour by hour; the
optimum is the plan of who knew the year. On a part of the jobs the same policy is run with simpler forecasts, with a
perfect one, with values that come an hour late, and on a shuffled signal; and against the threshold policy, Zeus's eta,
suspend-resume and the Chase paper's rule.

``--out`` keeps results, forecasts, tables and plots; run again with the same folder, it goes on where it stopped.
A whole run took 94 minutes on two cores that were shared with other work (165 minutes of CPU), --quick three. Exit
status 1 if a claim fails.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

from chase.replay.cell import Cell, Result
from chase.replay.engine import Engine, engine_of
from chase.replay.results import Results
from chase.replay.sweep import Grid, Policy, Progress, cells, run_sweep, spread
from chase.replay.trace import load_trace

ROOT = Path(__file__).resolve().parent.parent
GRIDS = (
    *("AU-NSW", "AU-VIC", "BR-CS", "CA-ON", "CL-SEN", "DE", "ES", "GB"),
    *("NO", "US-CAL-CISO", "US-MIDA-PJM", "US-NY-NYIS", "US-TEX-ERCO", "ZA"),
)
FRONTIERS = {
    "V100 ResNet-50": "summary_power_v100.csv:network=resnet50,batch_size=256",
    "A40 ResNet-50": "summary_power_a40.csv:network=resnet50,batch_size=256",
    "V100 BERT": "summary_power_v100.csv:dataset=squad,batch_size=32",
    "V100 DeepSpeech2": "summary_power_v100.csv:network=deepspeech2,batch_size=192",
}
BUDGETS = (0.025, 0.05, 0.10, 0.20)
DAYS = (1.0, 3.0, 7.0, 30.0)
FIRST, LAST = datetime(2023, 1, 29, tzinfo=UTC), datetime(2023, 11, 25, tzinfo=UTC)  # 28 days before, 36 after
ZEUS_ETAS = (0.24, 0.5)
PAPER_ETA, PAPER_ETAS = 0.24, (0.1, 0.2, 0.24, 0.3, 0.4, 0.5, 0.7)  # its code's, and those to choose from
PLACEBOS = 2
LATE_S, LATE_GRIDS = 3600.0, ("DE", "US-CAL-CISO")
SWINGING, VARYING = 0.2, 0.1  # coefficients of variation
ONE_STEP_S = 3600.0  # of control, here

# What is claimed.
OF_OPTIMUM, OF_OPTIMUM_ON_EACH, OF_TIMING = 0.975, 0.92, 0.72
WORTH = 1e-4  # of full power's grams: less is no gain
NEVER_WORSE, PLACEBO_ZERO = -0.001, 0.001


@dataclass(frozen=True)
class Scale:
    """How much of it is run."""

    grids: Sequence[str]
    frontiers: Sequence[str]
    budgets: Sequence[float]
    days: Sequence[float]
    starts: int
    # The part on which the others are compared.
    few_frontiers: Sequence[str]
    few_budgets: Sequence[float]
    few_days: Sequence[float]
    few_starts: int


FULL = Scale(
    *(GRIDS, tuple(FRONTIERS), BUDGETS, DAYS, 24),
    *(("V100 ResNet-50", "A40 ResNet-50"), (0.025, 0.10), (3.0,), 8),
)
QUICK = Scale(
    *(("AU-NSW", "DE", "ES", "US-CAL-CISO", "US-TEX-ERCO", "US-NY-NYIS"), ("V100 ResNet-50", "A40 ResNet-50")),
    *((0.025, 0.10), (1.0, 3.0), 8),
    *(("V100 ResNet-50",), (0.05,), (3.0,), 4),
)


@dataclass(frozen=True)
class Gain:
    """By how much more of full power's grams is saved than by another: by us, and by who knew the year."""

    ours: float
    possible: float


class Bench:
    """Cells, and their results by what they were run for."""

    def __init__(self, scale: Scale, data: Path, out: Path, engine: Engine) -> None:
        self.scale, self.data, self.out, self.engine = scale, data, out, engine
        self.grids = {
            grid: Grid(str(data / "intensity" / f"{grid}_2023_hourly.csv.gz"), "lifecycle") for grid in scale.grids
        }
        self.cv = {name: load_trace(Path(grid.trace), column=grid.column).cv for name, grid in self.grids.items()}
        self.names = {grid.trace: name for name, grid in self.grids.items()}
        self.profiles = {name: str(data / "zeus_nsdi23" / row) for name, row in FRONTIERS.items()}
        self.frontier_of = {path: name for name, path in self.profiles.items()}

    def run(self, title: str, asked: Iterable[Cell]) -> list[Result]:
        began, asked = time.perf_counter(), list(asked)
        with Results(self.out / "results.sqlite") as results:
            report = run_sweep(asked, self.engine, results, cache_dir=self.out / "forecasts", watch=_watch(title))
        for failure in report.failures[:5]:
            print(f"FAILED {failure.cell}: {failure.error}", file=sys.stderr)
        if report.failures:
            raise SystemExit(f"{len(report.failures)} of {len(asked)} runs failed")
        took_s = time.perf_counter() - began
        print(f"{title}: {len(asked)} runs in {took_s:.0f} s, {report.known} of them known before", flush=True)
        return list(report.results)

    def all_jobs(self) -> list[Result]:
        """The short ones first: they are most of the jobs, and a small part of the hours."""
        scale = self.scale
        return [
            result
            for days in scale.days
            for result in self.run(
                f"budget, our forecast, {days:g} days",
                cells(
                    self.grids.values(),
                    [self.profiles[name] for name in scale.frontiers],
                    [Policy("budget")],
                    days=[days],
                    starts=lambda _grid, _days: spread(FIRST, LAST, scale.starts),
                    budgets=scale.budgets,
                ),
            )
        ]

    def few(
        self,
        title: str,
        policy: Policy,
        *,
        budgeted: bool = True,
        grids: Sequence[str] | None = None,
        **common: float,
    ) -> list[Result]:
        """The part of the jobs on which everything is compared; a policy that keeps no budget runs once for each."""
        scale = self.scale
        return self.run(
            title,
            cells(
                [grid for name, grid in self.grids.items() if grids is None or name in grids],
                [self.profiles[name] for name in scale.few_frontiers],
                [policy],
                days=scale.few_days,
                starts=lambda _grid, _days: spread(FIRST, LAST, scale.few_starts),
                budgets=scale.few_budgets if budgeted else (None,),
                **common,
            ),
        )

    def in_the_time_of(self, title: str, others: Sequence[Result]) -> list[Result]:
        """The budget policy with nothing but the time that each of the others took."""
        return self.run(
            title,
            (
                replace(
                    other.cell,
                    policy="budget",
                    settings={"deadline": _utc(other.cell.start + timedelta(seconds=other.seconds))},
                    forecast="own",
                )
                for other in others
            ),
        )

    def by_grid(self, results: Iterable[Result]) -> dict[str, list[Result]]:
        found: dict[str, list[Result]] = defaultdict(list)
        for result in results:
            found[self.names[result.cell.trace]].append(result)
        return found


def _utc(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def share(results: Sequence[Result], part: Callable[[Result], float], whole: Callable[[Result], float]) -> float:
    """Of sums of shares of full power's grams: each job counts alike, and none is divided by next to nothing."""
    return sum(map(part, results)) / sum(map(whole, results))


def of_optimum(results: Sequence[Result]) -> float:
    return share(results, lambda r: r.saved, lambda r: r.optimum_saved)


def of_timing(results: Sequence[Result]) -> float:
    return share(results, lambda r: r.timing, lambda r: r.optimum_timing)


@dataclass(frozen=True)
class Claim:
    """``judged`` is False for a mean over all grids where some of them were not run: it is told, and no more."""

    text: str
    holds: bool
    judged: bool = True

    def line(self) -> str:
        return f"{('pass' if self.holds else 'FAIL') if self.judged else 'part'}  {self.text}"


def judge_budget(bench: Bench, ours: Sequence[Result]) -> Iterator[Claim]:
    worst = max(ours, key=lambda r: r.exceeded_s)
    yield Claim(
        f"no run exceeds its budget by more than a step: at most {worst.exceeded_s:.1f} s",
        worst.exceeded_s <= ONE_STEP_S,
    )
    grids, everything = bench.by_grid(ours), set(GRIDS) <= set(bench.grids)
    print(_table(bench, grids))
    total = {grid: of_optimum(results) for grid, results in grids.items()}
    timing = {grid: of_timing(results) for grid, results in grids.items() if bench.cv[grid] > SWINGING}
    mean, least = fmean(total.values()), min(total, key=lambda grid: total[grid])
    yield Claim(
        f"of the optimum's saving {mean:.1%} in the mean of {len(grids)} grids (at least {OF_OPTIMUM:.1%} of all)",
        mean >= OF_OPTIMUM,
        judged=everything,
    )
    yield Claim(
        f"and {total[least]:.1%} on the worst, {least} (at least {OF_OPTIMUM_ON_EACH:.0%})",
        total[least] >= OF_OPTIMUM_ON_EACH,
    )
    behind = min(grids, key=lambda grid: fmean(r.timing for r in grids[grid]))
    points = fmean(r.timing for r in grids[behind])
    text = (
        f"never worse than the best fixed setting at equal time: at worst {100 * points:+.3f} points, {behind}"
        " (at least -0.1)"
    )
    yield Claim(text, points >= NEVER_WORSE)
    if not timing:
        return
    mean = fmean(timing.values())
    text = (
        f"of its timing part {mean:.1%} in the mean of the {len(timing)} grids that vary by more than {SWINGING}"
        f" (at least {OF_TIMING:.0%} of all)"
    )
    yield Claim(text, mean >= OF_TIMING, judged=everything)


def _table(bench: Bench, grids: dict[str, list[Result]]) -> str:
    head = "grid            CV   saved   efficiency  timing   best   of it   timing part of the best's"
    rows = [
        f"{grid:<12} {bench.cv[grid]:5.2f}  {fmean(r.saved for r in rs):6.2%}  {fmean(r.efficiency for r in rs):9.2%}"
        f"  {fmean(r.timing for r in rs):6.2%}  {fmean(r.optimum_saved for r in rs):6.2%}  {of_optimum(rs):6.1%}"
        f"  {fmean(r.timing for r in rs):6.2%} of {fmean(r.optimum_timing for r in rs):6.2%}: {of_timing(rs):6.1%}"
        for grid, rs in sorted(grids.items(), key=lambda item: -bench.cv[item[0]])
    ]
    return "\n".join(
        ["", "All jobs; shares of full power's grams, means over jobs", head, *rows, *_breakdown(bench, grids)]
    )


def _breakdown(bench: Bench, grids: dict[str, list[Result]]) -> Iterator[str]:
    """The same by slowdown, length and frontier."""
    everything = [result for results in grids.values() for result in results]
    keys: dict[str, Callable[[Result], str]] = {
        "slowdown": lambda r: f"{r.cell.settings['max_slowdown']:.1%}",
        "days": lambda r: f"{r.cell.days:g}",
        "frontier": lambda r: bench.frontier_of[r.cell.profile],
    }
    for name, key in keys.items():
        yield f"\nby {name:<16}  saved  efficiency  timing  of the optimum  of its timing (grids that vary)"
        for value in dict.fromkeys(map(key, everything)):
            rs = [r for r in everything if key(r) == value]
            swinging = [r for r in rs if bench.cv[bench.names[r.cell.trace]] > SWINGING]
            yield (
                f"   {value:<16}  {fmean(r.saved for r in rs):6.2%}  {fmean(r.efficiency for r in rs):9.2%}"
                f"  {fmean(r.timing for r in rs):6.2%}  {of_optimum(rs):13.1%}"
                f"  {of_timing(swinging) if swinging else 0.0:13.1%}"
            )


def judge_forecasts(bench: Bench) -> Iterator[Claim]:
    """The same policy by what it knows of the future."""
    known = {
        "our forecast": bench.few("our forecast", Policy("budget")),
        "what is now stays": bench.few("persistence", Policy("budget", forecast="persistence")),
        "as yesterday": bench.few("as yesterday", Policy("budget", forecast="yesterday")),
        "a perfect forecast": bench.few("perfect", Policy("budget", forecast="perfect")),
    }
    print("\nThe budget policy by what it knows of the days ahead (a part of the jobs)")
    print(f"{'':<36} of the optimum's saving   of its timing part, grids that vary by more than {SWINGING}")
    for name, results in known.items():
        swinging = [r for r in results if bench.cv[bench.names[r.cell.trace]] > SWINGING]
        print(f"  {name:<34} {of_optimum(results):12.1%} {of_timing(swinging):22.1%}")
    _tell_late(bench, known["our forecast"])
    perfect = of_optimum(known["a perfect forecast"])
    yield Claim(f"with a perfect forecast the policy is the optimum: {perfect:.2%} of it", perfect > 0.995)
    shuffled = [
        result
        for seed in range(PLACEBOS)
        for result in bench.few(f"placebo {seed}", Policy("budget", forecast="perfect", shuffle=seed))
    ]
    moved = {grid: fmean(r.moved for r in rs) for grid, rs in bench.by_grid(shuffled).items()}
    mean = fmean(r.moved for r in shuffled)
    print("\nPlacebo: decided by a shuffled signal, accounted by the true one")
    print(
        f"  energy moved to cleaner times {100 * mean:+.3f} points; by grid "
        + ", ".join(f"{g} {100 * v:+.2f}" for g, v in moved.items())
    )
    print(
        f"  all of timing {100 * fmean(r.timing for r in shuffled):+.2f} points: that is what varying the speed costs"
    )
    yield Claim(
        f"the placebo moves no energy to cleaner times: {100 * mean:+.3f} points (within 0.1)",
        abs(mean) <= PLACEBO_ZERO,
    )


def _tell_late(bench: Bench, in_time: Sequence[Result]) -> None:
    """On some grids: each delay needs forecasts of its own."""
    grids = [name for name in LATE_GRIDS if name in bench.grids]
    if not grids:
        return
    late = bench.few("an hour late", Policy("budget"), grids=grids, delay_s=LATE_S)
    same = [r for r in in_time if bench.names[r.cell.trace] in grids]
    print(
        f"  values that come an hour late, on {', '.join(grids)}: {of_optimum(late):.1%} and {of_timing(late):.1%},"
        f" in place of {of_optimum(same):.1%} and {of_timing(same):.1%}"
    )


def judge_rules(bench: Bench) -> Iterator[Claim]:
    """Each of the others against the budget policy in the very time that it took."""
    rules = {
        "threshold, p40 and p60": Policy("threshold"),
        **{f"Zeus, eta {eta:g}": Policy("zeus-eta", {"eta": eta}) for eta in ZEUS_ETAS},
        f"the paper's rule, eta {PAPER_ETA:g} (*)": Policy("chase", {"eta": PAPER_ETA}),
    }
    print("\nAgainst other rules, each in the time that it took: saved of full power's grams (a part of the jobs)")
    print(f"  {'':<30}   slowdown    theirs     ours   their timing  our timing")
    for name, policy in rules.items():
        theirs = bench.few(name, policy, budgeted=False)
        ours = bench.in_the_time_of(f"budget, in the time of {name}", theirs)
        print(
            f"  {name:<30} {fmean(r.slowdown for r in theirs):10.2%} {fmean(r.saved for r in theirs):9.2%}"
            f" {fmean(r.saved for r in ours):8.2%} {fmean(r.timing for r in theirs):12.2%}"
            f" {fmean(r.timing for r in ours):11.2%}"
        )
        if policy.name != "chase":
            yield _better(f"{name}, at equal time,", _gains(bench, theirs, ours))
    print(
        "  (*) A rule with one price of time is, by duality, the optimum of whatever time it happens to take: no\n"
        "      policy can beat that. But it keeps no time: below it is held to what the budget policy promises."
    )
    ours = bench.few("our forecast", Policy("budget"))
    paused = bench.few("suspend-resume, knowing the future", Policy("suspend-resume-limit"))
    yield _better("suspend-resume that knows the future, at the same deadline,", _gains(bench, paused, ours))
    yield _better("the paper's rule, at the best eta that keeps the deadline in each run,", _kept(bench, ours))


def _better(than: str, gains: dict[str, Gain]) -> Claim:
    """Where who knew the year could not gain anything worth the name either, it is enough to be no worse."""
    tied = [grid for grid, gain in gains.items() if gain.possible < WORTH]
    worst = min(gains, key=lambda grid: gains[grid].ours)
    text = f"better than {than} on each grid that varies by more than {VARYING}"
    text += f": {100 * gains[worst].ours:+.3f} points on the worst, {worst}"
    if tied:
        most = max(gains[grid].possible for grid in tied)
        text += f"; on {len(tied)} of {len(gains)} grids the optimum itself gains {100 * most:.3f} at the most"
    return Claim(text, all(gain.ours > (-WORTH if grid in tied else 0.0) for grid, gain in gains.items()))


def _kept(bench: Bench, ours: Sequence[Result]) -> dict[str, Gain]:
    """By how much more we save than the paper's rule, of each grid that varies.

    The rule is given, for each frontier, length and slowdown, that one of many eta with which it saves most and is late
    in no run: a choice that only hindsight allows.
    """
    runs = [
        r
        for eta in PAPER_ETAS
        for r in bench.few(f"the paper's rule, eta {eta:g}", Policy("chase", {"eta": eta}), budgeted=False)
    ]
    tried: dict[tuple[str, str, float], dict[float, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        tried[run.cell.trace, run.cell.profile, run.cell.days][run.cell.settings["eta"]].append(run)
    groups: dict[tuple[str, str, float], dict[float, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for run in ours:
        groups[run.cell.trace, run.cell.profile, run.cell.days][run.cell.settings["max_slowdown"]].append(run)
    gains: dict[str, list[float]] = defaultdict(list)
    saved: list[tuple[float, float, float]] = []
    for key, by_budget in groups.items():
        for budget, own in by_budget.items():
            kept = [rs for rs in tried[key].values() if max(r.slowdown for r in rs) <= budget]
            best = max((fmean(r.saved for r in rs) for rs in kept), default=0.0)
            mine = fmean(r.saved for r in own)
            saved.append((budget, best, mine))
            gains[bench.names[key[0]]].append(mine - best)
    for budget in sorted({budget for budget, _, _ in saved}):
        theirs, mine = (fmean(row[i] for row in saved if row[0] == budget) for i in (1, 2))
        print(f"  {f'kept within {budget:.1%} in each run':<30} {'':10} {theirs:9.2%} {mine:8.2%}")
    return {grid: Gain(fmean(values), math.inf) for grid, values in gains.items() if bench.cv[grid] > VARYING}


def _gains(bench: Bench, theirs: Sequence[Result], ours: Sequence[Result]) -> dict[str, Gain]:
    """Of each grid that varies."""
    apart: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for other, own in zip(theirs, ours, strict=True):
        pair = own.saved - other.saved, own.optimum_saved - other.saved
        apart[bench.names[own.cell.trace]].append(pair)
    means = {grid: [fmean(column) for column in zip(*pairs, strict=True)] for grid, pairs in apart.items()}
    return {grid: Gain(*mean) for grid, mean in means.items() if bench.cv[grid] > VARYING}


def _watch(title: str) -> Callable[[Progress], None]:
    shown = [time.monotonic()]

    def watch(progress: Progress) -> None:
        if sys.stderr.isatty() and time.monotonic() - shown[0] > 1:
            shown[0] = time.monotonic()
            print(f"\r{title}: {progress.done} of {progress.total}", end="\r", file=sys.stderr, flush=True)

    return watch


def write_csv(bench: Bench, path: Path, results: Sequence[Result]) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["grid", "cv", "frontier", "days", "max_slowdown", "start", *_COLUMNS])
        for r in results:
            cell, grid = r.cell, bench.names[r.cell.trace]
            what = (bench.frontier_of[cell.profile], cell.days, cell.settings["max_slowdown"], cell.start.isoformat())
            rows.writerow([grid, round(bench.cv[grid], 4), *what, *(getattr(r, column) for column in _COLUMNS)])


_COLUMNS = (
    "saved",
    "efficiency",
    "timing",
    "moved",
    "optimum_saved",
    "optimum_timing",
    "slowdown",
    "exceeded_s",
    "switches_per_day",
)


def plot(bench: Bench, path: Path, results: Sequence[Result]) -> None:
    """For each grid what was saved, in its two parts, beside the optimum's."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("no plots: install the extra, pip install 'carbon-chase[plots]'")
        return
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    grids = sorted(bench.by_grid(results).items(), key=lambda item: -bench.cv[item[0]])
    figure, (bars, shares) = plt.subplots(2, 1, figsize=(11, 8), sharex=True, layout="constrained")
    names = [f"{grid}\n{bench.cv[grid]:.2f}" for grid, _ in grids]
    above: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": 3, "frameon": False}
    place = range(len(grids))
    efficiency = [100 * fmean(r.efficiency for r in rs) for _, rs in grids]
    timing = [100 * fmean(r.timing for r in rs) for _, rs in grids]
    best = [100 * fmean(r.optimum_saved for r in rs) for _, rs in grids]
    bars.bar([i - 0.2 for i in place], efficiency, 0.4, label="efficiency: best fixed setting, equal time")
    bars.bar([i - 0.2 for i in place], timing, 0.4, bottom=efficiency, label="timing")
    bars.bar([i + 0.2 for i in place], best, 0.4, color="0.7", label="who knew the year")
    bars.set_ylabel("saved, % of full power's grams")
    bars.legend(**above)
    shares.bar(
        [i - 0.2 for i in place], [100 * of_optimum(rs) for _, rs in grids], 0.4, label="of the optimum's saving"
    )
    shares.bar([i + 0.2 for i in place], [100 * of_timing(rs) for _, rs in grids], 0.4, label="of its timing part")
    shares.set_ylabel("%")
    shares.set_xticks(list(place), names, fontsize=8)
    shares.set_xlabel("grid, and its hourly coefficient of variation")
    shares.legend(**above)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def data_dir() -> Path:
    folder = Path(os.environ.get("CHASE_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "intensity").is_dir():
        raise SystemExit(f"there is no data in {folder}: set CHASE_DATA to its folder")
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a selection of it, in about three minutes")
    parser.add_argument("--out", type=Path, help="folder for results, forecasts, tables and plots")
    parser.add_argument("--engine", default="processes", help="processes[:N] or dask://HOST:PORT")
    parser.add_argument("--grids", help="only these, with commas")
    parser.add_argument("--days", help="only jobs of these lengths, with commas")
    parser.add_argument("--frontiers", type=int, default=len(FRONTIERS), help="only the first so many")
    parser.add_argument("--slowdowns", help="only these, with commas")
    asked = parser.parse_args()
    scale, data, began = (QUICK if asked.quick else FULL), data_dir(), time.perf_counter()
    if asked.grids:
        scale = replace(scale, grids=tuple(asked.grids.split(",")))
    if asked.days:
        scale = replace(scale, days=tuple(map(float, asked.days.split(","))))
    if asked.slowdowns:
        scale = replace(scale, budgets=tuple(map(float, asked.slowdowns.split(","))))
    scale = replace(scale, frontiers=scale.frontiers[: asked.frontiers])
    with tempfile.TemporaryDirectory() as folder, engine_of(asked.engine) as engine:
        bench = Bench(scale, data, asked.out or Path(folder), engine)
        ours = bench.all_jobs()
        claims = [*judge_budget(bench, ours), *judge_forecasts(bench), *judge_rules(bench)]
        if asked.out is not None:
            write_csv(bench, asked.out / "savings.csv", ours)
            plot(bench, asked.out / "savings.png", ours)
    print()
    for claim in claims:
        print(claim.line())
    print(f"{time.perf_counter() - began:.0f} s")
    return 0 if all(claim.holds or not claim.judged for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
