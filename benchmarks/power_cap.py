"""How long the choice under a node's power cap takes, against a general solver (HiGHS) on the same nodes.

Curves are those of a published sweep of an A40 (``config/profiles``), stretched and shaken for each job; "even" are
curves on which every watt buys the same, the worst case of the search. The cap lies anywhere between the least and the
most that all jobs can draw.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import time

import numpy as np
from scipy.optimize import LinearConstraint, milp

from chase.config import profile_path
from zeus_core.gpus.simulated import load_profile
from zeus_core.power_cap import Option, fit

LIMIT_MS = 5.0  # for 8 jobs of 12 options, in the median
Jobs = list[list[Option]]


def measured(draw: random.Random, options: int) -> list[Option]:
    """A job's options: the lost share of its speed against its power."""
    profile = load_profile(profile_path("a40-resnet50"))
    step_w = (profile.max_w - profile.min_w) / (options - 1)
    limits = [profile.min_w + step_w * k for k in range(options)]
    stretch, fastest = draw.uniform(0.8, 1.2), profile.rate_at(profile.max_w)
    shaken = [(profile.watts_at(w) * stretch * draw.uniform(0.99, 1.01), profile.rate_at(w)) for w in limits]
    return [Option(power_w, 1.0 - rate / fastest) for power_w, rate in sorted(shaken)]


def even(draw: random.Random, options: int) -> list[Option]:
    return [Option(power_w, -power_w) for power_w in sorted(draw.uniform(100.0, 400.0) for _ in range(options))]


def by_highs(jobs: Jobs, cap_w: float) -> float:
    """The least cost, as a mixed integer program: one option of each job, and the powers within the cap."""
    job_of = np.repeat(np.arange(len(jobs)), [len(job) for job in jobs])
    options = [option for job in jobs for option in job]
    one_each = LinearConstraint((job_of == np.arange(len(jobs))[:, None]).astype(float), 1, 1)
    within = LinearConstraint(np.array([[option.power_w for option in options]]), -np.inf, cap_w)
    cost = np.array([option.cost for option in options])
    found = milp(cost, integrality=np.ones(len(options)), bounds=(0, 1), constraints=[one_each, within])
    return float(found.fun)


def case(name: str, count: int, options: int, runs: int) -> float:
    """Print one line; the median in milliseconds."""
    draw, ours_ms, theirs_ms, off = random.Random(4), [], [], []
    for _ in range(runs):
        jobs = [(even if name == "even" else measured)(draw, options) for _ in range(count)]
        cap_w = draw.uniform(sum(job[0].power_w for job in jobs), sum(job[-1].power_w for job in jobs))
        began_s = time.perf_counter()
        found = fit(jobs, cap_w)
        between_s = time.perf_counter()
        other = by_highs(jobs, cap_w)
        ours_ms.append((between_s - began_s) * 1e3)
        theirs_ms.append((time.perf_counter() - between_s) * 1e3)
        most = sum(max(o.cost for o in job) - min(o.cost for o in job) for job in jobs)
        off.append((found.cost - other) / most)
    row = f"{name:<10}{count:>5}{options:>9}{min(ours_ms):>9.2f}{statistics.median(ours_ms):>9.2f}{max(ours_ms):>9.2f}"
    print(f"{row}{statistics.median(theirs_ms):>9.2f}{max(off):>12.4%}")
    return statistics.median(ours_ms)


def main() -> int:
    """1 when 8 jobs of 12 options take longer than the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    runs = parser.parse_args().runs
    fit([[Option(1.0, 1.0), Option(2.0, 0.0)]], 1.5)  # what is loaded once is loaded now
    print(
        f"Python {platform.python_version()}, {runs} nodes each, ms; off: the most that ours costs more, of the range"
    )
    print(f"{'curves':<10}{'jobs':>5}{'options':>9}{'least':>9}{'median':>9}{'most':>9}{'HiGHS':>9}{'off':>12}")
    judged = case("measured", 8, 12, runs)
    for name, count, options in (("even", 8, 12), ("measured", 64, 16)):
        case(name, count, options, max(1, runs // count))
    return 0 if judged <= LIMIT_MS else 1


if __name__ == "__main__":
    raise SystemExit(main())
