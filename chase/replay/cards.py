"""The actuator of a replay: simulated cards obey at once, nobody else is there, and nothing outlives the process.

A ramp takes a second of the hours that a setting holds, and a journal is for cards that are there after a crash:
neither changes a figure of a replay, and both would take most of its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from zeus_core.actuation.base import Applied, GpuState, Status, Wish
from zeus_core.gpus.simulated import SimulatedGpu


class Cards:
    """Over the cards of one ``SimulatedSystem``."""

    backend = "simulated"
    lease_s: float | None = None

    def __init__(self, cards: Iterable[SimulatedGpu]) -> None:
        self._cards = {card.uuid: card for card in cards}
        self._states = {uuid: _state(card) for uuid, card in self._cards.items()}
        self._all = tuple(self._states.values())
        self.switches = 0

    def describe(self) -> tuple[GpuState, ...]:
        return self._all

    def apply(self, wishes: Mapping[str, Wish]) -> dict[str, Applied]:
        found = {uuid: self._set(uuid, wish) for uuid, wish in wishes.items()}
        self.switches += any(applied.status is Status.APPLIED for applied in found.values())
        return found

    def restore(self, uuids: Iterable[str] | None = None) -> dict[str, Applied]:
        return {uuid: self._give_back(uuid) for uuid in (tuple(self._cards) if uuids is None else uuids)}

    def keepalive(self) -> None:
        """There is no lease."""

    def close(self) -> None:
        self.restore()

    def _set(self, uuid: str, wish: Wish) -> Applied:
        state, limit_w = self._states[uuid], wish.power_limit_w
        if limit_w is None:
            return self._give_back(uuid)
        if limit_w == state.power_limit_w:
            return Applied(uuid, Status.UNCHANGED, limit_w, limit_w, limit_w)
        self._put(uuid, limit_w, replace(state, original_w=state.original_w or state.power_limit_w))
        return Applied(uuid, Status.APPLIED, limit_w, limit_w, limit_w)

    def _give_back(self, uuid: str) -> Applied:
        state = self._states[uuid]
        if state.original_w is None:
            return Applied(uuid, Status.NOTHING)
        self._put(uuid, state.original_w, replace(state, original_w=None))
        return Applied(uuid, Status.RESTORED, set_w=state.original_w, enforced_w=state.original_w)

    def _put(self, uuid: str, limit_w: float, state: GpuState) -> None:
        self._cards[uuid].set_power_limit_w(limit_w)
        self._states[uuid] = replace(state, power_limit_w=limit_w, enforced_w=limit_w)
        self._all = tuple(self._states.values())


def _state(card: SimulatedGpu) -> GpuState:
    limits = card.power_limits()
    return GpuState(
        uuid=card.uuid,
        name=card.name,
        index=card.index,
        power_limit_w=card.power_limit_w(),
        enforced_w=card.enforced_power_limit_w(),
        min_w=limits.min_w,
        max_w=limits.max_w,
        default_w=limits.default_w,
        original_w=None,
        foreign_w=None,
        can_set=True,
    )
