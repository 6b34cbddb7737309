"""The service's side of the socket, and no launcher around."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "client"))

from daemon_peer import PeerDaemon


@pytest.fixture
def service(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PeerDaemon]:
    names = ["CHASE_JOB_ID", "CHASE_JOB_DIR", "CHASE_JOB_GPUS", "CUDA_VISIBLE_DEVICES"]
    for name in [*names, "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CHASE_SOCKET", str(place / "chase.sock"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    peer = PeerDaemon(place / "chase.sock", setting={"power_limit_w": 200}, mode="efficiency-first")
    with peer.running() as running:
        yield running
