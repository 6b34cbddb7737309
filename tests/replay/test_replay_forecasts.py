"""What the planner sees of the days ahead is what production's forecaster would say, however it was come by."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from replay_cases import HOUR, START, waves

from chase.clock import ManualClock
from chase.config.models import SignalConfig
from chase.errors import ChaseError
from chase.replay import forecasts as module
from chase.replay.feed import Feed, Publication
from chase.replay.forecasts import HORIZON, Table, forecaster_of, table_of
from chase.replay.trace import Trace
from chase.signal import GridSignal, Limits


@pytest.fixture(autouse=True)
def few_origins(monkeypatch):
    """A refit takes a while, so a file holds six hours here."""
    monkeypatch.setattr(module, "ORIGINS", 6)


def trace(days: int = 5, *, per_hour: int = 1) -> Trace:
    return Trace("XX", START, 3600.0 / per_hour, np.array(waves(24 * days, per_hour=per_hour)))


def curves(said: Publication, name: str, cache, *, first: int, count: int):
    """What the outlook of a polling signal holds at each of ``count`` publications, and 20 minutes later."""
    clock = ManualClock(said.trace.starts[first] + timedelta(seconds=said.delay_s))
    signal = GridSignal(
        "xx",
        [Feed(said, clock.now)],
        clock=clock,
        limits=Limits.of(SignalConfig()),
        forecaster=forecaster_of(said, name, cache),
    )
    signal.remember(said.between(START, clock.now(), clock.now()))
    for _ in range(count):
        signal.poll()
        yield signal.outlook(HORIZON)
        clock.advance(1200 * said.trace.step_s / 3600)
        yield signal.outlook(HORIZON)
        clock.advance(2400 * said.trace.step_s / 3600)


@pytest.mark.parametrize(
    ("said", "first"),
    [
        (Publication(trace(), 0.0, 0.0), 90),
        (Publication(trace(), 5400.0, 0.0), 90),
        (Publication(trace(), 0.0, 0.4), 93),
        (Publication(trace(10), 0.0, 0.4), 24 * 9 - 3),
        (Publication(trace(2, per_hour=4), 0.0, 0.0), 120),
        (Publication(trace(), 0.0, 0.0), 3),
    ],
    ids=["hourly", "late", "revised", "over-midnight", "quarters", "no-past"],
)
def test_the_table_says_what_production_says(said, first):
    """Hour by hour the same median, low and high as the live forecaster's, to the last bit of a float32."""
    live, table = (list(curves(said, name, None, first=first, count=8)) for name in ("live", "own"))
    for one, other in zip(live, table, strict=True):
        assert (one.now, one.freshness) == (other.now, other.freshness)
        assert np.array_equal(one.curve.start_s, other.curve.start_s)
        assert np.array_equal(one.curve.end_s, other.curve.end_s)
        for name in ("g", "low", "high"):
            left, right = getattr(one.curve, name), getattr(other.curve, name)
            assert np.array_equal(left.astype(np.float32), right.astype(np.float32))
        assert [hour.by for hour in one.ahead] == [hour.by for hour in other.ahead]
        assert len(one.curve) >= int(HORIZON.total_seconds() / said.trace.step_s)


