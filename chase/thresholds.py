"""The thresholds of a region, where people gave them as percentiles of its recent past."""

from __future__ import annotations

from chase import policy
from providers.base import IntensityPoint

Past = tuple[IntensityPoint, ...]


class Thresholds:
    """Sorts a past once, and not at every tick at which it is still the very same."""

    def __init__(self) -> None:
        self._past: Past = ()
        self._ordered: list[float] = []
        self._known: dict[str, float | None] = {}

    def of(self, spec: float | str, past: Past) -> float | None:
        """In g/kWh; as ``policy.threshold_g`` of the intensities of ``past``."""
        if not (past and isinstance(spec, str)):
            return policy.threshold_g(spec, ())
        if past is not self._past:
            self._past, self._ordered = past, sorted([point.g_per_kwh for point in past])
            self._known.clear()
        if spec not in self._known:
            self._known[spec] = policy.threshold_g(spec, self._ordered)
        return self._known[spec]
