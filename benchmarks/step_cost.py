"""What ``job.step()`` adds to a training step, against an empty call: nanoseconds, the least and median of many runs.

Runs alternate between the two, so that whatever else the machine does falls on both. The job is started, with its
reporter thread looking for a service that is not there, as in a real run without one.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from chase.client import Job

LIMIT_NS = 300.0


class Empty:
    def step(self, n: float = 1) -> None:
        """The call that is there anyway."""


def call_ns(step: Callable[..., None], calls: int, *args: object) -> float:
    """Nanoseconds of one call, the loop included: it is the same for all."""
    began_ns = time.perf_counter_ns()
    for _ in range(calls):
        step(*args)
    return (time.perf_counter_ns() - began_ns) / calls


def main() -> int:
    """Print the table; 1 when a step costs more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--calls", type=int, default=50_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, Job("bench", socket=Path(directory) / "none.sock") as job:
        cases = {
            "empty call": (Empty().step, ()),
            "job.step()": (job.step, ()),
            "job.step(32)": (job.step, (32,)),
            "job.step(0.5)": (job.step, (0.5,)),
        }
        times: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(options.runs):
            for name, (step, args) in cases.items():
                times[name].append(call_ns(step, options.calls, *args))
    return report(times)


def report(times: dict[str, list[float]]) -> int:
    least = {name: min(runs) for name, runs in times.items()}
    median = {name: statistics.median(runs) for name, runs in times.items()}
    print(f"Python {platform.python_version()}, {len(times['empty call'])} runs each, ns a call")
    print(f"{'':16}{'least':>8}{'median':>8}{'over empty':>12}{'ratio':>8}")
    for name in times:
        over = median[name] - median["empty call"]
        print(f"{name:16}{least[name]:8.1f}{median[name]:8.1f}{over:12.1f}{median[name] / median['empty call']:8.2f}")
    worst = max(least[name] - least["empty call"] for name in ("job.step()", "job.step(32)"))
    print(f"a whole step adds {worst:.0f} ns at the least; the limit is {LIMIT_NS:.0f} ns")
    return int(worst > LIMIT_NS)


if __name__ == "__main__":
    raise SystemExit(main())
