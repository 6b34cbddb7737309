"""How much a recurrence that begins now should save rather than hurry: Zeus's eta, by how clean its hours will be.

Notation:

    eta     weight of energy against time in Zeus's cost (papers B.1, eq 2); 0 is time alone, 1 energy alone
    m       mean intensity that is expected of the hours that a recurrence takes                  [g/kWh]
    q       share of the remembered hours that were cleaner than m

Speed-first is one eta and efficiency-first another: the first applies in the cleanest third of the hours (q up to 1/3),
the second in the dirtiest (q from 2/3 on), and between them it goes evenly from one to the other.
"""

from __future__ import annotations

import numpy as np

from chase.figures import duration
from chase.outlook import Outlook
from chase.policy import EFFICIENCY, SPEED

_DAY_S = 86400.0
_FEW = 24  # remembered hours, of which nothing can be told


def eta_of(
    outlook: Outlook, *, speed_first: float, efficiency_first: float, expected_s: float | None, without_signal: str
) -> tuple[float, str]:
    """The eta and why, in words. ``expected_s`` is how long a recurrence takes; None is taken for a day."""
    span_s = expected_s or _DAY_S
    dirty = _dirtiness(outlook, span_s)
    if dirty is None:
        eta = speed_first if without_signal == SPEED else efficiency_first
        why = f"of the grid's last weeks fewer than {_FEW} hours are known, or none of those ahead"
        return eta, f"eta {eta:g}: {why}; the owner's default is {without_signal}"
    eta = speed_first + (efficiency_first - speed_first) * min(max(3.0 * dirty - 1.0, 0.0), 1.0)
    mode = SPEED if eta == speed_first else EFFICIENCY if eta == efficiency_first else "between both"
    hours = f"the next {duration(span_s)} are dirtier than {dirty:.0%} of the last weeks' hours"
    return eta, f"eta {eta:.2g} ({mode}): {hours}"


def _dirtiness(outlook: Outlook, span_s: float) -> float | None:
    curve, remembered = outlook.curve, np.asarray(outlook.remembered, float)
    at_s = outlook.at.timestamp()
    length = np.minimum(curve.end_s, at_s + span_s) - np.maximum(curve.start_s, at_s)
    known = length > 0
    if len(remembered) < _FEW or not known.any():
        return None
    mean = float(curve.g[known] @ length[known] / length[known].sum())
    return float((remembered < mean).mean())
