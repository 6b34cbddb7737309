"""``chase doctor``: each thing that commonly stands in the way is found, named, and has a remedy."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from chase.cli.checks import gpus, node
from chase.cli.checks.finding import Finding, State, guarded
from chase.config import load


@pytest.fixture
def folder():
    """Short enough for a socket's path."""
    with tempfile.TemporaryDirectory(prefix="chase-") as name:
        yield Path(name)


@pytest.fixture
def config(tmp_path, folder):
    """A configuration whose every place is in ``folder``; ``extra`` goes on in [control]."""

    def write(extra: str = "") -> Path:
        path = tmp_path / "chase.toml"
        path.write_text(
            f'[service]\nstate_dir = "{folder}/state"\nrun_dir = "{folder}/run"\n'
            f'[control]\nactuator_socket = "{folder}/actuator.sock"\nactuator_state_dir = "{folder}/journal"\n{extra}'
        )
        return path

    return write


@pytest.fixture
def doctor(run, config):
    """The findings by subject, and the exit code."""

    def look(*arguments: object, extra: str = ""):
        done = run("doctor", "--config", config(extra), "--json", *arguments)
        assert done.exit_code in {0, 1}, done.stderr
        document = json.loads(done.stdout)
        assert document["ok"] is (done.exit_code == 0)
        found: dict[str, list[dict]] = {}
        for check in document["checks"]:
            found.setdefault(check["subject"], []).append(check)
            if check["state"] in {"warn", "fail"}:
                assert check["advice"], check
        return found, done.exit_code

    return look


def _states(findings):
    return [finding["state"] for finding in findings]


def test_a_node_in_order_has_nothing_to_complain_of(doctor, standin_state):
    """Two good cards: driver, limits, counter, persistence and MIG are ok, each card by its UUID."""
    found, code = doctor()
    assert code == 0
    assert "2 GPUs: NVIDIA A40" in found["driver"][0]["found"]
    assert "580.0.standin" in found["driver"][0]["found"]
    for subject in ("power-limits", "enforced-limit", "energy-counter", "persistence", "mig"):
        assert _states(found[subject]) == ["ok", "ok"], subject
        assert [finding["gpu"] for finding in found[subject]] == list(standin_state.uuids)
    assert "limit 275 W, range 100 to 300 W, default 300 W" in found["power-limits"][0]["found"]


def test_nothing_is_set_without_being_asked_for(doctor, standin_state):
    """The doctor reads; only --probe-setter sets each limit to what it is."""
    doctor()
    assert standin_state.writes() == []
    found, _ = doctor("--probe-setter")
    assert _states(found["setter"]) == ["ok", "ok"]
    assert {(write.gpu, write.watts) for write in standin_state.writes()} == {(0, 275.0), (1, 275.0)}
    assert [card.limit_w for card in standin_state] == [275, 275]


def test_a_setter_without_permission_is_found_by_the_probe(doctor, standin_state):
    """It is a warning, since observing works, and says how to get permission."""
    import standin

    standin_state.fail(standin.SET_LIMIT, standin.NO_PERMISSION, gpu=1)
    found, code = doctor("--probe-setter")
    assert _states(found["setter"]) == ["ok", "warn"]
    assert "chase actuator" in found["setter"][1]["advice"]
    assert code == 0


