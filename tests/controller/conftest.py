"""Benches for the controller's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from controller_bench import Bench


@pytest.fixture
def make_bench(tmp_path) -> Iterator[Callable[..., Bench]]:
    with ExitStack() as stack:

        def make(**options: Any) -> Bench:
            bench = Bench(tmp_path, **options)
            stack.callback(bench.close)
            return bench

        yield make


@pytest.fixture
def bench(make_bench) -> Bench:
    return make_bench()
