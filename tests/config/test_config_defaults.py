from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from chase import config
from chase.config import Config, load
from chase.config.models import default_run_dir, default_state_dir


def test_no_file_is_needed(env):
    """Without any file the shipped defaults hold and Great Britain is the region."""
    loaded = load(env=env)

    assert loaded.config.control.interval_s == 10
    assert loaded.region.id == "gb"
    assert loaded.service_file is None
    assert set(loaded.origin.values()) == {"default"}


def test_every_setting_has_an_origin(env):
    """The origin names each key of each section, and no other."""
    keys = {f"{name}.{key}" for name, values in Config().model_dump().items() for key in values}

    assert load(env=env).origin.keys() == keys


@pytest.mark.parametrize(
    ("variables", "state", "run"),
    [
        ({"HOME": "/home/ann"}, "/home/ann/.local/state/chase", "/home/ann/.local/state/chase/run"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": "/s"}, "/s/chase", "/s/chase/run"),
        ({"HOME": "/home/ann", "XDG_RUNTIME_DIR": "/run/user/7"}, "/home/ann/.local/state/chase", "/run/user/7/chase"),
    ],
)
def test_folders_of_a_user_follow_xdg(variables, state, run):
    """An unprivileged service keeps its files where XDG says, its socket beside the database if need be."""
    service = load(env=variables).config.service

    assert service.state_dir == Path(state)
    assert service.run_dir == Path(run)
    assert service.db_path == Path(state) / "chase.sqlite"
    assert service.socket_path == Path(run) / "chase.sock"


def test_folders_of_root_are_the_systems(monkeypatch):
    """Root keeps its files in /var/lib and /run, whatever XDG says."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    service = load(env={"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"}).config.service

    assert (service.db_path, service.socket_path) == (
        Path("/var/lib/chase/chase.sqlite"),
        Path("/run/chase/chase.sock"),
    )


def test_run_folder_follows_a_state_folder_that_was_set(env):
    """A state folder that somebody chose carries the socket too where there is no runtime folder."""
    service = load(env=env, overrides={"service.state_dir": Path("/data/chase")}).config.service

    assert service.run_dir == Path("/data/chase/run")


def test_a_user_without_home_gets_a_folder(monkeypatch):
    """In a container whose user has no entry anywhere, folders are still absolute."""
    monkeypatch.setattr(Path, "expanduser", _homeless)

    state = default_state_dir({})

    assert state == Path("/.local/state/chase")
    assert default_run_dir({}, state) == state / "run"


def _homeless(path: Path) -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_database_and_socket_can_be_named(env):
    """A database and a socket that are set beat the folders."""
    service = load(
        env=env, overrides={"service.db": Path("/d/x.sqlite"), "service.socket": Path("/d/x.sock")}
    ).config.service

    assert (service.db_path, service.socket_path) == (Path("/d/x.sqlite"), Path("/d/x.sock"))


def test_settings_are_frozen(env):
    """Nobody changes a configuration that others read."""
    with pytest.raises(ValidationError, match="frozen"):
        load(env=env).config.control.interval_s = 1


def test_config_made_by_hand_has_the_same_defaults(env):
    """``Config()`` and an empty machine say the same, folders apart."""
    ours, theirs = load(env=env).config.model_dump(), Config().model_dump()

    for name in ("state_dir", "run_dir"):
        ours["service"].pop(name)
        theirs["service"].pop(name)
    assert ours == theirs


def test_names_of_shipped_files_cost_no_pydantic():
    """Help and completion list regions and profiles without importing pydantic, which costs more than all the rest."""
    code = (
        "import sys; from chase.config import region_ids, profile_names, profile_path, config_dir;"
        "region_ids(), profile_names(), profile_path('a40-resnet50'), config_dir();"
        "print(sorted({'pydantic', 'pydantic_settings', 'requests', 'numpy'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_loading_imports_no_http_client():
    """Reading the configuration imports pydantic, and neither requests nor the scheduler nor numpy."""
    code = (
        "import sys; from chase.config import load; load(env={});"
        "print(sorted({'requests', 'apscheduler', 'numpy', 'fastapi'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error():
    """The lazy package fails as any module does."""
    with pytest.raises(AttributeError, match="nonsense"):
        _ = config.nonsense
