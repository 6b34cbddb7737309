"""A restart beside a source that issues two days of five minutes every hour."""

from __future__ import annotations

from datetime import timedelta

from signal_bench import HOUR, NOW, Source, point

from chase.clock import ManualClock
from chase.recall import recall
from chase.signal import GridSignal, Limits
from chase.store import Store, Tuning
from providers.base import Kind

STEP = timedelta(minutes=5)


def test_it_reads_what_it_goes_by_and_judges_by_and_no_more(tmp_path):
    """Every step of the newest forecast, and of the ones before one in half an hour, by which it judges them."""
    clock = ManualClock(NOW)
    store = Store(tmp_path / "chase.sqlite", clock=clock, tuning=Tuning(patience_s=20.0))
    for issue in range(6):
        issued = NOW + issue * HOUR
        store.add_points(
            point(issued + i * STEP, 100.0 + issue + i / 7, kind=Kind.FORECAST, step=STEP) for i in range(576)
        )
    read: list[int] = []
    grid = GridSignal("xx", [Source()], clock=clock, limits=Limits())
    remember = grid.remember
    grid.remember = lambda points: read.append(len(points)) or remember(points)
    clock.advance(5 * 3600 + 60)
    recall(grid, store, clock.now(), timedelta(days=28))
    store.close()
    state = grid.states[0]
    assert len(state.expected(clock.now())) == 576
    assert {seen.start.minute for seen in state.issued} == {0, 30}
    assert read[0] < 6 * 576 / 6 + 700
