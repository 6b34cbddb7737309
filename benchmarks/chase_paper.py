"""The Chase paper (arXiv 2303.02508): what it claims, what its own data says, and both computed again.

    python benchmarks/chase_paper.py

For each figure: the target, ours, and how far apart they may be; exits with 1 if one is off. ``CHASE_DATA`` is the
folder of the data (default ``../shared/data``). Needs scipy (``pip install 'carbon-chase[test]'``), and scikit-learn
for the paper's forecaster; without that one the paper's run is not retraced, and the rest is computed.

The trace has a row for each half hour, and the paper's run begins at row 60. What the paper shows only as a curve was
read from the vector graphics of its figures 1 and 2, exact to the precision of the plot. What is chosen is chosen by
the service's own policies and solver; nothing here weighs energy against time.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from chase.policy import Grid, PolicyInput, Rules, choose
from zeus_core.budget import Levels, Slots, solve
from zeus_core.frontier import Frontier, OperatingPoint, Setting
from zeus_core.selectors import ZeusCost

Floats = NDArray[np.float64]

ROOT = Path(__file__).resolve().parent.parent
J_PER_KWH = 3.6e6
HALF_HOUR, HOUR = 1800.0, 3600.0
BEGIN = 60  # the row at which the paper's run begins
EPOCHS, MAX_POWER_W, MAX_CI = 20, 300.0, 750.0
IDLE_W = 70.38  # an A40 whose job waits, from the Perseus SOSP'24 artifact

NORMAL, CHASE = (31.296, 5378.5, 8.651), (32.113, 4735.6, 7.646)
"""Hours and grams where the curves of figure 2 end, and kWh: the grams over the intensity they were counted at."""
EPOCH = {300: (1.0096, 0.2791), 295: (1.0140, 0.2842), 220: (1.0407, 0.2215), 195: (1.0768, 0.2050)}
"""Hours and kWh of one epoch at each limit (W), means over the epochs of figure 2."""
RUN_EPOCHS = 31
SWITCHES = (619.3, 637.1)
"""Forecasts, g/kWh, above which figure 1 shows 220 and 195 W, not 295 W: 619.18 to 619.42, and 636.49 to 637.78."""
STEPS = {295: 47, 220: 25, 195: 24}

ZONES = {"DE": "DE", "GB": "GB", "CAISO": "US-CAL-CISO", "ERCOT": "US-TEX-ERCO"}
CEILINGS = {
    ("v100", "imagenet", 256): {
        0.025: (2.9, 3.2, 2.0, 1.2, 0.1),
        0.05: (3.1, 3.7, 2.1, 1.1, 0.1),
        0.1: (2.8, 3.5, 1.8, 0.8, 0.0),
    },
    ("a40", "imagenet", 256): {
        0.025: (1.1, 1.2, 0.7, 0.5, 0.1),
        0.05: (1.6, 1.8, 1.4, 1.0, 0.1),
        0.1: (1.5, 1.7, 1.0, 0.6, 0.1),
    },
    ("v100", "squad", 32): {
        0.025: (3.0, 3.2, 2.1, 1.4, 0.1),
        0.05: (3.4, 4.0, 2.4, 1.4, 0.1),
        0.1: (2.3, 2.9, 1.7, 1.1, 0.1),
    },
}
"""Per cent of a fixed setting's grams in the same time, on the four zones and on the paper's trace."""


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. ``within`` None: shown and not judged. ``at_most``: what is below the target is as good."""

    row: int
    what: str
    target: float
    ours: float
    within: float | None
    at_most: bool = False

    @property
    def verdict(self) -> str:
        if self.within is None:
            return "not claimed"
        off = self.ours - self.target
        return "pass" if (off if self.at_most else abs(off)) <= self.within + 1e-9 else "OFF"

    def __str__(self) -> str:
        target = "-" if math.isnan(self.target) else f"{self.target:.2f}"
        within = "-" if self.within is None else f"{self.within:.2f}"
        return (
            f"{self.row:>2}  {self.what:<64} {target:>7} {round(self.ours, 2) + 0.0:>7.2f} {within:>6}  {self.verdict}"
        )


