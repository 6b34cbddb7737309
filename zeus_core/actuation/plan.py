"""What a wish comes down to on one GPU, within its live limits, its original and the ramp. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zeus_core.actuation.base import ActuationError, Wish
from zeus_core.gpus.base import PowerLimits

BURST_S = 1.0
"""A rise may use at most this much of the ramp at once, however long ago the last change was."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do for a wish, and what to go back to.

    ``limit_w`` None leaves the limit alone; ``clocks_mhz`` are lock bounds, None is no lock. ``fresh`` says that
    nothing of ours was in force before.
    """

    wish: Wish
    limits: PowerLimits
    current_w: float
    limit_w: float | None
    ramping: bool
    clocks_mhz: tuple[int, int] | None
    clocks_before: tuple[int, int] | None
    fresh: bool
    detail: str


def goal_w(
    wish_w: float | None, *, current_w: float, original_w: float | None, limits: PowerLimits
) -> tuple[float, str]:
    """The limit to end at, and a remark. ``original_w`` is None while the power lever is untouched.

    The limit found first is the ceiling, whatever the driver would allow; where it allows none below, all stays.
    """
    if wish_w is None and original_w is None:
        return current_w, ""
    ceiling_w = current_w if original_w is None else original_w
    if limits.min_w > ceiling_w:
        return current_w, f"no headroom: the driver allows no less than {limits.min_w:g} W"
    return min(limits.clamp(ceiling_w if wish_w is None else wish_w), ceiling_w), ""


def ramped_w(
    target_w: float, *, current_w: float, limits: PowerLimits, ramp_w_per_s: float, since_change_s: float
) -> float:
    """As much of the way to ``target_w`` as is allowed now: rises are rationed (rule G26), falls are not."""
    if ramp_w_per_s <= 0 or target_w <= current_w:
        return target_w
    allowed_w = current_w + ramp_w_per_s * min(BURST_S, since_change_s)
    return min(target_w, max(allowed_w, limits.min_w))


def check_wish(uuid: str, wish: Wish) -> None:
    """Raises ``ActuationError`` for numbers that mean nothing."""
    limit_w, clock_mhz = wish.power_limit_w, wish.sm_clock_mhz
    if limit_w is not None and not (math.isfinite(limit_w) and limit_w > 0):
        raise ActuationError(f"power_limit_w of {uuid} must be finite and positive, not {limit_w!r}")
    if clock_mhz is not None and clock_mhz <= 0:
        raise ActuationError(f"sm_clock_mhz of {uuid} must be positive, not {clock_mhz!r}")
