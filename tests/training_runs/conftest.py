"""Nodes of real processes, as the service's own tests have them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))

from service_node import Node
from standin import State


@pytest.fixture
def make_training_node(place: Path, standin_state) -> Iterator[Callable[..., Node]]:
    """A node; its processes are killed at the end, whatever they do."""
    with ExitStack() as stack:

        def make(folder: str = ".", *, state: State | None = None, **options: Any) -> Node:
            where = place / folder
            where.mkdir(exist_ok=True)
            where.chmod(0o755)
            node = Node(where, state or standin_state, **options)
            stack.callback(node.stop)
            return node

        yield make
