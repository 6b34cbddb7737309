"""How often one address may ask."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

RATE_PER_S, BURST = 2.0, 60.0  # a node asks twice in five minutes; many may share one address
MOST = 4096  # addresses remembered; of more the one that asked longest ago is forgotten


class Callers:
    """A token bucket for each address, for one thread."""

    def __init__(self, monotonic: Callable[[], float], *, rate_per_s: float, burst: float, most: int = MOST) -> None:
        self._monotonic = monotonic
        self._rate_per_s, self._burst, self._most = rate_per_s, burst, most
        self._known: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when it was

    def __len__(self) -> int:
        return len(self._known)

    def wait_s(self, address: str) -> float:
        """Seconds until it may ask; 0 if it may now, and then this counts."""
        now = self._monotonic()
        left, at = self._known.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate_per_s)
        wait_s = max(0.0, (1.0 - left) / self._rate_per_s)
        self._known[address] = (left if wait_s else left - 1.0, now)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return wait_s
