"""What counting adds to a training step, against an empty call and against the peer's; and what importing it costs.

    python benchmarks/step_cost.py [--runs 40] [--calls 50000]

Ours are ``job.step()``, with the reporter thread looking for a service that is not there as in a real run without one,
and the hook by which ``chase exec`` counts a training's optimizer steps. The peer's, where ``zeus`` 0.16 is installed,
are a window begun and ended in each step and its power-limit optimizer's call at each step's begin, both on the
stand-in NVML library (tests/standin: the real calls of ``pynvml``, no hardware). Runs alternate between all of them, so
that whatever else the machine does falls on each. Imports are of fresh processes; memory is what they add to Python's.

Exit status 1 where ours is over its limit: 0.3 us a step, 60 ms and 5 MB of ``chase.client``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

from chase.client import Job

ROOT = Path(__file__).resolve().parent.parent
LIMIT_NS, LIMIT_MS, LIMIT_MB = 300.0, 60.0, 5.0
PEER = "zeus"
MISSING = "not installed (pip install zeus==0.16.0 torch)"
FRESH = 7
IMPORT = """
import sys, time
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
before, began = resident(), time.perf_counter()
__import__(sys.argv[1])
print((time.perf_counter() - began) * 1e3, resident() - before)
"""


class Empty:
    def step(self, n: float = 1) -> None:
        """The call that is there anyway."""

    def hook(self, optimizer: object, args: object, kwargs: object) -> None:
        """The hook that does nothing."""


def call_ns(step: Callable[..., object], calls: int, *args: object) -> float:
    """Nanoseconds of one call, the loop included: it is the same for all."""
    began_ns = time.perf_counter_ns()
    for _ in range(calls):
        step(*args)
    return (time.perf_counter_ns() - began_ns) / calls


Case = tuple[Callable[..., object], tuple[object, ...], int]  # what is called, with what, one in so many of the calls


def ours(stack: ExitStack) -> Iterator[tuple[str, Case]]:
    directory = stack.enter_context(tempfile.TemporaryDirectory())
    job = stack.enter_context(Job("bench", socket=Path(directory) / "none.sock"))
    empty, optimizer = Empty(), object()
    yield "empty call", (empty.step, (), 1)
    yield "job.step()", (job.step, (), 1)
    yield "job.step(32)", (job.step, (32,), 1)
    yield "job.step(0.5)", (job.step, (0.5,), 1)
    yield "empty hook", (empty.hook, (optimizer, (), {}), 1)
    yield "chase exec, hook", (injected(Path(directory)).hook, (optimizer, (), {}), 1)  # type: ignore[attr-defined]


def injected(directory: Path) -> object:
    """What counts in a process under ``chase exec``."""
    path = ROOT / "chase/launch/inject/sitecustomize.py"
    spec = importlib.util.spec_from_file_location("injected", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module._Steps(str(directory))  # noqa: SLF001  what the hook is registered from


def peers(stack: ExitStack) -> Iterator[tuple[str, Case]]:
    """On two stand-in cards, as long as it is there."""
    if importlib.util.find_spec(PEER) is None:
        return
    on_standin(stack)
    import logging

    logging.disable(logging.CRITICAL)
    stack.callback(logging.disable, logging.NOTSET)
    from zeus.monitor import ZeusMonitor  # type: ignore[import-not-found]
    from zeus.optimizer.power_limit import GlobalPowerLimitOptimizer  # type: ignore[import-not-found]

    monitor = ZeusMonitor(gpu_indices=[0], cpu_indices=[], approx_instant_energy=False)

    def window() -> None:
        monitor.begin_window("step", sync_execution=False)
        monitor.end_window("step", sync_execution=False)

    optimizer = GlobalPowerLimitOptimizer(ZeusMonitor(gpu_indices=[1], cpu_indices=[]), wait_steps=10**9)
    optimizer.on_epoch_begin()
    yield "zeus, window", (window, (), 100)
    yield "zeus, optimizer step", (optimizer.on_step_begin, (), 100)


def on_standin(stack: ExitStack) -> None:
    """This process sees the stand-in's cards, by the real calls of ``pynvml``."""
    sys.path.insert(0, str(ROOT / "tests/standin"))
    import standin

    if standin.compiler() is None:
        raise SystemExit("the stand-in NVML library needs a C compiler (cc, gcc or clang)")
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    standin.build(directory)
    state = standin.State.create(directory / "cards", gpus=2, limit_w=300)
    os.environ[standin.STATE_VARIABLE] = str(state.path)


def imported(module: str) -> tuple[float, float, str]:
    """Milliseconds and megabytes: the least of several fresh processes, and both with their medians in words."""
    argv = [sys.executable, "-c", IMPORT, module]
    runs = [
        tuple(map(float, subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()[-2:]))
        for _ in range(FRESH)
    ]
    times, sizes = zip(*runs, strict=True)
    ms, mb = min(times), min(sizes)
    said = f"{ms:.1f} ms (median {statistics.median(times):.1f}), {mb:.1f} MB (median {statistics.median(sizes):.1f})"
    return ms, mb, said


def main() -> int:
    """Print the tables; 1 when ours is over a limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--calls", type=int, default=50_000)
    options = parser.parse_args()
    with ExitStack() as stack:
        cases = {**dict(ours(stack)), **dict(peers(stack))}
        times: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(options.runs):
            for name, (step, args, one_in) in cases.items():
                times[name].append(call_ns(step, max(1, options.calls // one_in), *args))
    return report(times) | report_imports()


def report(times: dict[str, list[float]]) -> int:
    least = {name: min(runs) for name, runs in times.items()}
    median = {name: statistics.median(runs) for name, runs in times.items()}
    print(f"Python {platform.python_version()}, {len(times['empty call'])} runs each, ns a call")
    print(f"{'':22}{'least':>10}{'median':>10}{'over empty':>12}")
    for name in times:
        base = "empty hook" if "hook" in name else "empty call"
        print(f"{name:22}{least[name]:10.1f}{median[name]:10.1f}{least[name] - least[base]:12.1f}")
    added = {name: least[name] - least["empty call"] for name in ("job.step()", "job.step(32)")}
    added["chase exec, hook"] = least["chase exec, hook"] - least["empty hook"]
    worst = max(added.values())
    print(f"a step adds {worst:.0f} ns at the least; the limit is {LIMIT_NS:.0f} ns")
    peers_ns = {name: ns for name, ns in least.items() if name.startswith(PEER)}
    if not peers_ns:
        print(f"zeus: {MISSING}")
    for name, ns in peers_ns.items():
        print(f"{name}: {ns / 1e3:.1f} us, {ns / worst:.0f} times as much")
    return int(worst > LIMIT_NS)


def report_imports() -> int:
    ms, mb, said = imported("chase.client")
    print(f"import chase.client adds {said}; the limits are {LIMIT_MS:.0f} ms and {LIMIT_MB:.0f} MB")
    if importlib.util.find_spec(PEER) is not None:
        peer_ms, peer_mb, peer_said = imported("zeus.monitor")
        print(f"import zeus.monitor adds {peer_said}: {peer_ms / ms:.0f} and {peer_mb / mb:.0f} times as much")
    return int(ms > LIMIT_MS or mb > LIMIT_MB)


if __name__ == "__main__":
    raise SystemExit(main())
