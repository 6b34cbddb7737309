"""Commands that talk to the service, against a real one on simulated GPUs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from chase import unixhttp
from chase.errors import TryLater


@pytest.fixture
def live(service, monkeypatch):
    """The running service as the one that commands mean, with no hold left behind."""
    monkeypatch.setenv("CHASE_SOCKET", str(service.socket))
    yield service
    unixhttp.request(service.socket, "DELETE", "/v1/holds", {"job": None})


@pytest.fixture
def job(live):
    """A registered job that ends with the test."""
    gpu = unixhttp.request(live.socket, "GET", "/v1/status")["gpus"][0]["uuid"]
    job_id = uuid.uuid4().hex
    body = {"id": job_id, "name": f"job-{job_id[:6]}", "gpus": [gpu], "units": "steps", "profile": "a40-resnet50"}
    unixhttp.request(live.socket, "POST", "/v1/jobs", body)
    yield job_id
    unixhttp.request(live.socket, "POST", f"/v1/jobs/{job_id}/end", {"reason": "done", "units_done": 10.0})


ASKING = ("status", "jobs", "hold speed-first")


def _status(live):
    return unixhttp.request(live.socket, "GET", "/v1/status")


def _until(what, patience_s=20.0):
    """Poll the service until ``what()`` is true: its ticks run on its own clock."""
    deadline = time.monotonic() + patience_s
    while not (found := what()):
        assert time.monotonic() < deadline, "the service did not get there"
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("named", ["CHASE_CONFIG", "--config", "in its usual place"])
@pytest.mark.parametrize("command", ASKING)
def test_the_service_is_found_by_its_own_file(run, live, home, command, named):
    """The file that the service was started with is enough for those who ask it; CHASE_SOCKET goes before it."""
    path = home / "xdg_config_home/chase/chase.toml" if named == "in its usual place" else home / "mine.toml"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(f'[service]\nrun_dir = "{live.socket.parent}"\n')
    arguments = [*command.split(), *(["--config", path] if named == "--config" else [])]
    env = {"CHASE_SOCKET": None, **({"CHASE_CONFIG": str(path)} if named == "CHASE_CONFIG" else {})}
    assert run(*arguments, env=env).exit_code == 0
    assert run(*arguments, env={**env, "CHASE_SOCKET": str(home / "nobody.sock")}).exit_code == 75


@pytest.mark.parametrize("command", [*ASKING, "doctor"])
def test_a_file_that_was_named_and_cannot_be_used_ends_it(run, tmp_path, monkeypatch, command):
    """Another service is not asked in the place of the one that was meant."""
    monkeypatch.delenv("CHASE_SOCKET")
    path = tmp_path / "mine.toml"
    path.write_text("[servise]\n")
    result = run(*command.split(), "--config", path)
    assert result.exit_code == (1 if command == "doctor" else 2)
    assert f"{path}:1: servise" in result.stderr + result.stdout


def test_a_file_that_sets_no_place_means_the_usual_one(run, live, home, monkeypatch):
    """By default the place depends on who runs the service, who need not be who asks."""
    monkeypatch.delenv("CHASE_SOCKET")
    monkeypatch.setattr(unixhttp, "SYSTEM_SOCKET", live.socket)
    path = home / "mine.toml"
    path.write_text("[control]\ninterval_s = 5\n")
    assert run("status", "--config", path).exit_code == 0


def test_status_says_mode_grid_gpus_and_jobs(run, live, job):
    """The page for people names what matters, simulated GPUs above all."""
    _until(lambda: _status(live)["gpus"][0]["power_limit_w"])
    result = run("status")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "simulated GPUs: control mode" in result.stdout
    assert "Grid quiet: 100 g/kWh, average lifecycle" in result.stdout
    assert "Simulated A40" in result.stdout
    assert job[:8] in result.stdout


def test_status_as_json_is_the_services_own_document(run, live):
    """Nothing is added and nothing taken away."""
    document = json.loads(run("status", "--json").stdout)
    assert set(document) == {"service", "signal", "gpus", "jobs", "holds"}
    assert document["service"]["pid"] == live.process.pid
    assert document["signal"]["quiet"]["g_per_kwh"] == 100.0


def test_status_finds_the_socket_by_flag_too(run, live):
    """--socket goes before CHASE_SOCKET."""
    result = run("status", "--json", "--socket", live.socket, env={"CHASE_SOCKET": "/nowhere.sock"})
    assert json.loads(result.stdout)["service"]["pid"] == live.process.pid


def test_jobs_lists_who_is_under_control(run, live, job):
    """The table shows the short id, JSON the whole row."""
    rows = json.loads(run("jobs", "--json").stdout)
    mine = next(row for row in rows if row["id"] == job)
    assert mine["units"] == "steps"
    table = run("jobs").stdout
    assert job[:8] in table
    assert job not in table


def test_a_hold_takes_the_job_over_and_is_lifted_again(run, live, job):
    """A node-wide hold reaches the job at the next tick; ``hold none`` returns it to its policy."""
    _until(lambda: _job(live, job)["mode"] == "speed-first")  # 100 g/kWh is below the region's threshold
    result = run("hold", "efficiency-first", "--until", "2h")
    assert result.exit_code == 0
    assert result.stdout.startswith("The node is held at efficiency-first until 20")
    _until(lambda: _job(live, job)["mode"] == "efficiency-first")
    assert "efficiency-first" in run("status").stdout
    assert run("hold", "none").stdout == "The node follows its policy again.\n"
    assert _status(live)["holds"] == []


def test_a_hold_of_one_job_names_it_by_name_or_beginning(run, live, job):
    """Only that job is held, with an end in UTC by the service's clock."""
    name = _job(live, job)["name"]
    document = json.loads(run("hold", "off", "--job", name, "--until", "90m", "--json").stdout)
    assert (document["mode"], document["job"]) == ("off", job)
    left = datetime.fromisoformat(document["until"]) - datetime.now(UTC)
    assert timedelta(minutes=89) < left < timedelta(minutes=91)
    assert json.loads(run("hold", "none", "--job", job[:12], "--json").stdout) == {"ended": 1}


