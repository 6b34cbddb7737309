"""``make gpu-check``: what this machine's NVIDIA GPUs say, without changing anything.

Read-only throughout: the readings, the meter's two methods against each other, the service in observe mode over the
real driver, and what a training step pays. It prints a report to keep; exit status 1 where something does not add up.
"""

from __future__ import annotations

import dataclasses
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

from chase import __version__
from chase.client import Job
from chase.config import load
from chase.service import Service
from zeus_core.gpus.base import Gpu, GpuError, GpuSystem, NotSupported
from zeus_core.gpus.nvml import NvmlSystem
from zeus_core.meter import EnergyMeter

METER_S = 10.0
SAMPLE_S = 0.1
AGREE = 0.10  # counter and integrated power may differ by so much over ten seconds
OBSERVE_S = 6.0
STEPS = 1_000_000


def main(
    out: TextIO = sys.stdout, *, meter_s: float = METER_S, observe_s: float = OBSERVE_S, steps: int = STEPS
) -> int:
    """Exit status: 0 all well, 1 something does not add up, 2 no GPU to ask."""
    out.write(f"chase {__version__} gpu-check, Python {platform.python_version()}, read-only\n")
    try:
        system = NvmlSystem()
        gpus = system.gpus()
    except GpuError as error:
        out.write(f"no NVIDIA GPU can be asked: {error}\n")
        return 2
    before = [gpu.power_limit_w() for gpu in gpus]
    for gpu in gpus:
        readings(gpu, out)
    fine = meter(gpus, out, meter_s)
    fine &= observe(system, out, observe_s)
    step_cost(out, steps)
    untouched = [gpu.power_limit_w() for gpu in gpus] == before
    out.write(f"power limits after all this: {'as before' if untouched else 'CHANGED, BY SOMEBODY'}\n")
    system.close()
    return 0 if fine and untouched else 1


def readings(gpu: Gpu, out: TextIO) -> None:
    out.write(f"\nGPU {gpu.index} {gpu.name} {gpu.uuid} {gpu.pci_bus_id}\n")
    out.writelines(f"  {name:<22} {_said(gpu, read)}\n" for name, read in _READINGS.items())


def _said(gpu: Gpu, read: Callable[[Gpu], object]) -> str:
    began = time.perf_counter()
    try:
        value = str(read(gpu))
    except GpuError as error:
        value = f"{type(error).__name__}: {error}"
    return f"{value}  ({(time.perf_counter() - began) * 1e3:.1f} ms)"


def _limits(gpu: Gpu) -> str:
    limits = gpu.power_limits()
    return f"{limits.min_w:g} to {limits.max_w:g} W, default {limits.default_w:g} W, headroom {limits.headroom:.0%}"


def _clocks(gpu: Gpu) -> str:
    supported = gpu.supported_sm_clocks_mhz()
    return f"{gpu.sm_clock_mhz()} MHz of {supported[0]} to {supported[-1]} ({len(supported)} steps)"


_READINGS: dict[str, Callable[[Gpu], object]] = {
    "power limits": _limits,
    "limit requested": lambda gpu: f"{gpu.power_limit_w():g} W",
    "limit enforced": lambda gpu: f"{gpu.enforced_power_limit_w():g} W",
    "draw": lambda gpu: f"{gpu.power_w():.1f} W",
    "energy counter": lambda gpu: f"{gpu.energy_j():.3f} J",
    "SM clock": _clocks,
    "utilisation": lambda gpu: f"{gpu.utilisation():.0%}",
    "throttle reasons": lambda gpu: ", ".join(sorted(gpu.throttle_reasons())) or "none",
    "processes": lambda gpu: len(gpu.processes()),
    "persistence mode": lambda gpu: "on" if gpu.persistence() else "off: limits are lost when the driver unloads",
    "MIG": lambda gpu: "on" if gpu.mig_enabled() else "off",
}


