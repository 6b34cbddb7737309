"""A site's own command as the setter."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from actuation_harness import ORIGINAL_W, Bench, StandinCards, until

from zeus_core.actuation.base import ActuationError, Status
from zeus_core.actuation.command import CommandSetter, find_program
from zeus_core.gpus.base import NoPermission, Refused, Unavailable

AS_ROOT = os.geteuid() == 0
ALL = ("{uuid}", "{index}", "{power_limit_w}", "{power_limit_mw}")


@pytest.fixture
def script(place: Path) -> Callable[..., Path]:
    """Makes an executable script."""

    def make(text: str, name: str = "site-power", mode: int = 0o755) -> Path:
        path = place / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(mode)
        return path

    return make


def is_dead(pid: int) -> bool:
    """Gone, or waiting for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.fixture
def gpu(nvml):
    return nvml.gpus()[1]


def test_placeholders_are_filled_in(script, gpu, place: Path):
    """Each placeholder becomes its figure, exact to the milliwatt, in one argument each."""
    path = script(f'printf "%s\\n" "$@" > {place}/said')
    CommandSetter([str(path), *ALL, "a={uuid}/{{}}"]).set_power_limit_w(gpu, 150.125)
    said = (place / "said").read_text().splitlines()
    assert said == [gpu.uuid, "1", "150.125", "150125", f"a={gpu.uuid}/{{}}"]


@pytest.mark.parametrize(("limit_w", "text"), [(150.0, "150"), (200.5, "200.5"), (1000.0, "1000"), (99.9996, "100")])
def test_watts_are_plain_numbers(script, gpu, place: Path, limit_w: float, text: str):
    """Watts come without an exponent or a trailing point."""
    path = script(f'printf %s "$2" > {place}/said')
    CommandSetter([str(path), "{uuid}", "{power_limit_w}"]).set_power_limit_w(gpu, limit_w)
    assert (place / "said").read_text() == text


def test_there_is_no_shell(script, gpu, place: Path):
    """An argument is an argument, whatever characters it has."""
    path = script(f'printf %s "$2" > {place}/said')
    CommandSetter([str(path), "{uuid}{power_limit_w}", f"; touch {place}/pwned"]).set_power_limit_w(gpu, 150)
    assert not (place / "pwned").exists()
    assert (place / "said").read_text() == f"; touch {place}/pwned"


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "empty"),
        (["true"], "to say which GPU"),
        (["true", "{uuid}"], "to say which GPU"),
        (["true", "{power_limit_w}"], "to say which GPU"),
        (["true", "{uuid}", "{power_limit}"], "unknown placeholder"),
        (["true", "{uuid.__class__}", "{power_limit_w}"], "unknown placeholder"),
        (["true", "{uuid!r}", "{power_limit_w}"], "unknown placeholder"),
        (["true", "{uuid}", "{power_limit_w:09}"], "unknown placeholder"),
        (["true", "{}", "{power_limit_w}"], "unknown placeholder"),
        (["true", "{uuid", "{power_limit_w}"], "brace"),
        (["{uuid}", "{power_limit_w}"], "cannot be a placeholder"),
        (["no-such-program-anywhere", "{uuid}", "{power_limit_w}"], "absolute path"),
    ],
)
def test_commands_that_cannot_work(argv: list[str], reason: str):
    """A wrong command line is refused when it is read, with what is wrong."""
    with pytest.raises(ActuationError, match=reason):
        CommandSetter(argv)


def test_exit_status(script, gpu):
    """A command that fails is quoted."""
    path = script("echo one; echo 'not today' >&2; exit 3")
    with pytest.raises(Refused, match="exited with 3: not today"):
        CommandSetter([str(path), *ALL]).set_power_limit_w(gpu, 150)


def test_exit_status_without_a_word(script, gpu):
    """A command that fails silently is said to have been silent."""
    path = script("exit 1")
    with pytest.raises(Refused, match="it said nothing"):
        CommandSetter([str(path), *ALL]).set_power_limit_w(gpu, 150)


def test_timeout_kills_the_whole_command(script, gpu, place: Path):
    """A command that does not end is killed with its children."""
    path = script(f"sleep 60 & echo $! > {place}/child; wait")
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"not done within 0\.3 s"):
        CommandSetter([str(path), *ALL], timeout_s=0.3).set_power_limit_w(gpu, 150)
    assert time.monotonic() - began < 5
    child = int((place / "child").read_text())
    until(lambda: is_dead(child))


def test_command_that_vanishes(script, gpu):
    """A program that is gone later is a fault of the set, not of the process."""
    path = script("true")
    setter = CommandSetter([str(path), *ALL])
    path.unlink()
    with pytest.raises((Unavailable, NoPermission), match="site-power"):
        setter.set_power_limit_w(gpu, 150)


def test_program_that_cannot_be_executed(script, gpu):
    """A program without an interpreter says so."""
    path = script("true")
    setter = CommandSetter([str(path), *ALL])
    path.write_text("#!/no/such/interpreter\n")
    with pytest.raises(Unavailable, match="cannot be run"):
        setter.set_power_limit_w(gpu, 150)


def test_program_without_permission(script, gpu):
    """A program that we may not execute any more is a matter of permission."""
    path = script("true")
    setter = CommandSetter([str(path), *ALL])
    path.chmod(0o644)
    with pytest.raises(NoPermission):
        setter.set_power_limit_w(gpu, 150)


@pytest.mark.skipif(not AS_ROOT, reason="only root is careful about whose programs it runs")
class TestTrust:
    def test_writable_program(self, script):
        """Root runs no program that others may write."""
        for mode in (0o775, 0o757):
            with pytest.raises(ActuationError, match="others may write"):
                find_program(str(script("true", mode=mode)))

    def test_program_of_another_user(self, script):
        """Root runs no program that another user owns."""
        path = script("true")
        os.chown(path, 65534, 65534)
        with pytest.raises(ActuationError, match="give it to root"):
            find_program(str(path))

    def test_writable_folder(self, script, place: Path):
        """Root runs no program in a folder where others may replace it."""
        path = script("true")
        place.chmod(0o777)
        with pytest.raises(ActuationError, match=f"others may write {place}"):
            find_program(str(path))

    def test_link_from_elsewhere(self, script, place: Path):
        """A link is judged by what it leads to."""
        path = script("true", mode=0o777)
        link = place / "link"
        link.symlink_to(path)
        with pytest.raises(ActuationError, match="others may write"):
            find_program(str(link))

    def test_changed_later(self, script, gpu):
        """Trust is asked for again at each change, and a refusal there fails the GPU alone."""
        path = script("true")
        setter = CommandSetter([str(path), *ALL])
        path.chmod(0o777)
        with pytest.raises(NoPermission, match="others may write"):
            setter.set_power_limit_w(gpu, 150)


def test_exit_zero_is_no_proof(make_local, nvml, standin_state):
    """A command that says yes and does nothing is found out by reading back."""
    bench = Bench("command", make_local(nvml, setter=CommandSetter(["/bin/true", *ALL])), StandinCards(standin_state))
    applied = bench.apply(150)[0]
    assert applied.status is Status.FAILED
    assert "reads 275 W" in applied.detail
    assert bench.limits() == [ORIGINAL_W] * 2


def test_failing_command_is_a_capability(make_local, nvml, standin_state):
    """A command that fails at the probe shows in the description, in its own words."""
    actuator = make_local(nvml, setter=CommandSetter(["/bin/false", *ALL]))
    state = actuator.describe()[0]
    assert not state.can_set
    assert "false exited with 1" in state.reason
