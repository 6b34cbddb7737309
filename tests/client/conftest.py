"""The service's side of the socket, for the tests of the client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_peer import PeerDaemon


@pytest.fixture
def socket_path(place: Path) -> Path:
    return place / "chase.sock"


@pytest.fixture
def daemon(socket_path: Path) -> Iterator[PeerDaemon]:
    with PeerDaemon(socket_path).running() as peer:
        yield peer
    # A job waits two seconds for its reporter, which then says to the next test's log what it thinks of this service.
    for thread in threading.enumerate():
        if thread.name == "chase-reporter":
            thread.join(10.0)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine that runs the tests may have set."""
    names = ["CHASE_JOB_ID", "CHASE_JOB_DIR", "CHASE_JOB_GPUS", "CHASE_SOCKET", "CUDA_VISIBLE_DEVICES"]
    for name in [*names, "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"]:
        monkeypatch.delenv(name, raising=False)
