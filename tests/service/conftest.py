"""Nodes of real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from service_node import Node


@pytest.fixture
def make_node(place: Path, standin_state) -> Iterator[Callable[..., Node]]:
    """A node; its processes are killed at the end, whatever they do."""
    with ExitStack() as stack:

        def make(**options: Any) -> Node:
            node = Node(place, standin_state, **options)
            stack.callback(node.stop)
            return node

        yield make


@pytest.fixture
def node(make_node) -> Node:
    """An actuator and a service of another uid, with a clean grid and two cards at 275 W."""
    node = make_node()
    node.state.root_uid = 0 if node.uid != 0 else -1
    node.grid(100.0)
    node.start_actuator()
    node.start_service()
    return node
