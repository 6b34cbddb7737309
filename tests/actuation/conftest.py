"""A place that every user can reach, and one actuator of each kind over two cards at 275 W whose default is 300 W."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from actuation_harness import Bench, ServerProcess, SimulatedCards, StandinCards, Worker, other_uid

from zeus_core.actuation.command import CommandSetter
from zeus_core.actuation.local import LocalActuator
from zeus_core.gpus.base import GpuSystem
from zeus_core.gpus.nvml import NvmlSystem
from zeus_core.gpus.profiles import GpuProfile, ProfilePoint
from zeus_core.gpus.simulated import SimulatedSystem

SCRIPT = """#!{python} -IS
# As vendors' tools do, this says nothing and exits with 0, whether or not it was obeyed.
import fcntl, struct, sys
uuid, milliwatts = sys.argv[1], int(sys.argv[2])
offset = {offsets!r}[uuid]
with open({state!r}, "r+b") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.seek(offset)
    low, high, _, _ = struct.unpack("4I", file.read(16))
    if low <= milliwatts <= high:
        file.seek(offset + 12)
        file.write(struct.pack("I", milliwatts))
"""


@pytest.fixture
def nvml(standin_state) -> Iterator[NvmlSystem]:
    system = NvmlSystem()
    yield system
    system.close()


@pytest.fixture
def make_local(place: Path) -> Iterator[Callable[..., LocalActuator]]:
    """LocalActuators with their files in ``place``, closed at the end."""
    with ExitStack() as stack:

        def make(system: GpuSystem, **options: Any) -> LocalActuator:
            options = {"state_dir": place / "state", "lock_dir": place / "locks", **options}
            actuator = LocalActuator(system, **options)
            stack.callback(actuator.close)
            return actuator

        yield make


@pytest.fixture
def local(make_local, nvml: NvmlSystem) -> LocalActuator:
    return make_local(nvml)


@pytest.fixture
def bench_local(local: LocalActuator, standin_state) -> Bench:
    return Bench("standin", local, StandinCards(standin_state))


@pytest.fixture
def setter_script(standin_state, place: Path) -> list[str]:
    """A command line that sets a stand-in card's limit behind NVML's back."""
    card_type = type(standin_state[0].raw)
    start = type(standin_state.raw).card.offset
    step = type(standin_state.raw).card.size // len(standin_state.raw.card)
    offsets = {card.uuid: start + card.index * step + card_type.min_mw.offset for card in standin_state}
    script = place / "site-power"
    script.write_text(SCRIPT.format(python=sys.executable, offsets=offsets, state=str(standin_state.path)))
    script.chmod(0o755)
    return [str(script), "{uuid}", "{power_limit_mw}"]


@pytest.fixture
def start_server(standin_state, place: Path) -> Iterator[Callable[..., ServerProcess]]:
    with ExitStack() as stack:

        def start(**options: Any) -> ServerProcess:
            server = ServerProcess(place, **{"uid": other_uid(), **options})
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture
def start_client() -> Iterator[Callable[..., Worker]]:
    with ExitStack() as stack:

        def start(path: Path | None = None, uid: int | None = None) -> Worker:
            client = Worker("client", str(other_uid() if uid is None else uid))
            stack.callback(client.kill)
            if path is not None:
                client.connect(path)
            return client

        yield start


@pytest.fixture(scope="session")
def lasting_client() -> Iterator[Worker]:
    """One process of another user for all the tests that only need some client."""
    client = Worker("client", str(other_uid()))
    yield client
    client.kill()


@pytest.fixture(scope="session")
def profile() -> GpuProfile:
    points = tuple(ProfilePoint(watts, 40 / watts, watts - 5) for watts in (100, 200, 300))
    return GpuProfile("a", "NVIDIA A40", "w", "step", "made up", "none", 100, 300, 300, 30, points)


@pytest.fixture(params=["simulated", "standin", "command", "remote"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """The conformance suite runs once for each of these."""
    get = request.getfixturevalue
    if request.param == "simulated":
        system = SimulatedSystem(get("profile"), 2)
        cards = SimulatedCards(system)
        yield Bench(request.param, get("make_local")(system), cards)
    elif request.param == "standin":
        yield get("bench_local")
    elif request.param == "command":
        actuator = get("make_local")(get("nvml"), setter=CommandSetter(get("setter_script")))
        yield Bench(request.param, actuator, StandinCards(get("standin_state")))
    else:
        client = get("lasting_client")
        client.connect(get("start_server")().socket_path)
        yield Bench(request.param, client, StandinCards(get("standin_state")))
        client.close()
