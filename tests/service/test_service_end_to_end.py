"""The main job with real processes: the grid moves a running job's limit, and the GPU is given back."""

from __future__ import annotations

import json
import os
import signal
import time

from service_node import CLEAN, DIRTY, ORIGINAL_W, until


def low(node) -> bool:
    return node.limits[0] < ORIGINAL_W


def run_until_low(node):
    """A job on GPU 0 under a dirty grid, its limit lowered."""
    job = node.start_job("--gpus", "0")
    node.grid(DIRTY)
    until(lambda: low(node), "the limit went down")
    return job


def test_the_grid_moves_the_limit_and_the_log_says_why(node):
    """Dirty power lowers the limit, clean power raises it, on the job's GPU alone, and the reasons are recorded."""
    job = run_until_low(node)
    assert node.limits == [200.0, ORIGINAL_W]
    node.grid(CLEAN)
    until(lambda: node.limits[0] > 200.0, "the limit went up")
    assert node.status()["service"]["control"] == "control"
    job.send_signal(signal.SIGTERM)
    job.wait(10)
    until(lambda: node.limits == [ORIGINAL_W, ORIGINAL_W], "the GPU was given back with its job")
    listed = json.loads(node.cli("decisions", "--db", str(node.db), "--json"))
    decisions = {entry["code"]: entry for entry in listed}
    assert {"above-threshold", "below-threshold"} <= decisions.keys()
    assert "500 g/kWh is above 300" in decisions["above-threshold"]["reason"]
    told = node.cli("explain", str(decisions["above-threshold"]["id"]), "--db", str(node.db))
    assert "500 g/kWh is above 300" in told
    assert "the same choice" in told


def test_a_job_ends_with_its_own_status_and_an_account(node):
    """``chase exec`` passes the exit status on and says what the job cost."""
    job = node.start_job("--gpus", "0", seconds=1.5)
    assert job.wait(20) == 0
    assert b"J" in node.said("job")
    assert node.status()["jobs"] == []


class TestGivenBack:
    def test_on_sigterm(self, node):
        """The service goes, its GPUs go back to exactly what was found, and the exit is clean."""
        run_until_low(node)
        service = node.processes[1]
        service.send_signal(signal.SIGTERM)
        assert service.wait(15) == 0
        assert node.limits == [ORIGINAL_W, ORIGINAL_W]

    def test_when_the_service_is_killed(self, node):
        """Kill -9 of the service alone: the actuator gives back within a second."""
        run_until_low(node)
        began = time.monotonic()
        node.processes[1].kill()
        until(lambda: not low(node), "the actuator gave back", within_s=1.0)
        assert time.monotonic() - began < 1.0
        assert node.limits == [ORIGINAL_W, ORIGINAL_W]
        assert node.intact()

    def test_when_both_are_killed_and_come_back(self, node):
        """Kill -9 of both: the next start of the actuator gives back before anything else."""
        run_until_low(node)
        for process in node.processes[:2]:
            process.kill()
            process.wait()
        assert low(node)
        node.start_actuator()
        assert node.limits == [ORIGINAL_W, ORIGINAL_W]

    def test_by_restore_with_nobody_there(self, node):
        """Kill -9 of both, the database gone: ``chase restore`` needs neither."""
        run_until_low(node)
        for process in node.processes[:2]:
            process.kill()
            process.wait()
        node.db.unlink()
        restore = (
            "restore",
            "--all",
            "--state-dir",
            str(node.place / "actuator"),
            "--lock-dir",
            str(node.place / "locks"),
        )
        node.cli(*restore)
        assert node.limits == [ORIGINAL_W, ORIGINAL_W]
        node.cli(*restore)  # again is harmless

    def test_when_the_job_vanishes(self, node):
        """A launcher and its child killed without goodbye: the lease ends and the setting is withdrawn."""
        job = run_until_low(node)
        os.killpg(job.pid, signal.SIGKILL)
        until(lambda: not low(node), "the lease ended")
        assert "lease-over" in node.events()

    def test_when_the_service_comes_back_the_job_goes_on(self, node):
        """A restart of the service in the middle: the running job is controlled again, under its own id."""
        run_until_low(node)
        before = until(lambda: {decision.job_id for decision in node.decisions()}, "a recorded decision")
        node.processes[1].kill()
        until(lambda: not low(node), "given back")
        node.start_service()
        until(lambda: low(node), "controlled again")
        assert {decision.job_id for decision in node.decisions()} == before


class TestObserve:
    def test_observe_touches_nothing(self, make_node):
        """In observe mode decisions are the same, and not one setter is called."""
        node = make_node()
        node.grid(DIRTY)
        node.start_service("--observe")
        node.start_job("--gpus", "0")
        until(lambda: any(d.code == "above-threshold" for d in node.decisions()), "a decision")
        assert node.state.writes() == []
        assert node.limits == [ORIGINAL_W, ORIGINAL_W]
        assert node.status()["service"]["control"] == "observe"

    def test_without_permission_the_reason_is_in_status(self, make_node):
        """No actuator and no privilege: observe mode, a reason with the fix, and the training goes on."""
        node = make_node(actuator="local")
        node.state.root_uid = 0 if node.uid != 0 else 1
        node.grid(DIRTY)
        node.start_service()
        job = node.start_job("--gpus", "0", seconds=2.0)
        service = until(lambda: node.status().get("service"), "status")
        until(lambda: node.status()["service"]["control"] == "observe", "observe mode")
        service = node.status()["service"]
        assert "chase actuator" in service["control_reason"]
        assert job.wait(20) == 0
        assert node.limits == [ORIGINAL_W, ORIGINAL_W]


def test_an_actuator_that_comes_later_is_found(make_node):
    """Started the other way round, the service observes until the actuator is there, and then controls."""
    node = make_node()
    node.state.root_uid = 0 if node.uid != 0 else -1
    node.grid(DIRTY)
    node.start_service()
    node.start_job("--gpus", "0")
    until(lambda: "chase actuator" in node.status()["service"]["control_reason"], "the reason says what to start")
    node.start_actuator()
    until(lambda: low(node), "controlled")
    assert node.status()["service"]["control"] == "control"


def test_one_service_a_node(node):
    """A second service is refused with the holder's pid and exit status 75."""
    told = json.dumps(node.status())
    assert str(node.processes[1].pid) in told
    second = node.spawn([*node.processes[1].args], "second")
    assert second.wait(15) == 75
    assert str(node.processes[1].pid).encode() in node.said("second")


def test_a_wrong_configuration_touches_nothing(make_node):
    """Exit 2 with file, key and value, before a GPU, a socket or a database is looked at."""
    node = make_node(more="\n[polcy]\nname = 1\n")
    service = node.spawn([*_serve(node)], "service")
    assert service.wait(15) == 2
    said = node.said("service").decode()
    assert "polcy" in said
    assert "chase.toml" in said
    assert "Traceback" not in said
    assert node.state.calls() == 0
    assert not node.db.exists()


def _serve(node):
    import sys

    from service_node import AS_USER

    return [sys.executable, str(AS_USER), str(node.uid), "serve", "--config", str(node.config)]
