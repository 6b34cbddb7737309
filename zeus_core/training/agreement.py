"""One batch size for all ranks, from one step on: rank 0 proposes, every rank votes, and nobody waits for anybody.

Notation:

    k    tick: optimizer steps begun, the same count on all ranks
    n    number of the proposal, from 0
    m    ``every``: only each m-th tick looks whether there is a proposal
    l    lead: the proposal made at tick k takes effect at tick k + l, at first 2 m

Ranks talk through the key-value store that they have met in. Rank 0 writes proposal n at its tick k. Another rank sees
it at its next looking tick, k or k + m, and votes. Whoever votes last writes the verdict, and at tick k + l all ranks
read it. Data-parallel ranks exchange gradients in every step, so none begins tick k + m before all have ended tick k:
with l = 2 m the proposal is there when it is looked for, and the verdict when it is due. No rank waits, and the ticks
in between cost one look-up in the store at most.

Where ranks do not meet in every step, a proposal may be seen late, from tick k + l on: that is a vote against this
time, and the lead is doubled for the next. The verdict is one key that is written once (compare-and-set), so that all
ranks read the same, also when one of them has waited ``timeout_s`` for it and so ends it: all or nothing. After a
verdict that a rank is lost nothing is proposed any more; what becomes of the training is its own collectives' affair.
A rank that has voted and then cannot reach the store cannot know the verdict. It ends with an error, as a job whose
ranks take steps of different sizes must not go on.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Protocol

import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

Verdict = Literal["yes", "no", "late", "lost"]

_LONGEST_LEAD = 64  # in looking ticks


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a proposal: the same on all ranks, and ``yes`` at the same tick."""

    microbatch: int
    verdict: Verdict


class Store(Protocol):
    """What is used of ``torch.distributed.Store``."""

    def set(self, key: str, value: str) -> None: ...
    def get(self, key: str) -> bytes: ...
    def add(self, key: str, amount: int) -> int: ...
    def check(self, keys: list[str]) -> bool: ...
    def compare_set(self, key: str, expected: str, desired: str) -> bytes: ...
    def wait(self, keys: list[str], timeout: timedelta) -> None: ...


class Agreement:
    """The ranks' agreement through ``store``. Every rank makes one, in the same order where there are several.

    Raises ``ValueError`` for a rank, a world, an interval or a time limit that cannot be.
    """

    def __init__(self, store: Store, rank: int, world: int, *, every: int = 1, timeout_s: float = 300.0) -> None:
        if not 0 <= rank < world:
            raise ValueError(f"rank must lie within 0 to world - 1, not {rank!r} of {world!r}")
        if every < 1 or not timeout_s > 0:
            raise ValueError(f"every must be at least 1 and timeout_s above 0, not {every!r} and {timeout_s!r}")
        self.rank, self.world = rank, world
        self.lost = False
        self._store, self._every, self._timeout = store, every, timedelta(seconds=timeout_s)
        self._lead = 2 * every
        self._number = self._votes = 0
        self._open: tuple[int, int] | None = None  # microbatch, and the tick from which it is in force
        made = store.add(f"batch-size/made/{rank}", 1)  # another Agreement of this job left its keys in the store
        self._prefix = f"batch-size/{made}"

    @classmethod
    def of_job(cls, *, every: int = 1, timeout_s: float = 300.0) -> Agreement:
        """Of all ranks of the initialised ``torch.distributed`` job, through the store that they met in."""
        store = dist.distributed_c10d._get_default_store()  # noqa: SLF001  there is no public way
        # Its own connection: one that waits keeps its lock, and the process group uses the store, too.
        store = store.clone() if hasattr(store, "clone") else store
        return cls(store, dist.get_rank(), dist.get_world_size(), every=every, timeout_s=timeout_s)

    def tick(self, k: int, wanted: int | None, can: Callable[[int], bool]) -> Outcome | None:
        """To be called by every rank at every tick. ``wanted`` counts on rank 0, ``can`` is this rank's vote.

        Gives the outcome of a proposal at the tick at which it is due. Raises ``RuntimeError`` where it is to be had
        no more.
        """
        if self.lost:
            return None
        try:
            if self._open is None and k % self._every == 0:
                self._look(k, wanted, can)
            if self._open is not None and k >= self._open[1]:
                return self._close(self._open[0])
        except RuntimeError as error:
            if self._open is not None:
                raise RuntimeError("the store of the ranks is gone before they agreed on the batch size") from error
            self.lost = True
            logger.warning("the batch size stays as it is, the store of the ranks is gone: %s", error)
        return None

    def vote(self, *, yes: bool) -> Verdict:
        """Ask all ranks now, and wait for them. Every rank must call it as many times as the others.

        Raises ``RuntimeError`` where the store is gone.
        """
        key, self._votes = f"{self._prefix}/vote/{self._votes}", self._votes + 1
        self._cast(key, "yes" if yes else "no")
        return self._verdict(key)

    def _look(self, k: int, wanted: int | None, can: Callable[[int], bool]) -> None:
        key = f"{self._prefix}/{self._number}"
        if self.rank == 0:
            if wanted is None:
                return
            microbatch, due = wanted, k + self._lead
            self._store.set(key, json.dumps([microbatch, due]))
        elif self._store.check([key]):
            microbatch, due = json.loads(self._store.get(key))
        else:
            return
        self._open = microbatch, due
        self._cast(key, "late" if k >= due else "yes" if can(microbatch) else "no")

    def _close(self, microbatch: int) -> Outcome:
        outcome = Outcome(microbatch, self._verdict(f"{self._prefix}/{self._number}"))
        self._open, self._number = None, self._number + 1
        if outcome.verdict == "late":
            self._lead = min(2 * self._lead, _LONGEST_LEAD * self._every)
        return outcome

    def _cast(self, key: str, vote: Verdict) -> None:
        if vote != "yes":
            self._store.add(f"{key}/{vote}", 1)
        if self._store.add(f"{key}/votes", 1) == self.world:
            against = (vote for vote in ("no", "late") if self._store.check([f"{key}/{vote}"]))
            self._store.compare_set(f"{key}/verdict", "", next(against, "yes"))

    def _verdict(self, key: str) -> Verdict:
        """Waits for it where it is not there, and writes that a rank is lost when the time is up."""
        try:
            self._store.wait([f"{key}/verdict"], self._timeout)
        except RuntimeError:  # what each kind of store raises for this has no more in common
            logger.warning("a rank did not vote on the batch size within %s", self._timeout)
        verdict: Verdict = self._store.compare_set(f"{key}/verdict", "", "lost").decode()  # type: ignore[assignment]
        self.lost = verdict == "lost"
        return verdict
