"""``pages`` on the path, and a machine without a configuration of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from chase.config import loading

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "SYSTEM_FILE", tmp_path / "none/chase.toml")
    for name in [name for name in os.environ if name.startswith(("CHASE_", "XDG_")) or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
