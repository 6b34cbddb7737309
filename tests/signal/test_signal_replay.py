"""A small polled log, replayed as a live API through a real server, provider, database and controller."""

from __future__ import annotations

import importlib.util
import math
import random
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from signal_bench import HOUR, NOW

from chase.explain import explain
from chase.store import open_readonly
from providers.base import Kind, Series

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "polled_replay.py"
spec = importlib.util.spec_from_file_location("polled_replay", SCRIPT)
polled = importlib.util.module_from_spec(spec)
sys.modules["polled_replay"] = polled
spec.loader.exec_module(polled)


def log(hours: int = 60) -> list:
    """Hours that are read 30 to 150 minutes after they began; every ninth never, every seventh only after the one that
    follows it, and nine hours in a row not at all.
    """
    dice = random.Random(7)
    rows = []
    for n in range(hours):
        start = NOW + n * HOUR
        if n % 9 == 8 or 30 <= n < 39:
            continue
        value = 300.0 + 120.0 * math.sin(n / 24 * 2 * math.pi) + dice.uniform(-20, 20)
        late = timedelta(minutes=dice.choice([30, 60, 90]) + (90 if n % 7 == 0 else 0), seconds=dice.uniform(1, 9))
        rows.append(polled.Row(start, float(round(value)), start + late))
    return rows


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay")
    return polled.replay("XX", log(), folder, first_words=0.5), folder / "XX.sqlite"


def test_the_log_is_as_bad_as_the_real_ones(replayed):
    """Hours come late, go back and are revised, and for a while there is nothing to go by but a forecast."""
    counts, _ = replayed
    assert counts.answers_back >= 3
    assert counts.revisions >= 10
    assert counts.hours == len(log())
    assert counts.ticks["fresh"] > counts.ticks["stale"] > 0
    assert counts.ticks["fallback"] > 0
    assert counts.ticks["nothing"] == 0


def test_no_decision_goes_by_an_expired_value(replayed):
    """None older than six hours, none called fresh after an hour and a half."""
    counts, path = replayed
    assert (counts.expired, counts.called_fresh) == (0, 0)
    with open_readonly(path) as kept:
        for record in kept.decisions():
            if record.intensity_kind in {Kind.MEASURED, Kind.ESTIMATED}:
                assert record.intensity_age_s <= 21600
                assert record.inputs["grid"]["freshness"] == ("fresh" if record.intensity_age_s <= 5400 else "stale")


def test_no_decision_steps_back_in_time(replayed):
    """An API whose newest hour goes back takes no decision with it."""
    assert replayed[0].steps_back == 0


def test_each_revision_is_kept(replayed):
    """Every value that was said of an hour, in its order."""
    counts, _ = replayed
    assert counts.lost == 0
    assert counts.vintages == counts.hours + counts.revisions


def test_energy_is_priced_at_the_newest(replayed):
    """Each interval of the job, at the last value that was said of its hours; many were priced anew for that."""
    counts, _ = replayed
    assert counts.intervals > 300
    assert counts.repriced > 50
    assert counts.mispriced == 0


def test_decisions_keep_what_they_saw(replayed):
    """A value that was revised since stands in the decision as it was then, and taking it again comes out the same."""
    _, path = replayed
    with open_readonly(path) as kept:
        said: dict[float, set[float]] = {}
        for point in kept.vintages("XX", "electricity_maps"):
            said.setdefault(point.start, []).append(point.g_per_kwh)
        firsts = {values[0] for values in said.values() if len(values) > 1}
        newest = {values[-1] for values in said.values()}
        records = kept.decisions()
    assert {r.intensity_g_per_kwh for r in records} & (firsts - newest)
    assert all(explain(record).same for record in records[::10])


@pytest.mark.parametrize(("attribute", "count"), [("best_known", "mispriced"), ("add_points", "lost")])
def test_the_replay_would_notice(tmp_path, monkeypatch, attribute, count):
    """Prices that are never looked up again, and points that are not stored, are both counted as wrong."""
    if attribute == "best_known":
        monkeypatch.setattr(polled, "best_known", lambda *_: Series())
    else:
        monkeypatch.setattr(polled.Store, "add_points", lambda *_: 0)
    counts = polled.replay("XX", log(20), tmp_path, first_words=0.5)
    assert getattr(counts, count) > 0
    assert counts.wrong > 0


def test_without_the_data_it_says_what_is_missing(tmp_path, monkeypatch):
    """A clear error and status 1, no trace."""
    result = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={"CHASE_DATA": str(tmp_path), "PYTHONPATH": str(SCRIPT.parents[1]), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 1
    assert "there is no polled log of FR in" in result.stderr
    assert "CHASE_DATA" in result.stderr
    assert "Traceback" not in result.stderr
