"""The controller's own errors. Each text is written for the person who reads it: what, where, and the fix."""

from __future__ import annotations


class ChaseError(Exception):
    """Something that a person can mend. The CLI prints the text alone and exits with ``exit_code``."""

    exit_code = 1


class ConfigError(ChaseError):
    """A configuration that cannot be used; names the file, the key, the value and the fix."""

    exit_code = 2


class StoreError(ChaseError):
    """The database cannot be read or written."""


class TryLater(ChaseError):
    """Not now: the daemon is down, another process holds what is needed, a source is limited."""

    exit_code = 75
