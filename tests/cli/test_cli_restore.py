"""``chase restore`` and ``chase actuator``, as processes of their own, on stand-in cards found at 275 of 300 W."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from chase.config import load

_OWNER = """
import os, signal, sys, time
from pathlib import Path
from zeus_core.actuation.base import Wish
from zeus_core.actuation.local import LocalActuator
from zeus_core.gpus.nvml import NvmlSystem
system = NvmlSystem()
actuator = LocalActuator(system, state_dir=Path(sys.argv[1]), lock_dir=Path(sys.argv[2]))
actuator.apply({gpu.uuid: Wish(power_limit_w=150.0) for gpu in system.gpus()})
print("set", flush=True)
if sys.argv[3] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60)
"""


@pytest.fixture
def folders():
    """A journal and a lock folder whose paths are short enough for a socket beside them."""
    with tempfile.TemporaryDirectory(prefix="chase-") as folder:
        yield Path(folder)


@pytest.fixture
def places(folders):
    return ["--state-dir", folders / "journal", "--lock-dir", folders / "locks"]


@pytest.fixture
def owner(standin_state, folders):
    """Start a process that takes both cards down to 150 W; it then dies by SIGKILL, or stays."""
    started = []

    def start(then: str, journal: Path = folders / "journal", locks: Path = folders / "locks") -> subprocess.Popen:
        command = [sys.executable, "-c", _OWNER, str(journal), str(locks), then]
        process = subprocess.Popen(command, env=standin_state.env(), stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "set\n"
        if then == "die":
            process.wait(timeout=30)
        assert [card.limit_w for card in standin_state] == [150, 150]
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(timeout=30)
        process.stdout.close()


@pytest.mark.parametrize("everything", [[], ["--all"]])
def test_what_a_killed_owner_left_is_given_back_exactly(chase, standin_state, owner, places, everything):
    """The limit found, 275 W, is in force again, with neither daemon nor database; then nothing is left."""
    owner("die")
    done = chase("restore", *everything, *places, "--json")
    assert done.returncode == 0, done.stderr
    assert [(row["status"], row["enforced_w"]) for row in json.loads(done.stdout)] == [("restored", 275.0)] * 2
    assert [card.limit_w for card in standin_state] == [275, 275]
    again = chase("restore", *places)
    assert (again.returncode, again.stdout) == (0, "")
    assert "Nothing to give back" in again.stderr


@pytest.mark.parametrize("by", ["index", "uuid", "prefix"])
def test_one_gpu_alone_is_given_back(run, standin_state, owner, places, by):
    """The other card stays as it is until it is named too."""
    owner("die")
    uuid = standin_state.uuids[1]
    name = {"index": "1", "uuid": uuid, "prefix": uuid[:18]}[by]
    done = run("restore", name, *places, "--nl")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["uuid"] == uuid
    assert [card.limit_w for card in standin_state] == [150, 275]


def test_a_gpu_that_is_not_there_is_a_usage_error(run, standin_state, owner, places):
    """The text lists those that are; nothing is given back."""
    owner("die")
    done = run("restore", "7", *places)
    assert done.exit_code == 2
    assert standin_state.uuids[0] in done.stderr
    assert [card.limit_w for card in standin_state] == [150, 150]


def test_a_gpu_that_a_living_process_holds_is_left_to_it(run, standin_state, owner, places):
    """Exit code 75 names the process; the card is not touched."""
    holder = owner("stay")
    done = run("restore", *places, "--json")
    assert done.exit_code == 75
    rows = json.loads(done.stdout)
    assert {row["holder_pid"] for row in rows} == {holder.pid}
    assert str(holder.pid) in rows[0]["detail"]
    assert {row["status"] for row in rows} == {"held"}
    assert [card.limit_w for card in standin_state] == [150, 150]


def test_one_held_and_one_that_fails_is_a_failure(run, standin_state, folders, owner, places):
    """Exit code 1 outweighs 75: something is wrong that waiting does not mend."""
    import standin

    from zeus_core.actuation.lock import GpuLock

    owner("die")
    standin_state.fail(standin.SET_LIMIT, standin.NO_PERMISSION, gpu=0)
    lock = GpuLock.acquire(folders / "locks", standin_state.uuids[1])
    done = run("restore", *places, "--json")
    lock.release()
    statuses = {row["uuid"]: row["status"] for row in json.loads(done.stdout)}
    assert statuses[standin_state.uuids[1]] == "held"
    assert statuses[standin_state.uuids[0]] != "held"
    assert done.exit_code == 1


@pytest.mark.parametrize("then", ["die", "stay"])
def test_restore_says_everything_once(chase, standin_state, owner, places, then):
    """The table is all there is: nothing before it, each GPU in one row, and no space at a line's end."""
    owner(then)
    done = chase("restore", *places)
    assert done.stderr == ""
    assert [done.stdout.count(uuid) for uuid in standin_state.uuids] == [1, 1] or then == "stay"
    assert len(done.stdout.splitlines()) == 3
    assert not any(line.endswith(" ") for line in done.stdout.splitlines())


