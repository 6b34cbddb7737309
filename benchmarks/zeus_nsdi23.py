"""Zeus across recurrences on its authors' own traces: the published figures, the published search, and ours.

    CHASE_DATA=... python benchmarks/zeus_nsdi23.py [--seeds 20] [--quick] [--out FOLDER]

A recurrence draws one of the traced trainings of its batch size (``summary_train.csv``, epochs to the target) and runs
each epoch at the power limit of least cost (``summary_power_GPU.csv``), as the published simulator does: eta 0.5, beta
2, 2 |B| |P| recurrences. A training that is ended early, or does not reach the target within the paper's number of
epochs, is tried again, up to 20 times, and what it took counts to its recurrence. Measuring the limits of a size takes
part of its first epoch and is not charged (by the paper 0.01 to 0.6 % of a training).

1. The energy of the best fixed batch size and limit, against the job's own at full power.
2. Energy of the last five recurrences against the job's own at full power: geometric mean over the six workloads
   for the paper's search as it is in ``zeus_core.batch_size`` and for ours; and of all recurrences
   together, exploring included, against the published simulator's figures. The size and limit of least cost, known
   beforehand, are printed beside them: less than these take on average no search can come to but by luck.
3. With the costs changing in the middle, and with three recurrences at once.
4. On another model of GPU, after all recurrences on a V100: against beginning anew there.

Shares are means of seeds, with their standard errors. Each runs in a process of its own, as many as there are cores.

Exit status 1 when a claim is missed.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from zeus_core.batch_size import Spec, propose
from zeus_core.frontier import Frontier, OperatingPoint, Setting
from zeus_core.trials import Status, Trial, cost_of

DATA = Path(os.environ.get("CHASE_DATA", "../shared/data")) / "zeus_nsdi23"
GPUS = ("v100", "a40", "rtx6000", "p100")
ETA, BETA, RETRIES = 0.5, 2.0, 20


@dataclass(frozen=True)
class Job:
    """A workload of the paper's table 1, with the optimizer, b0, the target, and the epochs at which it gives up."""

    name: str
    optimizer: str
    default: int
    target: float
    max_epochs: int


JOBS = (
    Job("librispeech", "adamw", 192, 40.0, 16),
    Job("squad", "adamw", 32, 84.0, 6),
    Job("sentiment140", "adamw", 128, 0.84, 10),
    Job("imagenet", "adadelta", 256, 0.65, 100),
    Job("cifar100", "adadelta", 1024, 0.6, 100),
    Job("movielens-1m", "adam", 1024, 0.41, 100),
)
# Per cent of energy saved by the best of batch size and limit on a V100.
JOINT = dict(zip((job.name for job in JOBS), (42.8, 27.6, 26.4, 23.8, 74.7, 66.6), strict=True))
# The published simulator: geometric mean over workloads of the energy of the last five, and per cent of
# energy of all recurrences on a V100.
LAST_FIVE = {"v100": 0.551, "a40": 0.539, "rtx6000": 0.540, "p100": 0.582}
TOLERANCE = 0.03
CUMULATIVE = {
    "cifar100": -71.7,
    "imagenet": -14.3,
    "squad": -17.3,
    "librispeech": -35.4,
    "movielens-1m": -62.6,
    "sentiment140": -19.2,
}


@dataclass(frozen=True)
class Workload:
    """One on one GPU: of each batch size its epochs (inf: never) and the frontier of one epoch."""

    job: Job
    gpu: str
    epochs: dict[int, tuple[float, ...]]
    frontiers: dict[int, Frontier]
    max_power_w: float

    @property
    def default(self) -> int:
        """b0, or the largest that fits where it does not."""
        return self.job.default if self.job.default in self.epochs else max(self.epochs)

    @property
    def recurrences(self) -> int:
        return 2 * len(self.epochs) * max(len(frontier.points) for frontier in self.frontiers.values())

    def full_power(self) -> tuple[float, float]:
        """Joules and seconds of a training at b0 and the highest limit, in the mean of its traced runs."""
        point = self.frontiers[self.default].reference
        epochs = float(np.mean(self.epochs[self.default]))
        return epochs * point.joules_per_unit, epochs * point.seconds_per_unit


