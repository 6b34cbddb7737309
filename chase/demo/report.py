"""What the demo says at the end: read from the database, as anybody could."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TextIO

from chase.cli.chart import plan_chart
from chase.config import RegionConfig
from chase.explain import explain
from chase.plan_report import NoPlan, plan_report
from chase.policy import BETWEEN, EFFICIENCY, PROFILING, SPEED
from chase.records import DecisionRecord, JobRecord
from chase.report import frontier_of, job_report
from chase.store import Reader
from zeus_core.frontier import Frontier
from zeus_core.gpus.simulated import SimulatedGpu

_SHOWN, _WIDE, _HEIGHTS = 14, 90, (3, 3)
_CHOSEN = frozenset({SPEED, EFFICIENCY, BETWEEN})


class Day(Protocol):
    """What is reported of: one region's service after it was shut down."""

    region: RegionConfig
    db: Path
    job_id: str
    gpus: tuple[SimulatedGpu, ...]
    originals: list[float]

    @property
    def given_back(self) -> bool: ...


def report(day: Day, out: TextIO) -> None:
    with Reader(day.db) as log:
        decisions = log.decisions(job=day.job_id)
        job, frontier = log.job(day.job_id), frontier_of(log, day.job_id)
        told = list(job_report(log, job).lines()) if job is not None else []
    out.write(f"\n=== {day.region.name}: resnet50 on {len(day.gpus)} x {day.gpus[0].name}\n\n")
    _measured(decisions, frontier, out)
    chosen = [d for d in decisions if d.mode in _CHOSEN]
    _moved(chosen, out)
    if chosen and job is not None:
        _explained(chosen, out)
        _planned(replace(job, ended_at=None), chosen[0], out)
    out.write(f"\nchase report {day.job_id[:8]}:\n")
    out.writelines(f"    {line}\n" for line in told)
    limits = ", ".join(f"{gpu.power_limit_w():g} W" for gpu in day.gpus)
    found = ", ".join(f"{limit:g} W" for limit in day.originals)
    out.write(f"\ngiven back at {limits} (found at {found})\ndatabase: {day.db}\n")
    out.write(f"  chase decisions --db {day.db}\n")


def _measured(decisions: Sequence[DecisionRecord], frontier: Frontier | None, out: TextIO) -> None:
    if frontier is None:
        out.write("the frontier was not measured to its end\n")
        return
    began = next(d.at for d in decisions if d.mode == PROFILING)
    ended = next(d.at for d in decisions if d.mode in _CHOSEN)
    hours = (ended - began).total_seconds() / 3600
    out.write(f"frontier, measured while training in {hours:.1f} simulated hours (* is on the hull):\n")
    out.write("      limit   samples/s   J/sample   slowdown\n")
    for point in frontier.points:
        mark = "*" if point in frontier.hull else " "
        out.write(
            f"    {mark} {point.setting!s:<7} {point.rate:9.0f}   {point.joules_per_unit:8.4f}"
            f"   {frontier.slowdown(point):+8.1%}\n"
        )


def _moved(decisions: Sequence[DecisionRecord], out: TextIO) -> None:
    """The decisions that changed something, from midnight on."""
    changes = [d for last, d in zip([None, *decisions], decisions, strict=False) if last is None or last.mode != d.mode]
    out.write(f"\n{len(decisions)} decisions after that; those that changed the mode:\n")
    out.write("      id  time (UTC)  g/kWh  limit   mode              why\n")
    for d in changes[:_SHOWN]:
        grams = "-" if d.intensity_g_per_kwh is None else f"{d.intensity_g_per_kwh:.0f}"
        limit = "-" if d.power_limit_w is None else f"{d.power_limit_w:g} W"
        out.write(f"    {d.id:>4}  {d.at:%d. %H:%M}   {grams:>5}  {limit:<6}  {d.mode:<16}  {d.code}\n")


def _explained(chosen: Sequence[DecisionRecord], out: TextIO) -> None:
    """The first that was slower than full speed."""
    slower = next((d for d in chosen if d.mode != SPEED), chosen[0])
    out.write(f"\nchase explain {slower.id}:\n")
    out.writelines(f"    {line}\n" for line in explain(slower).lines())


def _planned(job: JobRecord, decision: DecisionRecord, out: TextIO) -> None:
    """As it was when the frontier had just been measured."""
    try:
        plan = plan_report(job, decision)
    except NoPlan as reason:
        out.write(f"\nno plan: {reason}\n")
        return
    out.write("\nchase plan, right after the frontier was measured:\n")
    lines = plan_chart(plan, plan.shown(), width=_WIDE, heights=_HEIGHTS, encoding=out.encoding or "utf-8")
    drawn = [line.axis + line.bars for line in lines]
    out.writelines(f"    {line}".rstrip() + "\n" for line in [*plan.head(), "", *drawn, "", *plan.tail()])