@pytest.mark.parametrize("beginning", ["GPU-", "GPU"])
def test_an_ambiguous_beginning_is_called_that(run, standin_state, owner, places, beginning):
    """A beginning of several GPUs is refused with those that it could be, and nothing is given back."""
    owner("die")
    done = run("restore", beginning, *places)
    assert done.exit_code == 2
    assert "ambiguous" in done.stderr
    assert all(uuid in done.stderr for uuid in standin_state.uuids)
    assert [card.limit_w for card in standin_state] == [150, 150]


def test_a_foreign_limit_stays(run, standin_state, owner, places):
    """Somebody who set another limit since is not overruled, and the journal is closed."""
    owner("die")
    standin_state[0].limit_w = 200
    done = run("restore", *places, "--json")
    statuses = {row["uuid"]: row["status"] for row in json.loads(done.stdout)}
    assert statuses == {standin_state.uuids[0]: "foreign", standin_state.uuids[1]: "restored"}
    assert done.exit_code == 0
    assert [card.limit_w for card in standin_state] == [200, 275]


def test_a_limit_that_cannot_be_set_is_a_finding_and_stays_owed(run, standin_state, owner, places):
    """Exit code 1, and the next attempt finds the journal still there."""
    import standin

    owner("die")
    standin_state.fail(standin.SET_LIMIT, standin.NO_PERMISSION, gpu=0)
    done = run("restore", *places, "--json")
    assert done.exit_code == 1
    assert [card.limit_w for card in standin_state] == [150, 275]
    standin_state.clear()
    assert run("restore", *places).exit_code == 0
    assert [card.limit_w for card in standin_state] == [275, 275]


def test_a_broken_configuration_does_not_stand_in_the_way(run, standin_state, owner, places, tmp_path):
    """It is said that the file cannot be used, and the GPU is given back all the same."""
    owner("die")
    config = tmp_path / "chase.toml"
    config.write_text("this is no TOML")
    done = run("restore", "--config", config, *places)
    assert done.exit_code == 0
    assert "cannot be used" in done.stderr
    assert [card.limit_w for card in standin_state] == [275, 275]


def test_the_configured_folders_are_used(run, standin_state, owner, folders, tmp_path):
    """Without flags journal and locks are where the configuration says: a living owner is seen, a dead one mended."""
    path = tmp_path / "chase.toml"
    path.write_text(
        f'[service]\nstate_dir = "{folders}/state"\nrun_dir = "{folders}/run"\n[control]\n'
        f'actuator_state_dir = "{folders}/journal"\nactuator_socket = "{folders}/actuator.sock"\n'
    )
    config = load(service_file=path).config
    holder = owner("stay", config.journal_dir, config.lock_dir)
    assert run("restore", "--config", path).exit_code == 75
    holder.kill()
    holder.wait(timeout=30)
    assert run("restore", "--config", path).exit_code == 0
    assert [card.limit_w for card in standin_state] == [275, 275]


def test_a_setter_command_that_is_gone_is_replaced_by_the_driver(run, standin_state, owner, places, tmp_path):
    """The site's command is preferred; without it the driver is asked, and that is said."""
    owner("die")
    config = tmp_path / "chase.toml"
    config.write_text('[control]\nsetter_command = ["/no/such/setter", "{uuid}", "{power_limit_w}"]\n')
    result = run("restore", "--config", config, *places)
    assert result.exit_code == 0
    assert "/no/such/setter" in result.stderr
    assert [card.limit_w for card in standin_state] == [275, 275]