def test_a_card_that_somebody_holds_is_not_probed(doctor, standin_state, config):
    """Between reading a limit and setting it back its owner might have changed it, so the lock decides."""
    code = (
        "import sys, time; from pathlib import Path; from zeus_core.actuation.lock import GpuLock\n"
        "lock = GpuLock.acquire(Path(sys.argv[1]), sys.argv[2]); print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(load(service_file=config()).config.lock_dir), standin_state.uuids[0]]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        found, _ = doctor("--probe-setter")
        holder.kill()
    assert _states(found["setter"]) == ["skip", "ok"]
    assert str(holder.pid) in found["setter"][0]["found"]
    assert {write.gpu for write in standin_state.writes()} == {1}


def test_what_a_card_lacks_is_a_warning_for_that_card(doctor, standin_state):
    """No counter, no persistence, MIG, a cap from elsewhere, no headroom: each on the card that has it."""
    standin_state[0].raw.has_energy = 0
    standin_state[0].raw.persistence = 0
    standin_state[0].oob_cap_w = 200
    standin_state[1].slice_into("MIG-11111111-2222-3333-4444-555555555555")
    standin_state[1].min_w = 290
    found, code = doctor()
    assert code == 0
    assert _states(found["energy-counter"]) == ["warn", "ok"]
    assert _states(found["persistence"]) == ["warn", "ok"]
    assert "nvidia-smi -pm 1" in found["persistence"][0]["advice"]
    assert _states(found["enforced-limit"]) == ["warn", "ok"]
    assert "200 W are in force where 275 W are requested" in found["enforced-limit"][0]["found"]
    assert _states(found["mig"]) == ["ok", "warn"]
    assert _states(found["power-limits"]) == ["ok", "warn"]
    assert "no headroom" in found["power-limits"][1]["found"]


@pytest.mark.parametrize("fault", ["GPU_IS_LOST", "UNKNOWN", "RESET_REQUIRED"])
def test_a_lost_card_fails_and_the_other_is_looked_at(doctor, standin_state, fault):
    """One card's fault is its own: exit code 1, and the findings of the other are all there."""
    import standin

    standin_state.fail("*", getattr(standin, fault), gpu=0)
    found, code = doctor()
    assert code == 1
    checks = [finding for subject in ("power-limits", "persistence", "mig") for finding in found[subject]]
    good = [finding for finding in checks if finding["gpu"] == standin_state.uuids[1]]
    assert _states(good) == ["ok"] * 3


def test_no_driver_fails_with_what_to_do_and_the_rest_is_looked_at(doctor, standin_state):
    """A node without a driver still gets its database, sources and clock checked."""
    import standin

    standin_state.fail("nvmlInitWithFlags", standin.DRIVER_NOT_LOADED)
    found, code = doctor()
    assert code == 1
    assert _states(found["driver"]) == ["fail"]
    assert "--simulated" in found["driver"][0]["advice"]
    assert {"database", "source", "clock", "permission", "other-power-daemons"} <= set(found)


def test_simulated_gpus_are_called_that(doctor):
    """Nobody takes a simulated card for a real one."""
    found, _ = doctor(extra='gpus = "simulated"\n')
    assert "2 simulated GPUs" in found["driver"][0]["found"]


def test_a_wrong_configuration_is_the_first_finding(chase, tmp_path):
    """The error has file and key; what needs no configuration is still looked at."""
    path = tmp_path / "chase.toml"
    path.write_text("[servise]\n")
    done = chase("doctor", "--config", path, "--json")
    assert done.returncode == 1
    checks = json.loads(done.stdout)["checks"]
    assert checks[0]["subject"] == "config"
    assert "chase.toml:1" in checks[0]["found"]
    assert "clock" in {check["subject"] for check in checks}


def test_a_leftover_of_a_dead_owner_fails_with_the_remedy(doctor, standin_state, config):
    """The card is named, and ``chase restore`` is what to do."""
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from zeus_core.actuation.base import Wish; from zeus_core.actuation.local import LocalActuator\n"
        "from zeus_core.gpus.nvml import NvmlSystem\n"
        "a = LocalActuator(NvmlSystem(), state_dir=Path(sys.argv[1]), lock_dir=Path(sys.argv[2]))\n"
        "a.apply({sys.argv[3]: Wish(power_limit_w=150.0)}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    places = load(service_file=config()).config
    command = [sys.executable, "-c", code, str(places.journal_dir), str(places.lock_dir), standin_state.uuids[1]]
    killed = subprocess.run(command, env=standin_state.env(), check=False)
    assert killed.returncode == -signal.SIGKILL
    found, exit_code = doctor()
    assert exit_code == 1
    assert [(f["state"], f["gpu"]) for f in found["leftovers"]] == [("fail", standin_state.uuids[1])]
    assert "chase restore" in found["leftovers"][0]["advice"]


def test_an_actuator_is_asked_and_not_disturbed(doctor, standin_state, folder):
    """It answers with what it can set; afterwards nothing was changed and it still serves."""
    command = [sys.executable, "-m", "chase", "actuator", "--uid", str(os.geteuid())]
    command += [
        "--socket",
        f"{folder}/actuator.sock",
        "--state-dir",
        f"{folder}/journal",
        "--lock-dir",
        f"{folder}/run/locks",
    ]
    with subprocess.Popen(command, env=standin_state.env(), stderr=subprocess.PIPE, text=True) as process:
        assert "listens" in process.stderr.readline()
        for _ in range(2):
            found, _ = doctor()
            assert _states(found["actuator"]) == ["ok"]
            assert "2 of 2 GPUs" in found["actuator"][0]["found"]
        process.terminate()
        process.stderr.read()
    assert [card.limit_w for card in standin_state] == [275, 275]


def test_a_missing_actuator_matters_where_one_is_configured(doctor, standin_state):
    """``remote`` without one fails; other backends do not look for it."""
    found, code = doctor(extra='actuator = "remote"\n')
    assert (_states(found["actuator"]), code) == (["fail"], 1)
    assert "chase actuator --uid" in found["actuator"][0]["advice"]
    found, _ = doctor(extra='actuator = "local"\n')
    assert _states(found["actuator"]) == ["skip"]


def test_a_running_service_is_found(chase, service):
    """Its version, mode and age; and the database that it keeps."""
    done = chase("doctor", "--config", service.config, "--socket", service.socket, "--db", service.db, "--json")
    found = {check["subject"]: check for check in json.loads(done.stdout)["checks"]}
    assert found["service"]["state"] == "ok"
    assert "in control mode" in found["service"]["found"]
    assert "is readable" in found["database"]["found"]


def test_sources_are_asked_only_online(doctor, quiet_region):
    """Offline a source is only named; online its newest value is shown with kind and age."""
    found, _ = doctor("--region", quiet_region)
    assert _states(found["source"]) == ["skip"]
    found, _ = doctor("--region", quiet_region, "--online")
    assert _states(found["source"]) == ["ok"]
    assert re.search(r"file \(quiet\): \d+ g/kWh, measured", found["source"][0]["found"])


def test_a_source_that_cannot_be_asked_fails_online(doctor, quiet_region):
    """The error is the source's own, with what to do about it."""
    (quiet_region.parent / "trace.csv").write_text("<html>login</html>")
    found, code = doctor("--region", quiet_region, "--online")
    assert (_states(found["source"]), code) == (["fail"], 1)


def test_a_missing_token_is_a_warning_that_names_the_variable(doctor):
    """The keyless source still works, so nothing fails."""
    found, _ = doctor("--region", "gb")
    assert _states(found["token"]) == ["warn"]
    assert "ELECTRICITYMAPS_TOKEN" in found["token"][0]["found"]


def test_a_damaged_database_fails(doctor, tmp_path):
    """A file that is no log is named."""
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(b"no database at all" * 50)
    found, code = doctor("--db", bad, extra='gpus = "simulated"\n')
    assert (_states(found["database"]), code) == (["fail"], 1)


def test_the_page_for_people_has_a_word_a_line_and_a_remedy(chase, config):
    """One line a check, ready to be pasted into an issue, with the version on top."""
    out = chase("doctor", "--config", config('gpus = "simulated"\n')).stdout
    lines = out.splitlines()
    assert re.match(r"chase \d+\.\d+\.\d+, python 3\.", lines[0])
    assert all(re.match(r"(ok   |warn |fail |skip |     -> )", line) for line in lines[1:])
    assert "\x1b" not in out


def test_a_check_that_breaks_is_a_finding_too():
    """A fault of the doctor does not keep the other checks from being made."""

    def broken():
        yield Finding("x", State.OK, "fine so far")
        raise ZeroDivisionError("oops")

    (finding,) = guarded("x", broken)
    assert finding.state is State.FAIL
    assert "ZeroDivisionError: oops" in finding.found


@pytest.mark.parametrize(("state", "expected"), [(0, State.OK), (1, State.OK), (5, State.WARN)])
def test_the_clock_is_judged_by_the_kernels_word(state, expected):
    """TIME_ERROR is a clock that nobody disciplines; all else is in order, leap seconds included."""
    assert [finding.state for finding in node.clock(state)] == [expected]


def test_the_clock_is_read_from_the_kernel():
    """The call itself works here and changes nothing."""
    assert [finding.subject for finding in node.clock()] == ["clock"]


def test_rival_daemons_are_found_by_name(tmp_path):
    """A process table with nvidia-powerd in it is a warning with what to do; one without is in order."""
    for pid, name in ((1, "systemd"), (17, "nvidia-powerd")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(name + "\n")
    (finding,) = node.rivals(tmp_path)
    assert (finding.state, "nvidia-powerd" in finding.found) == (State.WARN, True)
    (tmp_path / "17" / "comm").unlink()
    assert [finding.state for finding in node.rivals(tmp_path)] == [State.OK]


@pytest.mark.parametrize(
    ("uid", "capabilities", "state", "says"),
    [
        (0, "000001ffffffffff", State.OK, "root"),
        (0, "00000000a80425fb", State.WARN, "container"),
        (990, "0000000000200000", State.OK, "CAP_SYS_ADMIN"),
        (990, "0000000000000000", State.WARN, "may not set"),
    ],
)
def test_permission_is_the_capability_and_not_the_name(tmp_path, uid, capabilities, state, says):
    """Root in a container without CAP_SYS_ADMIN may not set limits; another user with it may."""
    status = tmp_path / "status"
    status.write_text(f"Name:\tpython\nCapEff:\t{capabilities}\n")
    (finding,) = gpus.privileges(status, uid)
    assert finding.state is state
    assert says in finding.found
