"""The rows of the log, as values: what the controller hands to the store and the CLI reads back.

Times are aware UTC; units are in the names. JSON-like fields hold plain dicts and lists of finite numbers and text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as it registered. ``gpus`` are UUIDs; ``state`` is ``running`` or ``ended``; ``end_reason`` says how."""

    id: str
    name: str
    uid: int
    pid: int
    gpus: tuple[str, ...]
    units: str
    region: str
    registered_at: datetime
    total_units: float | None = None
    units_done: float = 0.0
    policy: dict[str, Any] = field(default_factory=dict)
    state: str = "running"
    ended_at: datetime | None = None
    end_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One decision with all that ``explain`` needs to take it again: ``inputs`` is ``PolicyInput.to_dict()``.

    ``choice`` is ``Choice.to_dict()`` (setting, mode, code, reason, candidates with their costs). ``applied`` maps a
    GPU's UUID to what became of it, empty in observe mode. ``trigger`` is why it was taken now: ``signal``, ``policy``,
    ``hold``, ``job``, ``gpu``, ``profile`` or ``heartbeat``. ``id`` is None until stored.
    """

    at: datetime
    job_id: str
    trigger: str
    mode: str
    policy: str
    code: str
    reason: str
    power_limit_w: float | None
    intensity_g_per_kwh: float | None
    intensity_kind: str
    intensity_age_s: float | None
    inputs: dict[str, Any]
    choice: dict[str, Any]
    applied: dict[str, Any]
    control: str  # "control" or "observe"
    id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRecord:
    """What one job drew over ``[start, end)``, and what that emitted and cost; docs/accounting.md has each figure.

    ``energy_j`` is all its GPUs together, and ``method`` how it was found: ``counter``, ``integrated`` or ``mixed``.
    ``host_energy_j`` was not measured: it is the watts that are configured for the host. Grams and cost are of both,
    times ``pue``, at the newest that is known of this time; ``used_intensity_*`` is what was gone by then.

    The counterfactual ``reference_*`` is the same ``units`` at the reference (full power) point, at the same intensity
    and price; None where no frontier is known. Nothing is booked as a saving while ``progress`` is False (a hang draws
    little and does no work, rule G25). ``price_kind`` is a market, or ``assumed`` where no price was published yet;
    cost is in ``currency``, and less than nothing where the price is. ``embodied_grams`` is this time's part of what
    making the hardware emitted. Whatever is not known is None, or empty text.
    """

    job_id: str
    start: datetime
    end: datetime
    units: float
    energy_j: float
    method: str
    power_limit_w: float | None
    intensity_g_per_kwh: float | None
    intensity_kind: str
    grams: float | None
    reference_energy_j: float | None = None
    reference_s: float | None = None
    reference_grams: float | None = None
    progress: bool = True
    host_energy_j: float = 0.0
    reference_host_energy_j: float | None = None
    pue: float | None = None
    used_intensity_g_per_kwh: float | None = None
    used_intensity_kind: str = ""
    intensity_source: str = ""
    price_per_kwh: float | None = None
    price_kind: str = ""
    currency: str = ""
    cost: float | None = None
    reference_cost: float | None = None
    embodied_grams: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """Something that happened. ``severity`` is ``info``, ``warning`` or ``error``; ``code`` is stable, for grep."""

    at: datetime
    code: str
    severity: str
    message: str
    job_id: str | None = None
    gpu: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRecord:
    """A person's override: ``mode`` is ``speed-first``, ``efficiency-first`` or ``off``; job None means the node."""

    mode: str
    made_at: datetime
    uid: int
    until: datetime | None = None
    job_id: str | None = None
    id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrenceRecord:
    """A job that is trained again and again: whose it is, and what its owner says of it (``spec``).

    Trials from ``first_trial`` on count, those before it are kept and not gone by. ``pinned_batch_size`` is what a
    person wants of all, None where the search has its way.
    """

    key: str
    uid: int
    name: str
    spec: dict[str, Any]
    changed_at: datetime
    pinned_batch_size: int | None = None
    first_trial: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One recurrence: what it tried and what came of it (``zeus_core.trials.Trial``).

    ``energy_j`` and ``duration_s`` are all of it, ``eta`` is what it was chosen by, and ``max_power_w`` the original
    limits of its GPUs, which are of ``gpu_model``. ``metric`` is that of the last of its ``epochs``.
    """

    key: str
    number: int
    job_id: str
    batch_size: int
    stage: str
    status: str
    eta: float
    reason: str
    began_at: datetime
    ended_at: datetime | None = None
    energy_j: float = 0.0
    duration_s: float = 0.0
    epochs: int = 0
    metric: float | None = None
    gpu_model: str = ""
    max_power_w: float = 0.0
