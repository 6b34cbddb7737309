"""How long an interval lasts whose source gives only its start, with a step that may change within one reply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

LONGEST = timedelta(hours=1)


def ends_by_distance(starts: Iterable[datetime], *, alone: timedelta) -> dict[datetime, datetime]:
    """Each lasts until the next begins, if its neighbours are as far apart; a hole in the data stays a hole.

    The last one lasts as long as the one before it, and where nothing can be told an interval lasts ``alone``.
    """
    ordered = sorted(set(starts))
    gaps = [after - here for here, after in pairwise(ordered)]
    steps = [_step(gaps, index, alone) for index in range(len(gaps))]
    return {start: start + step for start, step in zip(ordered, [*steps, *(steps[-1:] or [alone])], strict=False)}


def _step(gaps: Sequence[timedelta], index: int, alone: timedelta) -> timedelta:
    gap, beside = gaps[index], [*gaps[max(index - 1, 0) : index], *gaps[index + 1 : index + 2]]
    if gap <= LONGEST and (not beside or gap in beside):
        return gap
    known = [step for step in (gap, *beside) if step <= LONGEST]
    return min([*known, gap] if known else [alone, gap])
