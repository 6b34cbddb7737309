"""A machine without any configuration of its own, and files to put on it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chase.config import loading

REGION = """
[region]
id = "home"
name = "Home"
time_zone = "Europe/Berlin"
signal = "average"
scope = "lifecycle"
currency = "EUR"

[[sources]]
provider = "file"
zone = "home"
options = { path = "/var/lib/grid.csv" }
"""


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch, tmp_path):
    """No system file, not root, and no variable of the person who runs the tests."""
    monkeypatch.setattr(loading, "SYSTEM_FILE", tmp_path / "etc/chase.toml")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name in [name for name in os.environ if name.startswith(("CHASE_", "XDG_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def env(tmp_path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def write(tmp_path):
    def put(text: str | bytes, name: str = "chase.toml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return put


@pytest.fixture
def region_text() -> str:
    return REGION