@dataclass(frozen=True, slots=True)
class Time:
    """Intensities in g/kWh of steps of ``step_s`` seconds, and the row at which a job begins."""

    ci: Floats
    begin: int
    step_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """One job done, and the power of each of its steps."""

    seconds: float
    joules: float
    grams: float
    power_w: tuple[float, ...]

    def against(self, full: Run) -> tuple[float, float, float]:
        """Time, energy and carbon against another run's, in per cent of it."""
        return change(self.seconds, full.seconds), change(self.joules, full.joules), change(self.grams, full.grams)


Pick = Callable[[int], OperatingPoint]  # by the row of the time


def change(ours: float, of: float) -> float:
    return 100 * (ours / of - 1)


# -- data -------------------------------------------------------------------------------------------------------------


def data_dir() -> Path:
    return Path(os.environ.get("CHASE_DATA") or ROOT.parent / "shared" / "data")


def trace(data: Path) -> Time:
    """What was observed in the time of the paper's run: MISO, October 2022."""
    with (data / "chase_iclr23" / "miso_2022-10.csv").open(encoding="utf-8", newline="") as file:
        return Time(np.array([float(row["hist"]) for row in csv.DictReader(file)]), BEGIN, HALF_HOUR)


def year(data: Path, zone: str) -> Time:
    """Direct intensity of each hour of 2023 (Electricity Maps, ODbL 1.0)."""
    with gzip.open(data / "intensity" / f"{zone}_2023_hourly.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return Time(np.array([float(row["direct_gco2_per_kwh"]) for row in csv.DictReader(file)]), 0, HOUR)


def sweep(data: Path, gpu: str, dataset: str, batch_size: int) -> Floats:
    """(n, 3): power limit in W rising, seconds of an epoch, average W, as the Zeus NSDI'23 artifact has them."""
    wanted = (dataset, str(batch_size))
    with (data / "zeus_nsdi23" / f"summary_power_{gpu}.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["dataset"], row["batch_size"]) == wanted]
    columns = ("power_limit", "time_per_epoch", "average_power")
    return np.array(sorted([float(row[name]) for name in columns] for row in rows))


def every_5_w(measured: Floats) -> Floats:
    """Monotone cubics (PCHIP) through time and power: measured were limits 25 W apart, the paper's are 5 W apart."""
    from scipy.interpolate import PchipInterpolator

    limit_w = np.arange(measured[0, 0], measured[-1, 0] + 1, 5.0)
    return np.column_stack([limit_w, PchipInterpolator(measured[:, 0], measured[:, 1:])(limit_w)])


def frontier(measured: Floats) -> Frontier:
    return Frontier.of(OperatingPoint(Setting(power_limit_w=float(w)), float(t), float(t * p)) for w, t, p in measured)


def a40(data: Path) -> Frontier:
    """ResNet-50 on ImageNet, batch size 128: the paper's model and GPU."""
    return frontier(every_5_w(sweep(data, "a40", "imagenet", 128)))


# -- the paper's own run ----------------------------------------------------------------------------------------------


def headline() -> Iterator[Line]:
    hours, grams = (change(CHASE[k], NORMAL[k]) for k in (0, 1))
    hours_of_chase, grams_of_chase = (-change(NORMAL[k], CHASE[k]) for k in (0, 1))
    yield Line(4, "carbon, as printed: of the carbon-aware run, %", -13.6, grams_of_chase, 0.05)
    yield Line(4, "time, as printed: of the carbon-aware run, %", 2.5, hours_of_chase, 0.05)
    yield Line(4, "carbon, as usual: of the normal run, %", -11.95, grams, 0.05)
    yield Line(4, "time, as usual: of the normal run, %", 2.61, hours, 0.05)


def split_of_the_figure() -> Iterator[Line]:
    intensity = change(CHASE[1] / CHASE[2], NORMAL[1] / NORMAL[2])
    yield Line(5, "energy of that run, from the paper's figure, %", -11.62, change(CHASE[2], NORMAL[2]), 0.1)
    yield Line(5, "intensity at which it was used, from the paper's figure, %", -0.38, intensity, 0.1)


def limits_of_figure_1(x: Floats) -> list[int]:
    """The paper's forecaster, fitted on the day before the run, and the limits that figure 1 shows for its values."""
    from chase.forecast.svr import HistoryFit

    steps = np.arange(48, 48 + sum(STEPS.values()))
    f = HistoryFit.on(x[BEGIN - 49 : BEGIN]).next(steps, x[BEGIN - 1 : BEGIN - 1 + len(steps)])
    return [tuple(STEPS)[int(np.searchsorted(SWITCHES, value))] for value in f]


def retraced(limits_w: Sequence[int], x: Floats) -> tuple[float, float, float]:
    """Hours, kWh and grams of 31 epochs: each is two half hours and what is left of it, and each takes the next row.

    So does the authors' code walk through the trace: three rows an epoch, however little time the third one lasts.
    """
    hours = kwh = grams = 0.0
    for first in range(0, 3 * RUN_EPOCHS, 3):
        left = 1.0
        for row in range(first, first + 3):
            epoch_h, epoch_kwh = EPOCH[limits_w[row]]
            part = left if row == first + 2 else min(left, 0.5 / epoch_h)
            left -= part
            hours, kwh, grams = (
                hours + part * epoch_h,
                kwh + part * epoch_kwh,
                grams + part * epoch_kwh * x[BEGIN + row],
            )
    return hours, kwh, grams


def split_retraced(x: Floats) -> Iterator[Line]:
    """Rows of the trace and their limits are computed here; hours and kWh of an epoch at a limit are the figure's."""
    limits_w = limits_of_figure_1(x)
    for limit_w, steps in STEPS.items():
        yield Line(5, f"half hours at {limit_w} W, by the paper's forecaster", steps, limits_w.count(limit_w), 0)
    ours, full = retraced(limits_w, x), retraced([300] * len(limits_w), x)
    yield Line(5, "energy, retraced with the figure's kWh of an epoch, %", -11.62, change(ours[1], full[1]), 0.1)
    intensity = change(ours[2] / ours[1], full[2] / full[1])
    yield Line(5, "intensity at which it was used, retraced, %", -0.38, intensity, 0.1)


# -- the rule, replayed on measured settings --------------------------------------------------------------------------


def run(pick: Pick, time: Time) -> Run:
    """20 epochs, each step at the point that is picked for its row, priced at what was observed then."""
    left, seconds, joules, grams, row = float(EPOCHS), 0.0, 0.0, 0.0, time.begin
    power_w: list[float] = []
    while left > 1e-12:
        point = pick(row)
        took = min(time.step_s, left * point.seconds_per_unit)
        left -= took * point.rate
        seconds, joules = seconds + took, joules + took * point.power_w
        grams += took * point.power_w * float(time.ci[row]) / J_PER_KWH
        power_w.append(point.power_w)
        row += 1
    return Run(seconds, joules, grams, tuple(power_w))


def by_rule(settings: Frontier, eta: float, seen: Floats, max_ci: float = MAX_CI) -> Pick:
    """The service's policy ``chase``, shown ``seen`` of each row."""
    rules = Rules(name="chase", eta=eta, dwell_s=0.0)

    def pick(row: int) -> OperatingPoint:
        grid = Grid(g_per_kwh=float(seen[row]), kind="measured", freshness="fresh", reference_g=max_ci)
        choice = choose(PolicyInput(frontier=settings, rules=rules, grid=grid, max_power_w=MAX_POWER_W))
        point = settings.at(choice.setting) if choice.setting else None
        if point is None:
            raise ValueError(f"the policy has no setting for {seen[row]} g/kWh: {choice.reason}")
        return point

    return pick


def always(point: OperatingPoint) -> Pick:
    return lambda _row: point


def zeus(settings: Frontier, eta: float) -> OperatingPoint:
    return ZeusCost(eta, MAX_POWER_W).choose(settings.points)


def fixed(settings: Frontier, seconds: float) -> OperatingPoint:
    """The setting, or mixture of two neighbours, at which the job takes so long."""
    levels, rate = Levels.of(settings.points), EPOCHS / seconds
    return OperatingPoint(Setting(), 1 / rate, float(np.interp(rate, levels.rate, levels.power_w)) / rate)


def timing(ours: Run, settings: Frontier, time: Time) -> float:
    """What is saved beyond the fixed setting of equal time, in points: per cent of the full-power run's grams."""
    same, full = run(always(fixed(settings, ours.seconds)), time), run(always(settings.reference), time)
    return 100 * (same.grams - ours.grams) / full.grams


def replayed(settings: Frontier, time: Time) -> Iterator[Line]:
    full, static = run(always(settings.reference), time), zeus(settings, 0.24)
    yield Line(6, "fixed setting: Zeus's choice at eta .24, W", 235, static.setting.power_limit_w or 0.0, 0)
    for name, pick, took, emitted in (
        ("fixed setting", always(static), 2.52, -13.62),
        ("paper's rule, eta .24", by_rule(settings, 0.24, time.ci), 2.08, -11.74),
        ("paper's rule, eta .28", by_rule(settings, 0.28, time.ci), 2.52, -13.62),
    ):
        ours = run(pick, time).against(full)
        yield Line(6, f"{name}: time, %", took, ours[0], 0.05)
        yield Line(6, f"{name}: carbon, %", emitted, ours[2], 0.05)


def beyond_fixed(settings: Frontier, time: Time) -> Iterator[Line]:
    for eta in (0.22, 0.24, 0.25, 0.28, 0.3, 0.4, 0.5):
        gain = timing(run(by_rule(settings, eta, time.ci), time), settings, time)
        yield Line(7, f"paper's rule, eta {eta:g}, beyond fixed at equal time, points", 0.0, gain, 0.02, at_most=True)


def on_other_grids(settings: Frontier, data: Path, every_h: int = 61) -> Iterator[Line]:
    """MaxCI is the most of the 24 hours before, as the paper has it."""
    for zone, printed in (("DE", 0.51), ("GB", 0.94)):
        whole, gains = year(data, zone), []
        for begin in range(24, len(whole.ci) - 48, every_h):
            time = replace(whole, begin=begin)
            pick = by_rule(settings, 0.25, time.ci, max_ci=float(time.ci[begin - 24 : begin].max()))
            gains.append(timing(run(pick, time), settings, time))
        what = f"{zone}, hours of 2023, eta .25, {len(gains)} starts (2020: {printed}), points"
        yield Line(8, what, math.nan, fmean(gains), None)


# -- how much there is to gain ----------------------------------------------------------------------------------------


def least_grams(settings: Frontier, time: Time, slowdown: float) -> tuple[float, float, float]:
    """Of a job that takes all of ``time``: with perfect knowledge, at a fixed setting, and at full power.

    At full power it is done earlier; taken is the mean intensity of the whole time for that as well.
    """
    levels, rate = Levels.of(settings.points), settings.reference.rate / (1 + slowdown)
    slots = Slots.of(np.full(len(time.ci), time.step_s), time.ci / J_PER_KWH)
    plan = solve(levels, slots, rate * float(slots.seconds.sum()), may_end=False)
    grams_per_w = float(slots.seconds @ slots.price)
    fixed_w = float(np.interp(rate, levels.rate, levels.power_w))
    return plan.cost, fixed_w * grams_per_w, settings.reference.power_w / (1 + slowdown) * grams_per_w


def ceiling(settings: Frontier, time: Time, slowdown: float) -> float:
    """What perfect knowledge saves beyond a fixed setting in the same time, in per cent of that one's grams."""
    clairvoyant, same_time, _ = least_grams(settings, time, slowdown)
    return -change(clairvoyant, same_time)


def shares(data: Path) -> Iterator[Line]:
    settings = frontier(sweep(data, "v100", "imagenet", 256))
    clairvoyant, same_time, full = least_grams(settings, year(data, "DE"), 0.05)
    what = "v100 imagenet b256, +5 % time, DE, of full power's"
    yield Line(9, f"fixed, {what}, %", -11.0, change(same_time, full), 0.2)
    yield Line(9, f"clairvoyant, {what}, %", -13.7, change(clairvoyant, full), 0.2)


def ceilings(data: Path) -> Iterator[Line]:
    times = {name: year(data, zone) for name, zone in ZONES.items()} | {"trace": trace(data)}
    for (gpu, dataset, batch_size), rows in CEILINGS.items():
        settings = frontier(sweep(data, gpu, dataset, batch_size))
        for slowdown, targets in rows.items():
            for (name, time), target in zip(times.items(), targets, strict=True):
                what = f"ceiling, {gpu} {dataset} b{batch_size}, +{100 * slowdown:g} % time, {name}, %"
                yield Line(9, what, target, ceiling(settings, time, slowdown), 0.2)


# -- what every claim must be compared with ---------------------------------------------------------------------------


def planned(levels: Levels, seconds: float, time: Time) -> Run:
    """The job done within ``seconds`` with perfect knowledge."""
    ends = np.append(np.arange(time.step_s, seconds, time.step_s), seconds)
    slots = Slots.of(np.diff(ends, prepend=0.0), time.ci[time.begin : time.begin + len(ends)] / J_PER_KWH)
    plan = solve(levels, slots, float(EPOCHS))
    power_w = plan.energy_j[plan.seconds > 0] / plan.seconds[plan.seconds > 0]
    return Run(float(plan.seconds.sum()), float(plan.energy_j.sum()), plan.cost, tuple(power_w.round(6).tolist()))


def compared(settings: Frontier, time: Time, eta: float) -> dict[str, Run]:
    """What the paper should have been compared with; whoever may choose how long to take is given the rule's time."""
    ours = run(by_rule(settings, eta, time.ci), time)
    shuffled = time.ci.copy()
    here = slice(time.begin, time.begin + len(ours.power_w) + 1)
    shuffled[here] = np.random.default_rng(1).permutation(shuffled[here])
    return {
        "full power": run(always(settings.reference), time),
        "paper's rule, perfect forecast": ours,
        "paper's rule, persistence": run(by_rule(settings, eta, np.roll(time.ci, 1)), time),
        "paper's rule, shuffled signal (placebo)": run(by_rule(settings, eta, shuffled), time),
        "Zeus's fixed choice, same eta": run(always(zeus(settings, eta)), time),
        "best fixed, equal time": run(always(fixed(settings, ours.seconds)), time),
        "suspend and resume, equal time": planned(Levels.of([settings.reference], paused_w=IDLE_W), ours.seconds, time),
        "clairvoyant optimum, equal time": planned(Levels.of(settings.points), ours.seconds, time),
    }


def print_compared(settings: Frontier, time: Time, eta: float) -> None:
    print(f"\nA40, ResNet-50, batch size 128, {EPOCHS} epochs on the trace, eta {eta:g}: % of full power's")
    print(f"{'':40} {'time':>6} {'energy':>7} {'carbon':>7} {'carbon - energy':>16} {'peak W':>7} {'changes/d':>10}")
    runs = compared(settings, time, eta)
    for name, ours in runs.items():
        took, used, emitted = ours.against(runs["full power"])
        daily = np.count_nonzero(np.diff(ours.power_w)) / ours.seconds * 86400
        took, used, difference, emitted = (round(x, 2) + 0.0 for x in (took, used, emitted - used, emitted))
        figures = f"{took:+6.2f} {used:+7.2f} {emitted:+7.2f} {difference:+16.2f} {max(ours.power_w):7.0f}"
        print(f"{name:40} {figures} {daily:10.1f}")


NOTES = """
 3  Table 1 of the paper (MAPE .94, 1.57, 1.76, 2.23, 2.51 %) needs WattTime's figures for the central US of January
    2023, which are not public: not reproducible, and not claimed.
 4  Quoted are the ends of the curves of figure 2: 5378.5 g in 31.296 h, and with carbon awareness 4735.6 g in 32.113 h.
 8  The figures of 2020 (half hours) need data that is not here. Shown is the same quantity on the hours of 2023; it is
    not claimed to be that figure.
 9  Whole of 2023, direct intensity. Singapore is not among the grids that are here; "trace" is the paper's own, MISO.
"""


def lines(data: Path) -> Iterator[Line]:
    time, settings = trace(data), a40(data)
    yield from headline()
    yield from split_of_the_figure()
    if importlib.util.find_spec("sklearn") is not None:
        yield from split_retraced(time.ci)
    yield from replayed(settings, time)
    yield from beyond_fixed(settings, time)
    yield from on_other_grids(settings, data)
    yield from shares(data)
    yield from ceilings(data)


def main() -> int:
    data = data_dir()
    if not all((data / folder).is_dir() for folder in ("chase_iclr23", "intensity", "zeus_nsdi23")):
        print(f"{data}: the data is not here; set CHASE_DATA to its folder", file=sys.stderr)
        return 1
    if importlib.util.find_spec("scipy") is None:
        print("scipy is not installed: pip install 'carbon-chase[test]'", file=sys.stderr)
        return 1
    print(f" F  {'':<64} {'target':>7} {'ours':>7} {'within':>6}")
    found = []
    for line in lines(data):
        print(line, flush=True)
        found.append(line)
    print(NOTES.rstrip())
    if importlib.util.find_spec("sklearn") is None:
        print(" 5  scikit-learn is not installed: the paper's run was not retraced")
    print_compared(a40(data), trace(data), 0.24)
    off = sum(line.verdict == "OFF" for line in found)
    print(f"\n{sum(line.verdict == 'pass' for line in found)} figures within their tolerance, {off} off")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
