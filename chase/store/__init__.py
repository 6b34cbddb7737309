"""The log: one SQLite file per node, written by the service alone, read by anyone.

``Store`` is loaded when it is asked for: a command that only reads need not import sqlite-utils.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chase.store.read import Reader, open_readonly

if TYPE_CHECKING:
    from chase.store.keep import Keep
    from chase.store.store import Store
    from chase.store.writer import StoreHealth, Tuning

_LATER = {
    "Keep": "chase.store.keep",
    "Store": "chase.store.store",
    "StoreHealth": "chase.store.writer",
    "Tuning": "chase.store.writer",
}

__all__ = ["Keep", "Reader", "Store", "StoreHealth", "Tuning", "open_readonly"]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
