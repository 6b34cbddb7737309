"""A sweep as a process of its own, for a test that ends it: FILE of results, TRACE and PROFILE; says how far it is."""

from __future__ import annotations

import sys
from pathlib import Path

from sweep_cases import many

from chase.replay.engine import Processes
from chase.replay.results import Results
from chase.replay.sweep import run_sweep


def told(progress):
    sys.stdout.write(f"{progress.done}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    file, trace, profile = sys.argv[1:]
    with Processes(2) as engine, Results(Path(file)) as results:
        run_sweep(many(trace, profile), engine, results, chunk_s=0.01, watch=told)
