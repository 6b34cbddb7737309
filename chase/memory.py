"""Resident memory, for a process that runs for months."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """What the allocator only keeps goes back to the system. It is glibc that keeps it; elsewhere nothing is done."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
