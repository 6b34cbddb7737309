"""What the service shows of itself: plain dicts with stable keys, for the API and the CLI."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from chase.controller import Controller
from chase.jobs import Job
from chase.outlook import describe
from chase.records import HoldRecord, RecurrenceRecord
from zeus_core.actuation.base import GpuState


def status_dict(controller: Controller, facts: dict[str, Any]) -> dict[str, Any]:
    """Service, signal, GPUs, jobs, holds. ``facts`` are those of the process: version, pid, uptime, database."""
    control, reason = controller.control
    states = controller.states
    return {
        "service": {
            **facts,
            "control": control,
            "control_reason": reason,
            "gpus": controller.system.kind,
            "simulated": controller.system.kind == "simulated",
        },
        "signal": {region: _signal(controller, region) for region in controller.signals},
        "gpus": [_gpu(controller, uuid, states.get(uuid)) for uuid in controller.gpus],
        "jobs": [job_dict(job) for job in controller.jobs],
        "holds": [hold_dict(hold) for hold in controller.holds],
    }


def job_dict(job: Job) -> dict[str, Any]:
    profiler, frontier = job.profiler, job.frontier  # once: the controller's thread may change them meanwhile
    measuring = profiler.progress if profiler else None
    return {
        "id": job.id,
        "name": job.name,
        "uid": job.uid,
        "pid": job.pid,
        "gpus": list(job.gpus),
        "region": job.region,
        "units": job.units,
        "units_done": job.units_done,
        "total_units": job.total_units,
        "registered_at": _iso(job.registered_at),
        "mode": job.mode or "off",
        "setting": job.setting.to_dict() if job.setting else {},
        "in_force_w": job.in_force.power_limit_w if job.in_force else None,
        "reason": job.reason,
        "policy": job.policy_config.name,
        "frontier": job.frontier_source
        if frontier
        else f"measuring {measuring[0]} of {measuring[1]}"
        if measuring
        else "none",
        "energy_j": job.energy_j,
        "decisions": job.decisions,
    }


def recurrence_dict(record: RecurrenceRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "uid": record.uid,
        "spec": record.spec,
        "pinned_batch_size": record.pinned_batch_size,
        "first_trial": record.first_trial,
    }


def hold_dict(hold: HoldRecord) -> dict[str, Any]:
    return {
        "mode": hold.mode,
        "until": _iso(hold.until),
        "job": hold.job_id,
        "uid": hold.uid,
        "made_at": _iso(hold.made_at),
    }


def _gpu(controller: Controller, uuid: str, state: GpuState | None) -> dict[str, Any]:
    gpu = controller.gpus[uuid]
    return {
        "uuid": uuid,
        "index": gpu.index,
        "name": gpu.name,
        "pci_bus_id": gpu.pci_bus_id,
        "power_limit_w": state.power_limit_w if state else None,
        "enforced_w": state.enforced_w if state else None,
        "min_w": state.min_w if state else None,
        "max_w": state.max_w if state else None,
        "default_w": state.default_w if state else None,
        "original_w": state.original_w if state else None,
        "foreign_w": state.foreign_w if state else None,
        "can_set": state.can_set if state else False,
        "reason": state.reason if state else "not seen yet",
        "mig_uuids": list(controller.slices.get(uuid, ())),
        "jobs": [job.id for job in controller.jobs.on_gpu(uuid)],
    }


def _signal(controller: Controller, region: str) -> dict[str, Any]:
    signal = controller.signals[region]
    shown = describe(signal.outlook())
    sources = [_timed(facts) for facts in signal.describe_sources()]
    return {**_timed(shown), "sources": sources}


def _timed(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: _iso(value) if isinstance(value, datetime) else value for key, value in facts.items()}


def _iso(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None
