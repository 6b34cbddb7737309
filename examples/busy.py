"""A small "training" loop on the CPU, with the real client: shows what the service asks of it as it changes.

chase exec -- python examples/busy.py --seconds 120
"""

from __future__ import annotations

import argparse
import math
import time
from datetime import UTC, datetime

from chase.client import Job


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after this long (60)")
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps instead")
    parser.add_argument("--step-ms", type=float, default=20.0, help="work of one step (20)")
    return parser.parse_args()


def work(step_s: float) -> float:
    """Keep the CPU busy, as a training step would a GPU."""
    until_s = time.perf_counter() + step_s
    loss = 1.0
    while time.perf_counter() < until_s:
        loss = math.sin(loss) + 1e-9
    return loss


def wish(job: Job) -> str:
    return f"{job.mode}: {job.setting}" if job.connected else "no service"


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def main() -> None:
    options = parse()
    until_s = time.monotonic() + options.seconds
    shown = ""
    with Job("busy", total_units=options.steps) as job:
        while job.units_done < options.steps if options.steps else time.monotonic() < until_s:
            work(options.step_ms / 1000)
            job.step()
            if wish(job) != shown and (job.connected or shown):
                shown = wish(job)
                say(f"{shown} ({job.reason})" if job.connected and job.reason else shown)
    say(f"{job.units_done:.0f} steps")


if __name__ == "__main__":
    main()
