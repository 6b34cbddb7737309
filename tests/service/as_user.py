"""Runs ``chase ARGS`` as another user: ``as_user.py UID ARGS...``. Started by root; as anybody else it stays itself.

The interpreter of a test machine may lie in root's home, so one capability is kept: to read files. It allows no change
of a GPU, and the kernel names the new uid to whoever asks.
"""

from __future__ import annotations

import ctypes
import os
import sys

CAP_DAC_READ_SEARCH = 2
PR_SET_KEEPCAPS = 8
_VERSION_3 = 0x20080522


def become(uid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    mask = 1 << CAP_DAC_READ_SEARCH
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


if __name__ == "__main__":
    if os.geteuid() == 0:
        become(int(sys.argv[1]))
    from chase.cli import main

    sys.argv = ["chase", *sys.argv[2:]]
    main()