def test_without_a_driver_only_a_journal_is_trouble(run, standin_state, owner, places):
    """Nothing owed needs no driver; something owed and no driver to ask is an error that says so."""
    import standin

    standin_state.fail("nvmlInitWithFlags", standin.DRIVER_NOT_LOADED)
    assert run("restore", *places).exit_code == 0
    standin_state.clear()
    owner("die")
    standin_state.fail("nvmlInitWithFlags", standin.DRIVER_NOT_LOADED)
    done = run("restore", *places)
    assert done.exit_code == 1
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def actuator(standin_state, folders, places):
    """A real ``chase actuator`` for this user."""
    path = folders / "actuator.sock"
    command = [sys.executable, "-m", "chase", "actuator", "--uid", str(os.geteuid()), "--socket", str(path)]
    command += [*map(str, places), "--ramp-w-per-s", "0"]
    process = subprocess.Popen(command, env=standin_state.env(), stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    assert "listens" in line, line + process.stderr.read()
    yield process, path
    process.kill()
    process.wait(timeout=30)
    process.stderr.close()


def _take_down(path, standin_state):
    from zeus_core.actuation.base import Wish
    from zeus_core.actuation.remote import RemoteActuator

    remote = RemoteActuator(path)
    remote.apply({uuid: Wish(power_limit_w=150.0) for uuid in standin_state.uuids})
    assert [card.limit_w for card in standin_state] == [150, 150]
    return remote


def test_the_actuator_sets_for_its_user_and_gives_back_when_stopped(actuator, standin_state):
    """SIGTERM ends it with 0, every limit as it was found, and its socket gone."""
    process, path = actuator
    remote = _take_down(path, standin_state)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert [card.limit_w for card in standin_state] == [275, 275]
    assert not path.exists()
    log = process.stderr.read()
    assert standin_state.uuids[0] in log  # one line for each change
    assert "150" in log
    remote.close()


def test_a_killed_actuator_is_made_good_by_restore(actuator, chase, standin_state, places):
    """Kill -9 leaves the limits; ``chase restore`` brings back 275 W where the default is 300."""
    process, path = actuator
    remote = _take_down(path, standin_state)
    process.kill()
    process.wait(timeout=30)
    assert [card.limit_w for card in standin_state] == [150, 150]
    assert chase("restore", *places).returncode == 0
    assert [card.limit_w for card in standin_state] == [275, 275]
    remote.close()


def test_a_second_actuator_is_refused_with_the_holders_pid(actuator, chase, places, folders):
    """One owner a GPU: 75, and which process it is."""
    process, _ = actuator
    done = chase("actuator", "--uid", os.geteuid(), "--socket", folders / "other.sock", *places)
    assert done.returncode == 75
    assert str(process.pid) in done.stderr


def test_every_line_of_the_actuator_has_its_time(standin_state, folders, places):
    """The first line is no exception: when it began to listen is worth knowing."""
    command = [sys.executable, "-m", "chase", "actuator", "--uid", str(os.geteuid())]
    command += ["--socket", str(folders / "a.sock"), *map(str, places)]
    with subprocess.Popen(command, env=standin_state.env(), stderr=subprocess.PIPE, text=True) as process:
        lines = [process.stderr.readline()]
        _take_down(folders / "a.sock", standin_state).close()
        process.send_signal(signal.SIGTERM)
        lines += process.stderr.read().splitlines()
    assert len(lines) > 2
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ ", line) for line in lines), lines


def test_the_locks_are_beside_the_socket(standin_state, folders, tmp_path):
    """Who moves the socket alone moves the locks with it, as the configuration of restore and doctor computes."""
    path = folders / "moved" / "a.sock"
    config = tmp_path / "chase.toml"
    config.write_text(f'[control]\nactuator_socket = "{path}"\nactuator_state_dir = "{folders}/journal"\n')
    command = [sys.executable, "-m", "chase", "actuator", "--uid", str(os.geteuid()), "--socket", str(path)]
    command += ["--state-dir", str(folders / "journal")]
    with subprocess.Popen(command, env=standin_state.env(), stderr=subprocess.PIPE, text=True) as process:
        assert "listens" in process.stderr.readline()
        _take_down(path, standin_state).close()
        process.kill()
        process.stderr.read()
    locks = load(service_file=config).config.lock_dir
    assert locks == path.parent / "locks"
    assert sorted(each.stem for each in locks.iterdir()) == sorted(standin_state.uuids)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
def test_an_actuator_that_is_not_root_is_told_to_be(standin_state, folders):
    """Whoever forgot sudo is not sent looking for another folder."""
    folders.chmod(0o755)
    code = (
        "import os, sys, pynvml\nfrom chase.cli import main\nmain.get_command(None, 'actuator')\n"
        "os.setgid(65534); os.setuid(65534)\nmain(sys.argv[1:], prog_name='chase')"
    )
    places = ["--socket", folders / "a.sock", "--state-dir", folders / "journal"]
    command = [sys.executable, "-c", code, "actuator", "--uid", "65534", *map(str, places)]
    done = subprocess.run(command, env=standin_state.env(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "as root" in done.stderr
    assert "name another" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_actuator_without_a_driver_or_a_folder_says_what_is_wrong(chase, standin_state, folders, places):
    """No traceback: the driver's error, or the folder's."""
    import standin

    (folders / "file").touch()
    bad = chase("actuator", "--uid", os.geteuid(), "--socket", folders / "file" / "a.sock", *places)
    assert bad.returncode == 1
    assert "cannot listen" in bad.stderr
    standin_state.fail("nvmlInitWithFlags", standin.DRIVER_NOT_LOADED)
    bad = chase("actuator", "--uid", os.geteuid(), "--socket", folders / "a.sock", *places)
    assert bad.returncode == 1
    assert "Traceback" not in bad.stderr


def test_the_actuator_tells_the_service_manager_when_it_is_ready(standin_state, folders, places):
    """With NOTIFY_SOCKET set, READY=1 comes once connections are accepted."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folders / "notify"))
        manager.settimeout(30)
        command = [sys.executable, "-m", "chase", "actuator", "--uid", str(os.geteuid())]
        command += ["--socket", str(folders / "a.sock")]
        environment = {**standin_state.env(), "NOTIFY_SOCKET": str(folders / "notify")}
        with subprocess.Popen([*command, *map(str, places)], env=environment, stderr=subprocess.PIPE) as process:
            assert manager.recv(100) == b"READY=1"
            assert (folders / "a.sock").exists()
            process.terminate()
            process.stderr.read()
        assert process.returncode == 0
