"""A trace is read once and checked, and what it says of any stretch of time is exact."""

from __future__ import annotations

import gzip
import json
import re
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_cases import HOUR, START, trace_file, waves

from chase.errors import ChaseError
from chase.replay.trace import Trace, load_trace
from providers.base import Scope, Signal

FIVE = timedelta(minutes=5)


def rows(count: int = 4) -> list[str]:
    return [f"{(START + i * HOUR).isoformat()},{100 + i}" for i in range(count)]


def written(folder, lines, *, name="XX_2023.csv", header="start_utc,g_per_kwh"):
    path = folder / name
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


class TestReading:
    @pytest.mark.parametrize("step", [FIVE, timedelta(minutes=30), HOUR, 3 * HOUR])
    def test_any_step_is_found_out(self, tmp_path, step):
        """Of five minutes to a day, from the starts alone."""
        trace = load_trace(trace_file(tmp_path, [1.0, 2.0, 3.0], step=step))
        assert (trace.step_s, len(trace), trace.start) == (step.total_seconds(), 3, START)
        assert trace.end == START + 3 * step

    def test_the_name_is_what_stands_before_the_year(self, tmp_path):
        """As the folders of traces are named."""
        assert load_trace(trace_file(tmp_path, [1.0, 2.0], name="US-CAL_2023_hourly.csv")).name == "US-CAL"
        assert load_trace(trace_file(tmp_path, [1.0, 2.0], name="mine.csv")).name == "mine"

    def test_a_column_or_a_scope_says_which_value_is_meant(self, tmp_path):
        """Lifecycle and direct stand beside each other in one file and are never mixed."""
        header = "start_utc,lifecycle_gco2e_per_kwh,direct_gco2_per_kwh,other"
        path = written(tmp_path, [f"{(START + i * HOUR).isoformat()},10,20,30" for i in range(3)], header=header)
        found = {name: load_trace(path, column=name) for name in ("lifecycle", "direct", "other")}
        assert [trace.values[0] for trace in found.values()] == [10.0, 20.0, 30.0]
        assert [trace.scope for trace in found.values()] == [Scope.LIFECYCLE, Scope.DIRECT, Scope.UNSPECIFIED]

    def test_gzip_json_and_json_lines_are_read_alike(self, tmp_path):
        """The same trace, whatever it lies in."""
        plain = trace_file(tmp_path, waves(30))
        items = [{"start": (START + i * HOUR).isoformat(), "g_per_kwh": value} for i, value in enumerate(waves(30))]
        packed, listed, lines = tmp_path / "p_2023.csv.gz", tmp_path / "l_2023.json", tmp_path / "n_2023.jsonl.gz"
        packed.write_bytes(gzip.compress(plain.read_bytes()))
        listed.write_text(json.dumps({"data": items}))
        lines.write_bytes(gzip.compress("\n".join(map(json.dumps, items)).encode()))
        for path in (packed, listed, lines):
            assert (load_trace(path).values == load_trace(plain).values).all()

    def test_rows_in_any_order_are_a_trace(self, tmp_path):
        """What counts is when they are of."""
        assert load_trace(written(tmp_path, rows()[::-1])).values.tolist() == [100.0, 101.0, 102.0, 103.0]

    def test_a_table_of_two_columns_needs_no_known_names(self, tmp_path):
        """The one that was named is the value, the other the time, in UTC where it does not say."""
        path = written(tmp_path, ["2023-01-01 00:00:00,5", "2023-01-01 00:05:00,6"], header="when,North")
        trace = load_trace(path, column="North", signal=Signal.MARGINAL)
        assert (trace.start, trace.step_s, trace.signal) == (START, 300.0, Signal.MARGINAL)

    def test_a_file_that_was_rewritten_is_read_again(self, tmp_path):
        """A worker that runs for days does not go by what was there when it began."""
        path = written(tmp_path, rows())
        assert len(load_trace(path)) == 4
        written(tmp_path, rows(7))
        assert len(load_trace(path)) == 7

    def test_a_last_line_without_an_end_counts(self, tmp_path):
        """Nobody is writing a trace any more."""
        path = written(tmp_path, rows())
        path.write_text(path.read_text().rstrip("\n"))
        assert len(load_trace(path)) == 4


