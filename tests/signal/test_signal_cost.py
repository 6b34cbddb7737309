"""What an outlook costs: it is asked for at each control tick and by each status."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from signal_bench import NOW, Source, Typical, point

from providers.base import Transient

FIVE = timedelta(minutes=5)


@pytest.mark.parametrize("hours_ago", [0, 4, 12], ids=["fresh", "stale", "expired"])
def test_an_outlook_of_a_week_of_five_minutes_costs_little(make, hours_ago):
    """Under 5 ms of processor time with three sources of 2016 points each, however far it has to fall back."""
    sources = [Source(name, error=Transient("down")) for name in ("first", "second", "third")]
    grid = make(*sources, typical=Typical())
    last = NOW - timedelta(hours=hours_ago)
    for source in sources:
        grid.remember(point(last - i * FIVE, 100.0 + i % 50, source=source.name, step=FIVE) for i in range(2016))
    took_s = []
    for _ in range(15):
        began = time.process_time()
        outlook = grid.outlook()
        took_s.append(time.process_time() - began)
    assert outlook.now is not None
    assert len(outlook.recent) >= 1800
    assert min(took_s) < 0.005
