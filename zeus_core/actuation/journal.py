"""The originals: one small file per GPU, written before the GPU is changed for the first time.

Giving a GPU back depends on these files and on nothing else, neither a daemon nor a database. A file is replaced as a
whole (fsync, rename, fsync of the directory) and carries a checksum. One that cannot be understood is kept aside and
reported; it never stops anybody.

A file names every limit that may be in force through us. Before a change that is the old and the new one, so that a
process killed between the two lines finds its own traces again; after it was verified, the new one alone.
"""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zeus_core.actuation.faults import JournalError

SCHEMA = 1
MAX_BYTES = 16384
TOLERANCE_W = 1.0
"""Two limits closer than this are the same: drivers round."""

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Names this run of the kernel; empty where the kernel does not tell."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def near(left_w: float, right_w: float) -> bool:
    return abs(left_w - right_w) < TOLERANCE_W


def checked_name(uuid: str) -> str:
    """``uuid``, fit to be a file's name. Raises ``JournalError`` otherwise."""
    if not _SAFE_NAME.fullmatch(uuid):
        raise JournalError(f"{uuid!r} cannot name a file, so it is no GPU's UUID")
    return uuid


@dataclass(frozen=True, slots=True)
class Entry:
    """One GPU as found, and what may be in force through us.

    ``ours`` are limits; empty while only clocks were touched. ``sm_clock_mhz`` is the upper end of our clock lock. NVML
    cannot read a lock back, so there is no original to note for it: giving it back means resetting it.
    """

    uuid: str
    original_w: float
    default_w: float
    ours: tuple[float, ...] = ()
    sm_clock_mhz: int | None = None
    pid: int = 0
    boot_id: str = ""
    at: str = ""

    @classmethod
    def of(cls, uuid: str, original_w: float, default_w: float) -> Entry:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(uuid, original_w, default_w, pid=os.getpid(), boot_id=boot_id(), at=at)

    def __post_init__(self) -> None:
        for watts in (self.original_w, self.default_w, *self.ours):
            if not (math.isfinite(watts) and watts > 0):
                raise ValueError(f"a power limit must be finite and positive, not {watts!r}")

    def is_ours(self, limit_w: float) -> bool:
        return any(near(limit_w, ours) for ours in self.ours)

    def as_of_boot(self, current: str) -> Entry:
        """What is left of the entry in the boot ``current``.

        A reboot frees the clocks and leaves the driver's default limit, which is then our doing as much as our own
        limit is. Where it is not known whether there was one, nothing is assumed.
        """
        if not current or not self.boot_id or current == self.boot_id:
            return self
        return replace(self, ours=(*self.ours, self.default_w) if self.ours else (), sm_clock_mhz=None)


@dataclass(frozen=True, slots=True)
class Damaged:
    """A file that could not be understood, and where it lies now."""

    uuid: str
    kept_as: Path
    reason: str


class Journal:
    """The files under ``state_dir``/originals. Callers hold the GPU's lock.

    ``durable`` False is for simulated cards alone, which no power cut leaves in a limit of ours: files are written all
    the same, and nobody waits for the disk.
    """

    def __init__(self, state_dir: Path, *, durable: bool = True) -> None:
        self.directory = state_dir / "originals"
        self._durable = durable

    def prepare(self) -> None:
        """Make the directory. Raises ``JournalError`` where that is impossible."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.directory, error) from error
        if not os.access(self.directory, os.W_OK | os.X_OK):
            raise JournalError(f"{self.directory} is not writable for uid {os.geteuid()}: name another state directory")

    def write(self, entry: Entry, *, settled: bool = False) -> None:
        """Replace the GPU's file. ``settled`` only narrows what is on disk, so its rename need not be durable.

        Raises ``JournalError``; then the file from before is still there, whole.
        """
        path = self._path(entry.uuid)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(path, _encode(entry), durable=self._durable)
            if self._durable and not settled:
                _sync_directory(self.directory)
        except OSError as error:
            with suppress(OSError):
                path.with_suffix(".tmp").unlink()
            raise _unwritable(path, error) from error

    def remove(self, uuid: str) -> None:
        try:
            self._path(uuid).unlink(missing_ok=True)
            if self._durable:
                _sync_directory(self.directory)
        except OSError as error:
            raise JournalError(f"{self._path(uuid)} cannot be removed: {error.strerror}") from error

    def uuids(self) -> list[str]:
        """The GPUs that have a file. Raises ``JournalError`` where the directory cannot be listed."""
        try:
            # glob would take a directory that it may not read for an empty one.
            names = [path.name for path in self.directory.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise JournalError(
                f"cannot list {self.directory}: {error.strerror}; ask as the user that runs the actuator"
            ) from error
        return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))

    def read(self, uuid: str) -> Entry | Damaged | None:
        """None if there is no file. One that cannot be understood is moved aside."""
        path = self._path(uuid)
        try:
            return _decode(_read_bytes(path), uuid)
        except FileNotFoundError:
            return None
        except OSError as error:
            return Damaged(uuid, path, f"cannot be read: {error.strerror}")
        except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            return Damaged(uuid, _keep_aside(path), str(error))

    def _path(self, uuid: str) -> Path:
        return self.directory / f"{checked_name(uuid)}.json"


def _encode(entry: Entry) -> bytes:
    fields = asdict(entry)
    body = json.dumps(fields, sort_keys=True)
    return json.dumps({"schema": SCHEMA, "check": zlib.crc32(body.encode()), "entry": fields}, indent=1).encode()


def _decode(data: bytes, uuid: str) -> Entry:
    """Raises ``ValueError``, ``KeyError`` or ``TypeError`` for anything that ``_encode`` did not make."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    document: Any = json.loads(data)
    if document["schema"] != SCHEMA:
        raise ValueError(f"schema {document['schema']!r}, where this version reads {SCHEMA}")
    fields: dict[str, Any] = document["entry"]
    if zlib.crc32(json.dumps(fields, sort_keys=True).encode()) != document["check"]:
        raise ValueError("the checksum does not match")
    if fields["uuid"] != uuid:
        raise ValueError(f"it is about {fields['uuid']}")
    return Entry(**{**fields, "ours": tuple(fields["ours"])})


def _read_bytes(path: Path) -> bytes:
    with open(path, "rb", opener=_no_links) as file:
        return file.read(MAX_BYTES + 1)


def _no_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _replace(path: Path, data: bytes, *, durable: bool) -> None:
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb", opener=_no_links) as file:
        file.write(data)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    temporary.replace(path)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_aside(path: Path) -> Path:
    """Under the first free name; the file stays where it is when even that fails."""
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}.damaged-{number}")
        if not aside.exists():
            try:
                return path.rename(aside)
            except OSError:
                return path
    return path


def _unwritable(path: Path, error: OSError) -> JournalError:
    return JournalError(f"the original setting cannot be written to {path}: {error.strerror}; nothing was changed")