def test_a_hold_without_an_end_says_how_it_ends(run, live):
    """Nobody is left with a hold and no idea how to lift it."""
    assert run("hold", "off").stdout == "The node is held at off until 'chase hold none'.\n"


def test_a_hold_with_a_wrong_end_or_job_changes_nothing(run, live):
    """A time that has passed and a job that is not there are usage errors."""
    assert run("hold", "off", "--until", "2020-01-01").exit_code == 2
    assert run("hold", "off", "--until", "soon").exit_code == 2
    assert run("hold", "off", "--job", "nosuch").exit_code == 2
    assert _status(live)["holds"] == []


def test_a_second_service_is_told_to_try_later(chase, live):
    """One service a node: exit code 75 names the one that runs."""
    done = chase("serve", "--simulated", "--config", live.config)
    assert done.returncode == 75
    assert str(live.process.pid) in done.stderr


def test_exec_registers_the_command_and_ends_as_it_ends(chase, live):
    """The job is known while it runs, its exit status is ours, and the summary is talk."""
    code = (
        "import os, sys, time, json\nfrom chase import unixhttp\n"
        "deadline = time.monotonic() + 20\n"
        "while time.monotonic() < deadline:\n"
        "    jobs = unixhttp.request(os.environ['CHASE_SOCKET'], 'GET', '/v1/jobs')['jobs']\n"
        "    if any(job['name'] == 'held' for job in jobs): break\n"
        "    time.sleep(0.05)\n"
        "print(json.dumps([job['name'] for job in jobs])); sys.exit(7)\n"
    )
    done = chase("exec", "--name", "held", "--gpus", "1", "--max-slowdown", "10%", "--", sys.executable, "-c", code)
    assert done.returncode == 7, done.stderr
    assert "held" in json.loads(done.stdout)
    assert "chase: job held (simulated GPUs): " in done.stderr


def test_exec_passes_the_command_its_own_options(chase):
    """What follows the command's name belongs to it, with -- and without."""
    for arguments in (["--", "printf", "%s|", "-v", "--help"], ["printf", "%s|", "-v", "--help"]):
        done = chase("exec", *arguments)
        assert (done.returncode, done.stdout) == (0, "-v|--help|")


def test_exec_without_a_service_says_so_and_runs(chase):
    """The command's own output and status are what they would be without us."""
    done = chase("exec", "--", sys.executable, "-c", "import time; time.sleep(0.5); print('trained')")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "no service answers" in done.stderr


def test_exec_of_a_command_that_is_not_there_ends_as_a_shell_does(chase):
    """127, and a text."""
    done = chase("exec", "--", "no-such-command-anywhere", env={**os.environ, "PATH": "/usr/bin:/bin"})
    assert done.returncode == 127
    assert "not found" in done.stderr


def test_serve_observes_when_told_to(tmp_path, chase, service):
    """--observe reaches the service as a flag, above file and environment; SIGTERM ends it with 0."""
    run_dir = service.socket.parent.parent / "observer"
    command = [sys.executable, "-m", "chase", "serve", "--simulated", "--observe", "--config", str(service.config)]
    environment = {**os.environ, "CHASE_SERVICE__RUN_DIR": str(run_dir), "CHASE_SERVICE__MODE": "control"}
    environment.pop("CHASE_SOCKET")
    environment["CHASE_SERVICE__STATE_DIR"] = str(tmp_path / "state")
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        try:
            document = _until(lambda: _answer(run_dir / "chase.sock"), patience_s=30)
            assert document["service"]["control"] == "observe"
            assert "service.mode" in document["service"]["control_reason"]
            page = chase("status", "--socket", run_dir / "chase.sock").stdout
            assert "observe mode (configured to observe" in page
        finally:
            process.send_signal(signal.SIGTERM)
        process.stderr.read()
    assert process.returncode == 0


def test_demo_hands_its_options_on(run, monkeypatch, tmp_path):
    """Length, regions and folder reach the demo, whose exit status is ours; by default both regions are shown."""
    from chase import demo

    asked = []
    monkeypatch.setattr(demo, "run", lambda out, **options: asked.append(options) or out.write("shown\n") * 0 + 1)
    result = run("demo", "--seconds", "30", "--region", "de", "--folder", "new/place")
    assert (result.exit_code, result.stdout) == (1, "shown\n")
    assert (tmp_path / "new" / "place").is_dir()
    run("demo")
    assert asked == [
        {"folder": tmp_path / "new" / "place", "seconds": 30.0, "regions": ("de",)},
        {"folder": None, "seconds": 25.0, "regions": demo.REGIONS},
    ]


def _answer(socket):
    try:
        return unixhttp.request(socket, "GET", "/v1/status")
    except TryLater:
        return None


def _job(live, job_id):
    return next(job for job in unixhttp.request(live.socket, "GET", "/v1/jobs")["jobs"] if job["id"] == job_id)
