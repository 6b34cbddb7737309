"""Which rows are given up when memory is short."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.errors import StoreError
from chase.store.backlog import Backlog, Op, Worth


def an_op(worth: Worth, rows: int = 1) -> Op:
    table = "intervals" if worth is Worth.SPARE else worth.name.lower()
    return Op(table, lambda _: None, rows=rows, worth=worth, done=Future())


ops = st.lists(st.builds(an_op, st.sampled_from(Worth), st.integers(1, 5)), min_size=1, max_size=40)


@given(ops, st.integers(1, 30))
def test_the_least_worth_goes_first(given_ops, limit_rows):
    """Whatever comes: the bound holds, nothing is given up while something worth less waits, and the order stays."""
    backlog, kept = Backlog(limit_rows), []
    for op in given_ops:
        backlog.put(op)
        waiting = [*kept, op]
        gone = [other for other in waiting if other.done.done()]
        kept = [other for other in waiting if not other.done.done()]
        assert all(other.worth <= min(rest.worth for rest in kept) for other in gone)
        assert backlog.rows == sum(other.rows for other in kept)
        assert backlog.rows <= limit_rows or len(kept) == 1
    assert backlog.take() == kept
    assert backlog.rows == 0


@given(ops, st.integers(1, 30))
def test_only_what_cannot_be_computed_again_is_counted_as_lost(given_ops, limit_rows):
    """Every other row that was given up is in the count, by its table."""
    backlog = Backlog(limit_rows)
    for op in given_ops:
        backlog.put(op)
    gone = [op for op in given_ops if op.done.done() and op.worth is not Worth.SPARE]
    assert backlog.lost_rows == sum(op.rows for op in gone)
    assert sum(backlog.unreported.values()) == backlog.lost_rows
    assert "intervals" not in backlog.unreported


@pytest.mark.parametrize("worth", Worth)
def test_who_waits_for_a_row_that_was_given_up_is_told(worth):
    """At once, instead of when his patience ends."""
    backlog = Backlog(1)
    first, second = an_op(worth), an_op(worth)
    backlog.put(first)
    backlog.put(second)
    assert not second.done.done()
    with pytest.raises(StoreError, match="memory is full"):
        first.done.result(0)


def test_what_could_not_be_written_is_trimmed_by_worth_too():
    """A batch that comes back to a full memory: its re-pricing goes, its rows and the newer ones stay."""
    backlog = Backlog(4)
    batch = [an_op(Worth.ROW), an_op(Worth.SPARE, 2), an_op(Worth.STATE)]
    newer = [an_op(Worth.ROW), an_op(Worth.ROW)]
    for op in newer:
        backlog.put(op)
    backlog.put_back(batch)
    assert backlog.take() == [batch[0], batch[2], *newer]
    assert backlog.lost_rows == 0
