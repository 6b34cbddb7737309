"""kill -9 of either process or both, at any moment: 275 W comes back on a card whose default is 300 W."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
import standin
from actuation_harness import ORIGINAL_W, other_uid, until

from zeus_core.actuation.base import Status, Wish
from zeus_core.actuation.journal import Journal
from zeus_core.actuation.leftovers import restore_leftovers
from zeus_core.gpus.nvml import NvmlSystem


def limits(state) -> list[float]:
    return [card.limit_w for card in state]


def given_back(state) -> bool:
    return limits(state) == [ORIGINAL_W] * len(state)


def check_every_write(state) -> None:
    for write in state.writes(function=standin.SET_LIMIT):
        assert (write.code, 100 <= write.watts <= ORIGINAL_W) == (0, True)


def test_client_is_another_user(start_server, start_client, standin_state):
    """The client has no rights of its own: the driver refuses it, and the server, another user, sets."""
    standin_state.root_uid = os.geteuid()
    server = start_server()
    client = start_client(server.socket_path)
    assert client.ask("whoami") == (other_uid(), client.process.pid)
    client.apply({uuid: Wish(150) for uuid in standin_state.uuids})
    assert limits(standin_state) == [150, 150]
    assert {(write.uid, write.pid) for write in standin_state.writes()} == {(os.geteuid(), server.process.pid)}


def test_client_killed(start_server, start_client, standin_state):
    """A client killed with -9 has its GPUs given back within a second: to 275 W, not to the default of 300 W."""
    client = start_client(start_server().socket_path)
    client.apply({uuid: Wish(150, 900) for uuid in standin_state.uuids})
    assert limits(standin_state) == [150, 150]
    client.process.kill()
    assert until(lambda: given_back(standin_state)) < 1.0
    until(lambda: [card.locked_sm_mhz for card in standin_state] == [None, None])
    assert standin_state[0].default_w == 300


def test_server_killed_and_started_again(start_server, start_client, standin_state, place: Path):
    """A server killed with -9 leaves the limit; the next one puts the original back before it serves anybody."""
    server = start_server()
    start_client(server.socket_path).apply({uuid: Wish(150, 900) for uuid in standin_state.uuids})
    server.kill()
    assert limits(standin_state) == [150, 150]
    assert start_server().said == b"ready"
    assert given_back(standin_state)
    assert [card.locked_sm_mhz for card in standin_state] == [None, None]
    assert Journal(place / "state").uuids() == []


def test_both_killed_and_restored_by_hand(start_server, start_client, standin_state, place: Path, nvml: NvmlSystem):
    """With both processes dead, the journal alone is enough."""
    server = start_server()
    client = start_client(server.socket_path)
    client.apply({uuid: Wish(150) for uuid in standin_state.uuids})
    server.process.kill()
    client.kill()
    server.wait()
    results = restore_leftovers(nvml, place / "state", place / "locks")
    assert [applied.status for applied in results.values()] == [Status.RESTORED] * 2
    assert given_back(standin_state)


def test_foreign_change_survives_the_kill(start_server, start_client, standin_state):
    """What an administrator set over ours stays when the server dies and comes back."""
    server = start_server()
    start_client(server.socket_path).apply({uuid: Wish(150) for uuid in standin_state.uuids})
    standin_state[0].limit_w = 180
    server.kill()
    start_server()
    assert limits(standin_state) == [180, ORIGINAL_W]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_killed_at_a_random_moment(start_server, start_client, standin_state, place: Path, *, nvml, seed: int):
    """Whoever is killed, whenever: the exact original is back, nothing above it was ever set, no journal is left."""
    rng = random.Random(seed)
    victim = ("client", "server", "both")[seed % 3]
    server = start_server()
    client = start_client(server.socket_path)
    client.tell("churn", list(standin_state.uuids), seed)
    until(lambda: not given_back(standin_state))
    time.sleep(rng.uniform(0, 0.05))
    if victim in {"server", "both"}:
        server.kill()
    if victim in {"client", "both"}:
        client.kill()
    if victim == "client":
        assert until(lambda: given_back(standin_state) and not Journal(place / "state").uuids()) < 1.0
    elif rng.random() < 0.5:
        assert start_server().said == b"ready"
    else:
        restore_leftovers(nvml, place / "state", place / "locks")
    assert given_back(standin_state)
    assert Journal(place / "state").uuids() == []
    check_every_write(standin_state)