class TestErrors:
    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            ([rows()[0], rows()[1], rows()[3]], "line 4: 2023-01-01T03:00Z follows 2023-01-01T01:00Z"),
            ([*rows(), rows()[1]], "follows 2023-01-01T01:00Z, where the steps are of 3600 s"),
            ([*rows(2), "2023-01-01T02:00:00+00:00,", rows()[3]], "line 4: the value is missing; fill it in"),
            ([*rows(2), "2023-01-01T02:00:00+00:00,much"], "line 4: g_per_kwh is 'much', not a number"),
            ([*rows(2), "2023-01-01T02:00:00+00:00,-3"], "line 4: g_per_kwh is -3"),
            ([*rows(2), "2023-01-01T02:00:00+00:00,inf"], "line 4: g_per_kwh is inf"),
            ([*rows(2), "yesterday,3"], "line 4: start_utc is 'yesterday', not a time"),
            ([*rows(2), "2023-01-01T02:00:00+00:00,1,2"], "line 4: 3 fields where the header has 2"),
            (rows(1), "holds 1 interval"),
            ([], "no column for start"),
            (["2023-01-01T00:00Z,1", "2023-02-01T00:00Z,1"], "steps of 2.6784e+06 s tell nothing of a day"),
        ],
        ids=["gap", "twice", "blank", "text", "negative", "infinite", "time", "fields", "one", "none", "month"],
    )
    def test_what_is_wrong_is_named_with_its_line(self, tmp_path, lines, said):
        """File, line, value and what to do."""
        path = written(tmp_path, lines)
        with pytest.raises(ChaseError, match=re.escape(said)) as caught:
            load_trace(path)
        assert str(path) in str(caught.value)

    def test_a_file_that_cannot_be_read_is_named(self, tmp_path):
        """Missing, cut, no gzip, of no known kind, without the column."""
        path = trace_file(tmp_path, waves(30))
        cut, fake, strange = tmp_path / "cut.csv.gz", tmp_path / "fake.csv.gz", tmp_path / "trace.parquet"
        cut.write_bytes(gzip.compress(path.read_bytes())[:-20])
        fake.write_bytes(path.read_bytes())
        strange.write_bytes(b"PAR1")
        for wrong, said in (
            (tmp_path / "missing.csv", "No such file"),
            (cut, "is cut"),
            (fake, "is no gzip file"),
            (strange, "name it .csv, .json, .jsonl"),
        ):
            with pytest.raises(ChaseError, match=said):
                load_trace(wrong)
        with pytest.raises(ChaseError, match=r"no column 'lifecycel_gco2e_per_kwh' \(did you mean"):
            load_trace(path, column="lifecycel_gco2e_per_kwh")


class TestFigures:
    @given(
        values=st.lists(st.floats(0, 1000), min_size=2, max_size=30),
        step_s=st.sampled_from([300.0, 1800.0, 3600.0]),
        begin=st.floats(0, 1),
        part=st.floats(0.001, 1),
    )
    def test_pieces_and_mean_tell_the_same(self, values, step_s, begin, part):
        """The pieces of any stretch are as long as it, and their weighted mean is its mean."""
        trace = Trace("t", START, step_s, np.array(values))
        total_s = len(values) * step_s
        first_s = begin * total_s * 0.999
        seconds = part * (total_s - first_s)
        start = START + timedelta(seconds=first_s)
        length, value = trace.pieces(start, seconds)
        assert length.sum() == pytest.approx(seconds)
        assert (length >= 0).all()
        assert trace.mean(start, seconds) == pytest.approx(float(length @ value) / seconds, rel=1e-6, abs=1e-6)

    def test_variation_is_that_of_hours(self):
        """What jumps within the hour is no variation that a plan by the hour could use."""
        jumping = Trace("t", START, 1800.0, np.array([100.0, 300.0] * 48))
        swinging = Trace("t", START, 3600.0, np.array([100.0, 300.0] * 48))
        assert jumping.cv == 0.0
        assert swinging.cv == pytest.approx(0.5)

    def test_a_shuffle_keeps_the_values_and_loses_the_order(self):
        """The same for the same seed, another for another."""
        trace = Trace("t", START, 3600.0, np.array(waves(200)))
        one, again, other = trace.shuffled(1), trace.shuffled(1), trace.shuffled(2)
        assert sorted(one.values) == sorted(trace.values)
        assert (one.values == again.values).all()
        assert not (one.values == other.values).all()
        assert abs(np.corrcoef(one.values, trace.values)[0, 1]) < 0.2
        assert len({trace.digest, one.digest, other.digest}) == 3
