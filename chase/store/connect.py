"""Opening the database, and the one way to write it (the measured recipe: docs/decisions, "one write function").

WAL, ``synchronous=NORMAL``, a busy timeout of 30 s and ``BEGIN IMMEDIATE`` gave no "database is locked" in 1600 writes
of eight processes; a deferred one lost three writes in four, because it reads first and then cannot upgrade.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from chase.errors import StoreError

if TYPE_CHECKING:
    from sqlite_utils import Database

BUSY_S = 30.0
# File systems where another node may have the file open, or where WAL's shared memory or locks do not hold.
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|gpfs|mmfs|lustre|ceph|glusterfs|beegfs|afs|9p|pvfs2|orangefs|wekafs|panfs|fuse\..+"
)
_LOCAL_FUSE = {"fuse.fuse-overlayfs"}  # a rootless container's own disk
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG}  # nothing of ours has a gigabyte
_PASSING = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_INTERRUPT,
}


FileId = tuple[int, int]  # device and inode


class Fault(Enum):
    """What an error of SQLite means for the rows at hand: wait and retry, begin a new file, or give these up."""

    PASSING = "passing"
    CORRUPT = "corrupt"
    REFUSED = "refused"


class Damaged(sqlite3.DatabaseError):
    """SQLite can read the file, and what it holds is not what we left there."""


# Damaged text reaches us as a message that Python's sqlite3 cannot decode.
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


def fault_of(error: BaseException) -> Fault:
    if isinstance(error, OSError):
        return Fault.PASSING
    if isinstance(error, Damaged | UnicodeDecodeError):
        return Fault.CORRUPT
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in _CORRUPT:
        return Fault.CORRUPT
    return Fault.PASSING if primary in _PASSING else Fault.REFUSED


def open_db(path: Path, *, timeout_s: float = BUSY_S) -> Database:
    """A connection for writing, for the thread that asks. Raises ``StoreError`` on a network file system."""
    refuse_network(path)
    conn = sqlite3.connect(path, timeout=timeout_s)
    try:
        return prepare(conn, timeout_s)
    except BaseException:
        conn.close()
        raise


def prepare(conn: sqlite3.Connection, timeout_s: float) -> Database:
    """The settings of every connection that writes. The caller closes it, also after an error."""
    from sqlite_utils import Database  # an eighth of a second that readers need not pay

    _use_wal(conn, timeout_s)
    conn.execute("PRAGMA synchronous = NORMAL")
    conn.execute("PRAGMA foreign_keys = ON")
    return Database(conn, execute_plugins=False)


def _use_wal(conn: sqlite3.Connection, timeout_s: float) -> None:
    """SQLite does not wait for a lock while it changes the journal mode, so a new file needs a few tries."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            mode = conn.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(0.01)
        else:
            if mode != "wal":
                raise StoreError(f"SQLite keeps its journal as {mode!r} here and cannot use WAL; use a local disk")
            return


@contextmanager
def write(db: Database) -> Iterator[Database]:
    """The one way to write: all or nothing, with the write lock taken before anything is read."""
    db.conn.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.conn.execute("COMMIT")
    except BaseException:
        if db.conn.in_transaction:
            db.conn.execute("ROLLBACK")
        raise


def connect_readonly(path: Path, *, timeout_s: float = 5.0) -> sqlite3.Connection:
    """A connection that cannot write. Raises ``sqlite3.Error``; any thread may use it, one at a time.

    A reader who may not write the directory cannot make the shared memory that WAL needs. With no log left beside the
    file nobody has it open, and it can be read as it is.
    """
    uri = f"file:{quote(os.fspath(path))}?mode=ro"
    try:
        return _probe(uri, timeout_s)
    except sqlite3.OperationalError as error:
        refused = error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}
        if not refused or not path.is_file() or _size(Path(f"{path}-wal")) > 0:
            raise
        return _probe(f"{uri}&immutable=1", timeout_s)


def _probe(uri: str, timeout_s: float) -> sqlite3.Connection:
    conn = sqlite3.connect(uri, uri=True, timeout=timeout_s, check_same_thread=False)
    try:
        conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        conn.close()
        raise
    return conn


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def identity(path: Path) -> FileId | None:
    """Which file is at ``path`` now, None if there is none; a deleted file that we still have open is not it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def refuse_network(path: Path) -> None:
    """Raises ``StoreError`` where locks or shared memory may not hold (nfs, lustre, gpfs, fuse.*, ...)."""
    kind = filesystem(path)
    if _NETWORK.fullmatch(kind) and kind not in _LOCAL_FUSE:
        raise StoreError(
            f"{path} is on a network file system ({kind}), where SQLite's locks do not hold and the log could be"
            " destroyed; point service.state_dir (or service.db) at a local disk, such as /var/lib/chase"
        )


def filesystem(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system that holds ``path``, which need not exist; empty if the kernel does not say."""
    target = Path(os.path.realpath(path))
    try:
        lines = mountinfo.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        mount, fs_type = _mount(line)
        if target.is_relative_to(mount) and len(mount.parts) >= best:  # a later mount hides an earlier one
            best, kind = len(mount.parts), fs_type
    return kind


def _mount(line: str) -> tuple[Path, str]:
    """``36 35 98:0 /root /mount/point rw,noatime [tags] - ext4 /dev/sda ...``; a space in a name is octal 040."""
    left, _, right = line.partition(" - ")
    point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), left.split(" ")[4])
    return Path(point), right.split(" ", 1)[0]
