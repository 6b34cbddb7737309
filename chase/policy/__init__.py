"""Which point of the frontier to run at now: ``choose`` is pure, so that any decision can be taken again."""

from __future__ import annotations

from chase.policy.base import (
    AGREED,
    BETWEEN,
    EFFICIENCY,
    FOLLOWS,
    LEADS,
    NODE_CAP,
    OFF,
    PAUSED,
    PROFILING,
    SPEED,
    Candidate,
    Choice,
    Grid,
    PolicyInput,
    Progress,
    Rules,
)
from chase.policy.budget import Allowance, Planned, allowance, planned
from chase.policy.decide import choose, under_cap
from chase.policy.rules import threshold_g

__all__ = [
    "AGREED",
    "BETWEEN",
    "EFFICIENCY",
    "FOLLOWS",
    "LEADS",
    "NODE_CAP",
    "OFF",
    "PAUSED",
    "PROFILING",
    "SPEED",
    "Allowance",
    "Candidate",
    "Choice",
    "Grid",
    "Planned",
    "PolicyInput",
    "Progress",
    "Rules",
    "allowance",
    "choose",
    "planned",
    "threshold_g",
    "under_cap",
]
