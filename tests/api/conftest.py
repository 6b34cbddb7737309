"""The API as it is served: uvicorn on a Unix socket, over a controller on simulated cards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "controller"))

from api_server import Served
from controller_bench import Bench


@pytest.fixture
def bench(tmp_path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


@pytest.fixture
def served(bench) -> Iterator[Served]:
    server = Served(bench)
    yield server
    server.close()
