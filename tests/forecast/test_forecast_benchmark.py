"""The benchmark says plainly what is missing, and its quantiles for others look back only."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from forecast_points import grid

from chase.forecast.score import Past

FILE = Path(__file__).parents[2] / "benchmarks" / "forecast.py"


@pytest.fixture(scope="module")
def benchmark_module():
    spec = importlib.util.spec_from_file_location("forecast_benchmark", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_without_the_data_it_says_where_it_looked(tmp_path):
    """A clear word and exit code 1."""
    environment = {"CHASE_DATA": str(tmp_path), "PYTHONPATH": str(FILE.parents[1])}
    result = subprocess.run(
        [sys.executable, FILE], capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    assert result.returncode == 1
    assert result.stderr == f"{tmp_path}: the data is not here; set CHASE_DATA to its folder\n"


def test_quantiles_for_others_are_of_errors_known_by_then(benchmark_module):
    """At each origin those of the 28 days before, as far as what came of them was known."""
    x = grid(2000)
    past, o = Past(x, np.ones(2000, bool), 0), np.arange(0, 1900)
    middle = x[o]  # persistence
    f = benchmark_module.from_errors(past, o, middle, 6, 1)
    i = 1500
    error = x[o[i - 6 - 671 : i - 6 + 1] + 6] - x[o[i - 6 - 671 : i - 6 + 1]]
    assert f[i, 1] - f[i, 0] == pytest.approx(np.quantile(error, 0.1))
    assert f[i, 2] - f[i, 0] == pytest.approx(np.quantile(error, 0.9))
    assert np.isnan(f[600, 1])


def test_a_claim_fails_where_a_simple_one_is_better(benchmark_module):
    """Three per cent above the best of them on one grid at one lead is enough."""
    good, bad, other = (benchmark_module.Result(mae, 0.1, 1.0, 0.8) for mae in (1.0, 2.07, 2.0))
    results = {
        (grid_, name, lead): good if name == "chase" else other
        for grid_ in benchmark_module.SWINGING
        for name in ("chase", *benchmark_module.SMALL)
        for lead in benchmark_module.LEADS_H
    }

    def verdicts():
        found = benchmark_module.claims(results, benchmark_module.SWINGING, benchmark_module.SMALL)
        return [fine for _, fine, _ in found]

    assert all(verdicts())
    results["DE", "chase", 48] = bad
    assert verdicts() == [False, True, True, True, True]
    results["DE", "chase", 1] = bad
    assert verdicts()[1] is False


def test_a_claim_fails_where_intervals_hold_too_few(benchmark_module):
    """Or too many: seven or nine hours in ten are not eight."""
    for coverage in (0.7, 0.9):
        results = {
            ("DE", name, lead): benchmark_module.Result(1.0 if name == "chase" else 2.0, 0.1, 1.0, coverage)
            for name in ("chase", *benchmark_module.SMALL)
            for lead in benchmark_module.LEADS_H
        }
        *_, (_, fine, _) = benchmark_module.claims(results, ["DE"], benchmark_module.SMALL)
        assert not fine
