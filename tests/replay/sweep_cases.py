"""Cells that take a millisecond each: limits in closed form."""

from __future__ import annotations

from datetime import timedelta

from replay_cases import START

from chase.replay import Cell

MANY = 1500


def many(trace, profile, count=MANY):
    """Of a trace of twenty days at least."""
    return [
        Cell(
            trace=str(trace),
            profile=str(profile),
            start=START + timedelta(minutes=7 * i),
            days=1.0,
            policy="clairvoyant",
            settings={"max_slowdown": 0.1},
        )
        for i in range(count)
    ]
