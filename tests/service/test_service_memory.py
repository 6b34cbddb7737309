"""Memory that the allocator keeps is given back."""

from __future__ import annotations

import subprocess
import sys

import pytest

GROW = """
import ctypes, sys
from chase.memory import give_back

def resident_kb():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
blocks = [libc.malloc(60_000) for _ in range(1000)]
for block in blocks:
    ctypes.memset(block, 1, 60_000)
for block in blocks[:-1]:  # the last one keeps the heap from shrinking by itself
    libc.free(ctypes.c_void_p(block))
before = resident_kb()
give_back()
print(before - resident_kb())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is glibc that keeps memory")
def test_what_was_freed_leaves_the_process():
    """Sixty megabytes below one block that is in use: most of it is gone from what is resident."""
    done = subprocess.run([sys.executable, "-c", GROW], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 40_000


def test_a_system_without_it_is_left_alone(monkeypatch):
    """Such as one with musl: nothing happens."""
    from chase import memory

    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: object())
    memory.give_back()
