"""A region's signal and prices, shared on a port of this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "signal"))

from share_bench import Caller, Region, served


@pytest.fixture
def region() -> Region:
    return Region()


@pytest.fixture
def serve() -> Iterator[Callable[..., Caller]]:
    """Shares regions, each call on a port of its own; closed at the end."""
    with ExitStack() as stack:
        yield lambda *regions, **options: stack.enter_context(served(*regions, **options))


@pytest.fixture
def caller(region: Region, serve: Callable[..., Caller]) -> Caller:
    """Of a node that shares one region and wants no token."""
    return serve(region)
