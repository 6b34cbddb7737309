"""How long a plan takes, beside scipy's HiGHS on the same linear program, from one run.

    python benchmarks/plan.py

A V100's published curve and a made-up one of twelve levels, on seven days of a grid with a daily wave and noise: hours,
and slots of five minutes. Both solve for the same work in the same time; HiGHS is given the program with all slots to
be run through, our plan also chooses the end. Exit status 1 if a plan of 5-minute slots takes more than 5 ms or costs
more than HiGHS's.
"""

from __future__ import annotations

import sys
import time
from statistics import median

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from zeus_core.budget import Levels, Slots, solve
from zeus_core.frontier import OperatingPoint, Setting

V100 = (
    (250, 3515, 220.3),
    (225, 3584, 205.4),
    (200, 3701, 184.9),
    (175, 3852, 166.4),
    (150, 4149, 144.6),
    (100, 6781, 98.4),
)
REPEATS, SLOWER = 21, 1.05
LIMIT_MS = 5.0


def v100() -> Levels:
    """ResNet-50, batch 256, of the Zeus artifact: limit in W, seconds an epoch, mean draw in W."""
    return Levels.of(OperatingPoint(Setting(power_limit_w=limit), s, s * watts) for limit, s, watts in V100)


def twelve() -> Levels:
    """Power with the cube of the rate, above idle: each of twelve points is on the hull."""
    return Levels.of(
        OperatingPoint(Setting(power_limit_w=float(round(1000 * r))), 1.0 / r, (60.0 + 240.0 * r**3) / r)
        for r in np.linspace(0.5, 1.0, 12)
    )


def week(step_s: float) -> Slots:
    count = round(7 * 86400 / step_s)
    noise = np.random.default_rng(0).normal(0.0, 30.0, count)
    g_per_kwh = 300.0 + 120.0 * np.sin(2 * np.pi * np.arange(count) * step_s / 86400.0) + noise
    return Slots(np.full(count, step_s), g_per_kwh / 3.6e6, count)


def program(levels: Levels, slots: Slots, work: float) -> float:
    """Shares of each slot at each level, scaled to the order of one: HiGHS is far slower without."""
    n, k = len(slots.seconds), len(levels.rate)
    share = csr_array((np.ones(n * k), (np.repeat(np.arange(n), k), np.arange(n * k))))
    done = np.outer(slots.seconds, levels.rate).ravel() / work
    cost = np.outer(slots.seconds * slots.price, levels.power_w).ravel()
    scale = float(cost.max())
    found = linprog(
        cost / scale, A_eq=vstack([share, csr_array(done[None] * n)]), b_eq=[*np.ones(n), n], method="highs-ds"
    )
    return float(found.fun) * scale


def main() -> int:
    ok = True
    print(f"{'':<28} {'slots':>6} {'levels':>6} {'ours ms':>9} {'HiGHS ms':>9} {'ratio':>7}  cost, ours to HiGHS")
    for name, levels in (("V100 ResNet-50", v100()), ("twelve levels", twelve())):
        for step_s in (3600.0, 300.0):
            slots = week(step_s)
            work = float(levels.rate[-1] * slots.seconds.sum()) / SLOWER
            ours_ms, cost = _timed(lambda: solve(levels, slots, work).cost, REPEATS)  # noqa: B023  called at once
            highs_ms, least = _timed(lambda: program(levels, slots, work), 3)  # noqa: B023
            print(
                f"{name + f', {step_s / 60:.0f} min':<28} {len(slots.seconds):6} {len(levels.rate):6} {ours_ms:9.2f}"
                f" {highs_ms:9.1f} {highs_ms / ours_ms:6.0f}x  {cost / least:.9f}"
            )
            ok &= cost <= least * (1 + 1e-9) and ours_ms <= LIMIT_MS
    return 0 if ok else 1


def _timed(what: object, repeats: int) -> tuple[float, float]:
    """Median milliseconds of CPU, and what it came to."""
    taken, value = [], 0.0
    for _ in range(repeats):
        began = time.process_time()
        value = what()  # type: ignore[operator]
        taken.append((time.process_time() - began) * 1e3)
    return median(taken), value


if __name__ == "__main__":
    sys.exit(main())