def meter(gpus: Sequence[Gpu], out: TextIO, seconds: float) -> bool:
    """The hardware counter and the integral of the power readings over the same time."""
    counted = EnergyMeter(gpus)
    integrated = EnergyMeter([cast("Gpu", _WithoutCounter(gpu)) for gpu in gpus])
    out.write(f"\nmeter over {seconds:g} s, power read every {SAMPLE_S:g} s:\n")
    counted.begin("check")
    integrated.begin("check")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(SAMPLE_S)
        integrated.sample()
    by_counter, by_power = counted.end("check"), integrated.end("check")
    fine = True
    for gpu in gpus:
        ours, other = by_counter.joules[gpu.uuid], by_power.joules[gpu.uuid]
        ratio = ours / other if other else float("nan")
        agrees = by_counter.method[gpu.uuid] == "integrated" or abs(ratio - 1) <= AGREE
        fine &= agrees
        flags = ", ".join(sorted(by_counter.flags[gpu.uuid])) or "none"
        out.write(
            f"  GPU {gpu.index}: {by_counter.method[gpu.uuid]} {ours:.1f} J, integrated {other:.1f} J, "
            f"ratio {ratio:.3f}{'' if agrees else ' DISAGREE'}, flags {flags}\n"
        )
    return fine


class _WithoutCounter:
    """A GPU as it would be without an energy counter."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def energy_j(self) -> float:
        raise NotSupported("left out for the comparison", uuid=self._gpu.uuid, call="energy_j")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gpu, name)


class _Kept:
    """The same GPUs for a service that closes its own when it stops."""

    def __init__(self, system: GpuSystem) -> None:
        self.kind = system.kind
        self.gpus = system.gpus

    def close(self) -> None: ...


def observe(system: GpuSystem, out: TextIO, seconds: float) -> bool:
    """The whole service over the real driver, deciding and touching nothing."""
    with tempfile.TemporaryDirectory(prefix="chase-check-") as name:
        folder = Path(name)
        settings = {
            "service.mode": "observe",
            "service.state_dir": folder,
            "service.run_dir": folder,
            "control.interval_s": 1.0,
            "control.account_s": 1.0,
            "profile.window_s": 1.0,
            "jobs.report_s": 0.5,
        }
        loaded = load(region="gb", overrides=settings, env={})
        # No network on purpose: the region's typical profile is signal enough.
        loaded = dataclasses.replace(loaded, region=loaded.region.model_copy(update={"sources": ()}))
        service = Service(loaded, system=_Kept(system))
        service.startup()
        try:
            uuids = [gpu.uuid for gpu in system.gpus()]
            with Job("gpu-check", gpus=uuids, socket=loaded.config.service.socket_path, env={}) as job:
                _count(job, seconds)
            decisions = service.store.decisions()
            intervals = service.store.intervals()
        finally:
            service.shutdown()
    joules = sum(row.energy_j for row in intervals)
    out.write(
        f"\nobserve mode for {seconds:g} s: {len(decisions)} decision(s), {len(intervals)} interval(s), {joules:.1f} J "
        f"({', '.join(sorted({row.method for row in intervals})) or 'nothing'})\n"
    )
    out.writelines(f"  {decision.code}: {decision.reason}\n" for decision in decisions)
    return bool(decisions) and joules > 0


def _count(job: Job, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
        job.step()


def step_cost(out: TextIO, steps: int) -> None:
    """``job.step()`` against an empty call, without a service."""
    job = Job("step-cost", socket="/nonexistent", env={})

    def empty() -> None: ...

    def timed(call: Callable[[], None]) -> float:
        began = time.perf_counter()
        for _ in range(steps):
            call()
        return (time.perf_counter() - began) / steps * 1e9

    bare, step = min(timed(empty) for _ in range(3)), min(timed(job.step) for _ in range(3))
    out.write(f"\nstep cost: {step:.0f} ns, an empty call {bare:.0f} ns, {step - bare:.0f} ns over it (bound: 300)\n")


if __name__ == "__main__":
    sys.exit(main())
