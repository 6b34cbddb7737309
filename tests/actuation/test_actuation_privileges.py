"""With no more than the capabilities that the shipped unit leaves it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy/chase-actuator.service"
NUMBERS = {"CAP_CHOWN": 0, "CAP_SYS_ADMIN": 21}
CAP_DAC_READ_SEARCH = 2  # only so that a test's interpreter in root's home can be read

LISTEN = """
import ctypes, sys
from pathlib import Path
from zeus_core.actuation.listening import listening
mask = int(sys.argv[1])
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
data = (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)
assert ctypes.CDLL(None).capset(header, data) == 0
with listening(Path(sys.argv[2]), 65534, 65534):
    info = Path(sys.argv[2]).stat()
    print(info.st_uid, info.st_gid, oct(info.st_mode & 0o777))
"""


def bounding_set() -> list[str]:
    line = re.search(r"^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert line is not None
    return line[1].split()


@pytest.mark.skipif(os.geteuid() != 0, reason="dropping capabilities needs some")
def test_the_socket_can_be_made_with_the_units_capabilities(place):
    """What deploy/chase-actuator.service leaves it is enough to make the socket another user's."""
    mask = sum(1 << NUMBERS[name] for name in bounding_set()) | 1 << CAP_DAC_READ_SEARCH
    done = subprocess.run(
        [sys.executable, "-c", LISTEN, str(mask), str(place / "a.sock")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["65534", "65534", "0o660"], done.stderr


def test_the_unit_leaves_nothing_more():
    """One capability to set limits and one to hand the socket over."""
    assert sorted(bounding_set()) == sorted(NUMBERS)