@pytest.mark.parametrize("minutes", [1, 47, 180, 1440])
@pytest.mark.parametrize("first", [0, 9])
def test_steps_that_are_no_part_of_an_hour_have_the_mean_of_what_production_says(minutes, first):
    """Of each step of the trace: neither one forecast for another time, nor a row of another length."""
    steps, step_s = 12, 60.0 * minutes
    by_minute = np.array(waves(24, per_hour=60))
    values = by_minute[(np.arange(steps) * minutes) % len(by_minute)]
    said = Publication(Trace("XX", START + timedelta(minutes=30), step_s, values), 0.0, 0.0)
    table = Table(said, None)
    live = next(curves(said, "live", None, first=first, count=1)).curve
    row = table.row(first)
    assert row.shape == (3, table.leads)
    ends = np.minimum(live.end_s, live.start_s[0] + (HORIZON - HOUR).total_seconds())
    begin_s = said.trace.starts[first + 1].timestamp()
    for k in range(int((ends[-1] - begin_s) // step_s)):
        a, b = begin_s + k * step_s, begin_s + (k + 1) * step_s
        overlap = np.maximum(np.minimum(ends, b) - np.maximum(live.start_s, a), 0.0)
        for line, column in zip(row, (live.g, live.low, live.high), strict=True):
            assert line[k] == pytest.approx(float(overlap @ column) / step_s, rel=1e-5)


def test_perfect_is_what_will_come_and_ends_with_the_trace():
    """To the last bit, without a spread."""
    made = trace()
    said = Publication(made, 0.0, 0.0)
    for i, outlook in enumerate(curves(said, "perfect", None, first=50, count=4)):
        curve, now = outlook.curve, 50 + i // 2
        assert np.array_equal(curve.g, made.values[now : now + len(curve)])
        assert np.array_equal(curve.low, curve.high)
        assert curve.end_s[-1] == made.end.timestamp()


def test_persistence_is_what_is_now_and_yesterday_the_day_before():
    """For all seven days, from the newest value on."""
    made = trace()
    said = Publication(made, 0.0, 0.0)
    (now, _) = curves(said, "persistence", None, first=80, count=1)
    (before, _) = curves(said, "yesterday", None, first=80, count=1)
    assert set(now.curve.g) == {made.values[80]}
    assert before.curve.g[1:25].tolist() == made.values[57:81].tolist()
    assert before.curve.g[25:49].tolist() == made.values[57:81].tolist()
    assert len(now.curve) == len(before.curve) == 168


class TestKept:
    def test_what_was_made_is_read_back(self, tmp_path, monkeypatch):
        """A second table makes nothing, and has the same rows."""
        said = Publication(trace(), 0.0, 0.0)
        row = Table(said, tmp_path).row(77).copy()
        monkeypatch.setattr(Table, "_made", None)
        again = Table(said, tmp_path)
        assert again.has(77 // 6)
        assert np.array_equal(again.row(77), row)

    def test_a_file_that_was_cut_is_made_again(self, tmp_path):
        """As after a crash, or by a version whose rows were of another shape."""
        said = Publication(trace(), 0.0, 0.0)
        row = Table(said, tmp_path).row(77).copy()
        (path,) = tmp_path.rglob("*.npy")
        for wrong in (path.read_bytes()[:500], b""):
            path.write_bytes(wrong)
            assert np.array_equal(Table(said, tmp_path).row(77), row)
        np.save(path, np.zeros((6, 3, 5), np.float32))
        assert np.array_equal(Table(said, tmp_path).row(77), row)

    def test_only_what_is_needed_is_made(self, tmp_path):
        """The chunks of a job's time, from the value that is known when it begins."""
        table = Table(Publication(trace(), 3600.0, 0.0), tmp_path)
        needed = table.chunks(START + 61 * HOUR, 4 * 3600)
        assert list(needed) == [10]
        assert list(table.chunks(START + 61 * HOUR, 7 * 3600)) == [10, 11]
        table.chunk(10)
        assert [table.has(number) for number in (9, 10, 11)] == [False, True, False]
        assert len(list(tmp_path.rglob("*.npy"))) == 1

    def test_what_matters_is_in_the_key(self, tmp_path, monkeypatch):
        """Another grid, delay, share of first words or forecaster is another table; another process's is the same."""
        said = Publication(trace(), 0.0, 0.0)
        others = [
            Publication(trace().shuffled(1), 0.0, 0.0),
            Publication(trace(), 60.0, 0.0),
            Publication(trace(), 0.0, 0.1),
        ]
        keys = [Table(other, tmp_path).key for other in (said, *others)]
        assert Table(Publication(trace(), 0.0, 0.0), None).key == keys[0]
        monkeypatch.setattr(module, "_code", lambda: "newer")
        assert len({*keys, Table(said, tmp_path).key}) == 5

    def test_two_processes_make_a_chunk_once(self, tmp_path):
        """One waits for the other, and both have the same rows."""
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            rows = list(pool.map(_row_77, [str(tmp_path)] * 2))
        assert np.array_equal(*rows)
        assert len(list(tmp_path.rglob("*.npy"))) == 1

    def test_a_folder_that_cannot_be_written_is_named(self, tmp_path):
        """It says which, and why."""
        file = tmp_path / "file"
        file.touch()
        with pytest.raises(ChaseError, match=f"{file}.*forecasts cannot be kept there"):
            Table(Publication(trace(), 0.0, 0.0), file).row(30)

    def test_a_table_is_shared_by_the_cells_of_a_process(self, tmp_path):
        """Its rows are read once."""
        said = Publication(trace(), 0.0, 0.0)
        assert table_of(said, tmp_path) is table_of(said, tmp_path)


def _row_77(folder: str):
    module.ORIGINS = 6
    return Table(Publication(trace(), 0.0, 0.0), Path(folder)).row(77).copy()