def load(job: Job, gpu: str) -> Workload:
    epochs: dict[int, list[float]] = defaultdict(list)
    for row in rows("summary_train.csv"):
        if (row["dataset"], row["optimizer"]) == (job.name, job.optimizer) and float(
            row["target_metric"]
        ) == job.target:
            reached = float(row["target_epoch"] or "nan")
            epochs[int(row["batch_size"])].append(reached if reached <= job.max_epochs else math.inf)
    points: dict[int, list[OperatingPoint]] = defaultdict(list)
    for row in rows(f"summary_power_{gpu}.csv"):
        if (row["dataset"], row["optimizer"]) == (job.name, job.optimizer):
            seconds = float(row["time_per_epoch"])
            setting = Setting(power_limit_w=float(row["power_limit"]))
            points[int(row["batch_size"])].append(
                OperatingPoint(setting, seconds, seconds * float(row["average_power"]))
            )
    sizes = sorted({*epochs} & {*points})
    frontiers = {size: whole(points[size]) for size in sizes}
    limits = [point.setting.power_limit_w or 0.0 for of in points.values() for point in of]
    return Workload(job, gpu, {size: tuple(epochs[size]) for size in sizes}, frontiers, max(limits))


def whole(points: Sequence[OperatingPoint]) -> Frontier:
    """Against the highest limit."""
    highest = max(points, key=lambda point: point.setting.power_limit_w or 0.0)
    return Frontier.of(points, highest.setting)


@cache
def rows(name: str) -> list[dict[str, str]]:
    path = DATA / name
    if not path.exists():
        raise SystemExit(f"{path} is not there: CHASE_DATA must name the folder of the data")
    with path.open() as file:
        return list(csv.DictReader(file))


# -- 1 ----------------------------------------------------------------------------------------------------------------


def joint_saving(work: Workload) -> float:
    """Per cent of energy, of the best batch size and limit whose runs all reach the target."""
    before, _ = work.full_power()
    energies = [
        float(np.mean(work.epochs[size])) * point.joules_per_unit
        for size in work.epochs
        if all(map(math.isfinite, work.epochs[size]))
        for point in work.frontiers[size].points
    ]
    return 100.0 * (1.0 - min(energies) / before)


# -- 2 and 3 ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Took:
    """Of one recurrence: joules and seconds of all its trainings, cost and regret in joules."""

    joules: float
    seconds: float
    regret: float


