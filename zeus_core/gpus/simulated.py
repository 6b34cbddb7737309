"""GPUs that are not there: published curves on any clock, so that a day passes in seconds and every figure is exact.

A card at work draws what its profile says for the limit in force, scaled between idle and that by its load. A locked
SM clock bounds that draw, taking power above idle to go with the cube of the clock.
"""

from __future__ import annotations

import math
import random
import threading
import time
import uuid as uuids
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from zeus_core.gpus.base import Gpu, PowerLimits, Process, Refused
from zeus_core.gpus.profiles import GpuProfile, ProfileError, ProfilePoint, load_profile

__all__ = ["GpuProfile", "ProfileError", "ProfilePoint", "SimulatedGpu", "SimulatedSystem", "load_profile"]

MIN_SM_MHZ, MAX_SM_MHZ, SM_STEP_MHZ = 210, 1740, 15
_SAMPLE_S = 0.1  # a reading of the draw changes this often, as a driver's does


class SimulatedGpu:
    """One simulated card. Thread-safe.

    ``noise`` is the relative standard deviation of ``power_w`` around the true draw; it depends on the seed and the
    time only, never on how often somebody looks. ``energy_j`` is the exact integral of the true draw.
    """

    def __init__(
        self, profile: GpuProfile, index: int, *, seed: int, noise: float, monotonic: Callable[[], float]
    ) -> None:
        self.profile = profile
        self.index = index
        self.uuid = f"SIM-{uuids.uuid5(uuids.NAMESPACE_OID, f'{profile.name}/{seed}/{index}')}"
        self.name = f"Simulated {profile.gpu.removeprefix('NVIDIA ')}"
        self.pci_bus_id = f"FFFFFFFF:{index:02X}:00.0"
        self._seed = seed
        self._noise = noise
        self._monotonic = monotonic
        self._lock = threading.RLock()
        self._limit_w = profile.default_w
        self._locked_mhz: tuple[int, int] | None = None
        self._loads: dict[int, tuple[int | None, float]] = {}
        self._limits = PowerLimits(profile.min_w, profile.max_w, profile.default_w)
        self._drawn_w: float | None = None  # what is drawn, once worked out and until something changes
        self._energy_j = 0.0
        self._at = monotonic()

    def __repr__(self) -> str:
        return f"<{self.name} {self.index} {self.uuid}>"

    def rate_at(self, power_limit_w: float) -> float:
        """Units of work per second under a limit, with the whole card."""
        return self.profile.rate_at(power_limit_w)

    def rate(self) -> float:
        """Units of work per second now, at the limit and clocks in force and the load on the card."""
        with self._lock:
            limit_w, busy_w = self._limit_w, self._busy_w()
            bound = busy_w < self.profile.watts_at(limit_w)
            full = self.profile.rate_drawing(busy_w) if bound else self.profile.rate_at(limit_w)
            return full * self._load()

    def occupy(self, pid: int, uid: int | None, load: float = 1.0) -> None:
        """Process ``pid`` works on this card with a ``load`` of 0 to 1; again with another load to change it."""
        if not 0 <= load <= 1:
            raise ValueError(f"load must lie between 0 and 1, not {load!r}")
        with self._changing():
            self._loads[pid] = (uid, load)

    def vacate(self, pid: int) -> None:
        with self._changing():
            self._loads.pop(pid, None)

    def power_limits(self) -> PowerLimits:
        return self._limits

    def power_limit_w(self) -> float:
        return self._limit_w

    def enforced_power_limit_w(self) -> float:
        return self._limit_w

    def set_power_limit_w(self, power_limit_w: float) -> None:
        low, high = self.profile.min_w, self.profile.max_w
        if not low <= power_limit_w <= high:
            text = f"{self.uuid}: {power_limit_w!r} W is outside {low:g} to {high:g} W"
            raise Refused(text, uuid=self.uuid, call="set_power_limit_w")
        with self._changing():
            self._limit_w = float(power_limit_w)

    def power_w(self) -> float:
        with self._lock:
            true_w = self._draw_w()
            tick = int(self._monotonic() / _SAMPLE_S)
        error = random.Random(f"{self._seed}/{self.index}/{tick}").gauss(0, self._noise)  # noqa: S311  # not a secret
        return max(0.0, true_w * (1 + error))

    def energy_j(self) -> float:
        with self._lock:
            self._advance()
            return self._energy_j

    def sm_clock_mhz(self) -> int:
        with self._lock:
            if not self._load():
                return MIN_SM_MHZ
            share = math.cbrt((self._busy_w() - self.profile.idle_w) / self._dynamic_w())
            return max(MIN_SM_MHZ, round(MAX_SM_MHZ * share))

    def supported_sm_clocks_mhz(self) -> tuple[int, ...]:
        return tuple(range(MIN_SM_MHZ, MAX_SM_MHZ + 1, SM_STEP_MHZ))

    def lock_sm_clocks_mhz(self, low_mhz: int, high_mhz: int) -> None:
        if not 0 < low_mhz <= high_mhz:
            text = f"{self.uuid}: {low_mhz} to {high_mhz} MHz is no range"
            raise Refused(text, uuid=self.uuid, call="lock_sm_clocks_mhz")
        with self._changing():
            self._locked_mhz = (low_mhz, high_mhz)

    def reset_sm_clocks(self) -> None:
        with self._changing():
            self._locked_mhz = None

    @property
    def locked_sm_clocks_mhz(self) -> tuple[int, int] | None:
        return self._locked_mhz

    def utilisation(self) -> float:
        with self._lock:
            return self._load()

    def throttle_reasons(self) -> frozenset[str]:
        with self._lock:
            if not self._load():
                return frozenset({"gpu_idle"})
            capped = self.profile.watts_at(self._limit_w) < self.profile.watts_at(self.profile.max_w)
            named = {"sw_power_cap": capped, "applications_clocks_setting": self._locked_mhz is not None}
            return frozenset(name for name, holds in named.items() if holds)

    def processes(self) -> tuple[Process, ...]:
        with self._lock:
            return tuple(Process(pid, uid) for pid, (uid, _) in sorted(self._loads.items()))

    def persistence(self) -> bool:
        return True

    def mig_enabled(self) -> bool:
        return False

    def mig_uuids(self) -> tuple[str, ...]:
        return ()

    def _load(self) -> float:
        return min(1.0, sum(load for _, load in self._loads.values()))

    def _dynamic_w(self) -> float:
        return self.profile.watts_at(self.profile.max_w) - self.profile.idle_w

    def _busy_w(self) -> float:
        """The draw with the whole card at work."""
        limited_w = self.profile.watts_at(self._limit_w)
        if self._locked_mhz is None:
            return limited_w
        share = min(1.0, self._locked_mhz[1] / MAX_SM_MHZ)
        return min(limited_w, self.profile.idle_w + self._dynamic_w() * share**3)

    def _draw_w(self) -> float:
        if self._drawn_w is None:
            self._drawn_w = self.profile.idle_w + (self._busy_w() - self.profile.idle_w) * self._load()
        return self._drawn_w

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Around whatever changes the draw: what was drawn until now is booked before."""
        with self._lock:
            self._advance()
            yield
            self._drawn_w = None

    def _advance(self) -> None:
        now = self._monotonic()
        if now > self._at:
            self._energy_j += self._draw_w() * (now - self._at)
            self._at = now


class SimulatedSystem:
    """``count`` cards of one profile. The same arguments give the same UUIDs and the same noise."""

    kind: Literal["simulated"] = "simulated"

    def __init__(
        self,
        profile: GpuProfile,
        count: int,
        *,
        seed: int = 0,
        noise: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if count < 0 or noise < 0:
            raise ValueError(f"count and noise must not be negative: {count!r}, {noise!r}")
        self._gpus = tuple(
            SimulatedGpu(profile, index, seed=seed, noise=noise, monotonic=monotonic) for index in range(count)
        )

    def gpus(self) -> tuple[Gpu, ...]:
        return self._gpus

    @property
    def cards(self) -> tuple[SimulatedGpu, ...]:
        """The same, as what they are."""
        return self._gpus

    def close(self) -> None:
        """Nothing is held."""
