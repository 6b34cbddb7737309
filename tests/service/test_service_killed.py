"""Kill -9 at random moments: the original limit and a readable database after each."""

from __future__ import annotations

import random
import threading

import pytest
from service_node import CLEAN, DIRTY, ORIGINAL_W, until

KILLS = 20


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_either_process_killed_at_random_moments(node):
    """Twenty times, service or actuator, while the grid flips: exactly 275 W and an intact log each time."""
    chance = random.Random(20261130)
    actuator, service = node.processes
    node.start_job("--gpus", "0,1", seconds=600)
    for kill in range(KILLS):
        node.grid(DIRTY)
        until(lambda: max(node.limits) < ORIGINAL_W, f"controlled before kill {kill}")
        node.grid(chance.choice([CLEAN, DIRTY]))
        threading.Event().wait(chance.uniform(0.0, 0.5))
        if chance.random() < 0.5:
            service.kill()
            service.wait()
            until(lambda: node.limits == [ORIGINAL_W, ORIGINAL_W], f"given back after kill {kill}", within_s=1.0)
            assert node.intact()
            service = node.start_service()
        else:
            actuator.kill()
            actuator.wait()
            actuator = node.start_actuator()
            journal = "a new client may have lowered it again already, so look at what the start wrote"
            first = [write.watts for write in node.state.writes() if write.pid == actuator.pid and write.code == 0]
            assert ORIGINAL_W in first or node.limits == [ORIGINAL_W, ORIGINAL_W], journal
            assert node.intact()
    assert node.state[0].default_w != ORIGINAL_W
