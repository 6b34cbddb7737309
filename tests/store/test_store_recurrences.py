"""Jobs that are trained again and again: a row for each, and one for each time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from store_cases import T0, count_of, sound

from chase.records import RecurrenceRecord, TrialRecord
from chase.store import Keep, open_readonly

NIGHTLY = RecurrenceRecord(key="uid 1|nightly", uid=1, name="nightly", spec={"default": 64}, changed_at=T0)
FIRST = TrialRecord(
    key=NIGHTLY.key,
    number=1,
    job_id="a" * 16,
    batch_size=64,
    stage="pruning",
    status="running",
    eta=0.5,
    reason="its own comes first",
    began_at=T0,
    gpu_model="V100",
    max_power_w=250.0,
)
DONE = replace(
    FIRST, status="converged", ended_at=T0 + timedelta(hours=2), energy_j=1e6, duration_s=7200.0, epochs=9, metric=0.84
)


def test_what_was_last_said_of_them_counts(store, path):
    """A trial is written as it begins and again as it goes on; a reader sees the last of it."""
    store.keep_recurrence(NIGHTLY)
    store.keep_trial(FIRST)
    assert store.trials(running=True) == [FIRST]
    store.keep_trial(DONE)
    store.keep_trial(replace(FIRST, number=2, batch_size=32))
    store.keep_recurrence(replace(NIGHTLY, pinned_batch_size=32))
    store.flush()
    with open_readonly(path) as seen:
        assert seen.recurrences() == [replace(NIGHTLY, pinned_batch_size=32)]
        assert seen.recurrence(NIGHTLY.key) == replace(NIGHTLY, pinned_batch_size=32)
        assert seen.recurrence("another") is None
        assert [trial.number for trial in seen.trials(NIGHTLY.key)] == [1, 2]
        assert seen.trials(NIGHTLY.key, running=False) == [DONE]
    assert sound(path)


def test_they_are_never_dropped(store, path):
    """What was learnt of a job years ago is still of use, though its decisions are gone."""
    store.keep_recurrence(NIGHTLY)
    store.keep_trial(DONE)
    store.flush()
    store.prune(T0 + timedelta(days=4000))
    assert (count_of(path, "recurrences"), count_of(path, "trials")) == (1, 1)
    assert Keep().log_days < 4000
