"""Who may load what: the signal's value objects cost nothing, HTTP is paid for at the first request."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "requests",
    "urllib3",
    "numpy",
    "torch",
    "scipy",
    "pydantic",
    "fastapi",
    "structlog",
    "chase",
    "zeus_core",
    "pynvml",
)


def _loaded_after(statements: str) -> set[str]:
    script = f"import sys\n{statements}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split()) & set(HEAVY)


@pytest.mark.parametrize(
    "statements",
    [
        "import providers, providers.base, providers.registry, providers.session, providers.testing",
        "import providers.static, providers.file, providers.neso, providers.electricity_maps",
        "from providers.session import Session; Session().close()",
    ],
)
def test_importing_loads_nothing_heavy(statements):
    """Neither HTTP nor numerics nor the other rooms come along."""
    assert _loaded_after(statements) == set()


def test_a_file_is_read_without_http(tmp_path):
    """A node that reads only files never loads the HTTP libraries."""
    path = tmp_path / "grid.csv"
    path.write_text("start,g_per_kwh\n2026-03-04T09:00Z,100\n")
    statements = f"""
from datetime import datetime, UTC
from providers.registry import create
from providers.session import Session
now = datetime(2026, 3, 4, 9, 20, tzinfo=UTC)
given = dict(zone="GB", token=None, base_url=None, session=Session(), now=lambda: now)
assert create("file", options={{"path": {str(path)!r}}}, **given).observe(now, now).points[0].g_per_kwh == 100
"""
    assert _loaded_after(statements) == set()
