"""What every room's tests may ask for."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent / "standin"))

if TYPE_CHECKING:
    from standin import State

# A change is judged by examples that are the same each time; `make fuzz` goes looking for new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile(
    "fuzz", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("CHASE_HYPOTHESIS", "same"))


@pytest.fixture(scope="session", autouse=True)
def signals_as_from_a_shell() -> None:
    """A background job ignores SIGINT, a nohup SIGHUP, and so do all its children unless somebody takes them up."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can reach, with a path short enough for a socket's name (107 bytes)."""
    directory = Path(tempfile.mkdtemp(prefix="chase-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def nvml_standin_library() -> Iterator[Path]:
    """The stand-in libnvidia-ml.so.1, compiled once, in a directory that every uid can read."""
    import standin

    if standin.compiler() is None:
        pytest.skip("the stand-in NVML library needs a C compiler (cc, gcc or clang)")
    directory = Path(tempfile.mkdtemp(prefix="nvml-standin-"))
    directory.chmod(0o755)
    yield standin.build(directory)
    shutil.rmtree(directory)


@pytest.fixture
def standin_state(nvml_standin_library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[State]:
    """Two idle A40s (100 to 300 W, limit 275 W where the default is 300 W), seen by this process and its children.

    They lie where every uid can reach them, and anybody may change them until ``root_uid`` is set.
    """
    from standin import STATE_VARIABLE, State, forget

    directory = Path(tempfile.mkdtemp(prefix="nvml-cards-"))
    directory.chmod(0o755)
    state = State.create(directory / "cards", gpus=2, limit_w=275)
    monkeypatch.setenv(STATE_VARIABLE, str(state.path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_standin_library.parent))
    forget()
    yield state
    state.clear()
    forget()
    shutil.rmtree(directory)