def simulate(
    work: Workload,
    seed: int,
    *,
    published: bool,
    at_once: int = 1,
    drift: bool = False,
    before: Sequence[Trial] = (),
    kept: list[Trial] | None = None,
) -> list[Took]:
    """All recurrences, ``at_once`` of them together; with ``drift`` the smaller half of sizes treble epochs midway.

    ``before`` are trials on another model of GPU; ``kept`` takes this one's.
    """
    chance = np.random.default_rng([seed, 7])
    spec = Spec(
        batch_sizes=tuple(work.epochs),
        default=work.default,
        max_power_w=work.max_power_w,
        beta=BETA,
        window=20 if not published else 10 if drift else None,
        seed=seed,
        published=published,
    )
    trials: list[Trial] = list(before)
    took: list[Took] = []
    count = work.recurrences
    for first in range(0, count, at_once):
        changed = drift and first >= count // 2
        took.extend([Took(0.0, 0.0, 0.0)] * min(at_once, count - first))
        waiting = list(range(first, len(took)))
        for _ in range(RETRIES):
            begun = [(i, *begin(spec, work, trials)) for i in waiting]
            ended = [(i, *run(work, trial, stop, chance, drifted=changed)) for i, trial, stop in begun]
            known = {trial.number: trial for _, trial, _ in ended}
            trials = [known.get(trial.number, trial) for trial in trials]
            for i, trial, cost in ended:
                took[i] = replace(
                    took[i],
                    joules=took[i].joules + trial.joules,
                    seconds=took[i].seconds + trial.seconds,
                    regret=took[i].regret + cost,
                )
            waiting = [i for i, trial, _ in ended if trial.status is not Status.CONVERGED]
            if not waiting:
                break
    if waiting and not published:
        raise SystemExit(f"{work.job.name} on {work.gpu}: a recurrence never reached the target")
    if kept is not None:
        kept.extend(trials)
    best = [least_cost(work, drifted=drift and i >= count // 2) for i in range(count)]
    return [replace(each, regret=each.regret - cost) for each, cost in zip(took, best, strict=True)]


def begin(spec: Spec, work: Workload, trials: list[Trial]) -> tuple[Trial, float | None]:
    """What is known of an epoch's cost is that of the sizes that were tried before."""
    tried = {trial.batch_size for trial in trials if trial.gpu_model == work.gpu}
    known = {size: work.frontiers[size] for size in tried}
    proposal = propose(spec, trials, eta=ETA, number=len(trials) + 1, gpu_model=work.gpu, epochs=known)
    trial = Trial(len(trials) + 1, proposal.batch_size, gpu_model=work.gpu, stage=proposal.stage)
    trials.append(trial)
    return trial, proposal.stop_above


def run(
    work: Workload, trial: Trial, stop_above: float | None, chance: np.random.Generator, *, drifted: bool
) -> tuple[Trial, float]:
    """The trial as it ended, and its cost."""
    size = trial.batch_size
    drawn = float(chance.choice(work.epochs[size])) * grown(work, size, drifted=drifted)
    at = {"eta": ETA, "max_power_w": work.max_power_w}
    point = min(work.frontiers[size].points, key=lambda p: cost_of(p.joules_per_unit, p.seconds_per_unit, **at))
    per_epoch = cost_of(point.joules_per_unit, point.seconds_per_unit, **at)
    limit = math.inf if stop_above is None else stop_above / per_epoch
    most = work.job.max_epochs * (3.0 if drifted else 1.0)
    epochs = min(drawn, limit, most)
    status = Status.CONVERGED if epochs == drawn else Status.STOPPED if epochs == limit else Status.FAILED
    joules, seconds = epochs * point.joules_per_unit, epochs * point.seconds_per_unit
    return replace(trial, status=status, joules=joules, seconds=seconds, epochs=epochs), epochs * per_epoch


def grown(work: Workload, size: int, *, drifted: bool) -> float:
    sizes = sorted(work.epochs)
    return 3.0 if drifted and sizes.index(size) < len(sizes) / 2 else 1.0


def least_cost(work: Workload, *, drifted: bool) -> float:
    """Of the size of least mean cost at eta, for the regret."""
    at = {"eta": ETA, "max_power_w": work.max_power_w}
    return min(
        float(np.mean(work.epochs[size]))
        * grown(work, size, drifted=drifted)
        * min(cost_of(p.joules_per_unit, p.seconds_per_unit, **at) for p in work.frontiers[size].points)
        for size in work.epochs
    )


def best_known(work: Workload) -> float:
    """Energy of the size and limit of least mean cost, as a share: what a search that knows all of it comes to."""
    at = {"eta": ETA, "max_power_w": work.max_power_w}
    settings = [(size, point) for size, frontier in work.frontiers.items() for point in frontier.points]

    def cost(setting: tuple[int, OperatingPoint]) -> float:
        size, point = setting
        return float(np.mean(work.epochs[size])) * cost_of(point.joules_per_unit, point.seconds_per_unit, **at)

    size, point = min(settings, key=cost)
    return float(np.mean(work.epochs[size])) * point.joules_per_unit / work.full_power()[0]


@dataclass(frozen=True)
class Task:
    """One workload under one search, with the options of ``simulate``."""

    work: Workload
    published: bool
    seeds: int
    options: dict[str, object] = field(default_factory=dict)
    moved_from: Workload | None = None


@dataclass(frozen=True)
class Found:
    """Shares of the energy and time at b0 and full power, in the mean of seeds; regret by recurrence, in its cost.

    ``error`` is the standard error of ``last_five``; ``first`` is the energy of as many recurrences as there are sizes.
    """

    last_five: float
    error: float
    last_five_time: float
    all: float
    first: float
    regret: np.ndarray


def found(task: Task) -> Found:
    work = task.work
    joules, seconds = work.full_power()
    runs = [one(task, seed) for seed in range(1, task.seeds + 1)]
    energy = np.array([[each.joules for each in run] for run in runs]) / joules
    time = np.array([[each.seconds for each in run] for run in runs]) / seconds
    regret = np.cumsum([[each.regret for each in run] for run in runs], axis=1).mean(axis=0)
    scale = cost_of(joules, seconds, eta=ETA, max_power_w=work.max_power_w)
    last = energy[:, -5:].mean(axis=1)
    return Found(
        last_five=float(last.mean()),
        error=float(last.std() / math.sqrt(len(last))),
        last_five_time=float(time[:, -5:].mean()),
        all=float(energy.mean()),
        first=float(energy[:, : len(work.epochs)].mean()),
        regret=regret / scale,
    )


def one(task: Task, seed: int) -> list[Took]:
    before: list[Trial] = []
    if task.moved_from is not None:
        simulate(task.moved_from, seed, published=task.published, kept=before)
    return simulate(task.work, seed, published=task.published, before=before, **task.options)  # type: ignore[arg-type]


def geomean(values: Sequence[float]) -> float:
    return math.exp(float(np.mean(np.log(values))))


def geomean_error(found: Sequence[Found]) -> float:
    """Standard error of the geometric mean of ``last_five``, to first order."""
    relative = math.sqrt(sum((each.error / each.last_five) ** 2 for each in found)) / len(found)
    return geomean([each.last_five for each in found]) * relative


class Claims:
    """Printed as they are judged."""

    def __init__(self) -> None:
        self.missed = 0

    def __call__(self, text: str, good: bool) -> None:
        self.missed += not good
        print(f"{'pass' if good else 'MISS'}  {text}", flush=True)


def report(seeds: int, out: Path | None) -> int:
    claim = Claims()
    works = {gpu: [load(job, gpu) for job in JOBS] for gpu in GPUS}
    print("best batch size and limit on a V100, per cent of energy saved: ours, published")
    for work in works["v100"]:
        ours, theirs = joint_saving(work), JOINT[work.job.name]
        claim(f"{work.job.name:14} {ours:6.2f} {theirs:6.1f}, within 0.1", abs(ours - theirs) <= 0.1)
    curves: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    with ProcessPoolExecutor() as pool:
        for gpu in GPUS:
            curves[gpu] = compare(pool, works[gpu], seeds, claim)
        changing(pool, works["v100"], seeds, claim)
        moving(pool, works, seeds, claim)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        draw(curves, out / "recurrences.png")
    return 1 if claim.missed else 0


def both(
    pool: ProcessPoolExecutor, works: Iterable[Workload], seeds: int, **options: object
) -> tuple[list[Found], list[Found]]:
    """Of each workload, by the paper's search and by ours."""
    tasks = [Task(work, published, seeds, options) for published in (True, False) for work in works]
    done = list(pool.map(found, tasks))
    return done[: len(done) // 2], done[len(done) // 2 :]


def compare(
    pool: ProcessPoolExecutor, works: Sequence[Workload], seeds: int, claim: Claims
) -> dict[str, dict[str, np.ndarray]]:
    gpu = works[0].gpu
    print(f"\n{gpu}, {seeds} seeds: energy of the last five and of all recurrences, shares of b0 at full power")
    print(f"{'':14} {'N':>4} {'paper: last':>11} {'all':>6} {'ours: last':>11} {'all':>6} {'time':>6} {'regret':>14}")
    curves, better = {}, 0
    of_paper, of_ours = both(pool, works, seeds)
    for work, paper, ours in zip(works, of_paper, of_ours, strict=True):
        curves[work.job.name] = {"paper": paper.regret, "ours": ours.regret}
        told = 1.0 + CUMULATIVE[work.job.name] / 100.0 if gpu == "v100" else paper.all
        better += ours.all < told
        print(
            f"{work.job.name:14} {work.recurrences:4} {paper.last_five:11.3f} {paper.all:6.3f} {ours.last_five:11.3f} "
            f"{ours.all:6.3f} {ours.last_five_time:6.3f} {paper.regret[-1]:6.1f} {ours.regret[-1]:6.1f}"
        )
    theirs = LAST_FIVE[gpu]
    paper_mean, mean = (geomean([each.last_five for each in of]) for of in (of_paper, of_ours))
    time = geomean([each.last_five_time for each in of_ours])
    text = f"geometric mean {paper_mean:.4f}, give or take {geomean_error(of_paper):.4f}, published {theirs}"
    claim(f"the paper's search: {text}", abs(paper_mean - theirs) <= TOLERANCE)
    known, error = geomean([best_known(work) for work in works]), geomean_error(of_ours)
    text = f"geometric mean {mean:.4f}, give or take {error:.4f}, at time {time:.3f}; published {theirs}"
    claim(f"ours: {text}, known beforehand {known:.4f}", mean <= theirs + 5e-4)
    against = "the published simulator" if gpu == "v100" else "the paper's search"
    claim(f"all recurrences, exploring included: better than {against} on {better} of 6", better >= 5)
    return curves


def changing(pool: ProcessPoolExecutor, works: Sequence[Workload], seeds: int, claim: Claims) -> None:
    """Half way the smaller half of the sizes takes three times the epochs; and three recurrences at once."""
    options: dict[str, dict[str, object]] = {"costs change midway": {"drift": True}, "three at once": {"at_once": 3}}
    for label, option in options.items():
        print(f"\nv100, {label}: energy of all recurrences, share of b0 at full power before: paper, ours")
        of_paper, of_ours = both(pool, works, seeds, **option)
        for work, paper, ours in zip(works, of_paper, of_ours, strict=True):
            print(f"{work.job.name:14} {paper.all:6.3f} {ours.all:6.3f}")
        better = sum(ours.all < paper.all for paper, ours in zip(of_paper, of_ours, strict=True))
        claim(f"{label}: ours takes less on {better} of 6", better >= 5)


def moving(pool: ProcessPoolExecutor, works: dict[str, list[Workload]], seeds: int, claim: Claims) -> None:
    """After all recurrences on a V100 the job moves to another model; the first |B| recurrences there are looked at."""
    for gpu in GPUS[1:]:
        print(f"\nfrom v100 to {gpu}: energy of the first |B| recurrences, share of b0 at full power: anew, knowing")
        anew = list(pool.map(found, [Task(work, False, seeds) for work in works[gpu]]))
        tasks = [Task(to, False, seeds, {}, before) for to, before in zip(works[gpu], works["v100"], strict=True)]
        known = list(pool.map(found, tasks))
        for work, a, b in zip(works[gpu], anew, known, strict=True):
            print(f"{work.job.name:14} {len(work.epochs):4} {a.first:6.3f} {b.first:6.3f}")
        better = sum(b.first < a.first for a, b in zip(anew, known, strict=True))
        claim(f"to {gpu}: less than beginning anew on {better} of 6", better >= 5)


def draw(curves: dict[str, dict[str, dict[str, np.ndarray]]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(GPUS), len(JOBS), figsize=(15, 9), layout="constrained")
    for gpu, line in zip(GPUS, axes, strict=True):
        for job, ax in zip(JOBS, line, strict=True):
            for name, regret in curves[gpu][job.name].items():
                ax.plot(regret, label=name)
            ax.set_title(f"{job.name}, {gpu}", fontsize=8)
            ax.tick_params(labelsize=7)
    axes[0, 0].legend(fontsize=7)
    figure.supxlabel("recurrences")
    figure.supylabel("regret so far, in trainings at b0 and full power")
    figure.savefig(path, dpi=110)
    print(f"drawn: {path}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="four seeds, too few for the claims of two figures")
    parser.add_argument("--out", type=Path, help="a folder for the picture of the regret")
    options = parser.parse_args(arguments)
    return report(4 if options.quick else options.seeds, options.out)


if __name__ == "__main__":
    sys.exit(main())
