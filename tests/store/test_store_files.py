"""Where the file may lie, and who may read it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from store_cases import DECISION, EVENT, JOB, child, count_of

from chase.errors import StoreError
from chase.store import Store, connect, open_readonly

MOUNTS = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:30 / /home rw - nfs4 server:/home rw
31 22 0:31 / /scratch rw - lustre mds@tcp:/scratch rw
32 22 0:32 / /mnt/my\\040disk rw shared:9 master:3 - gpfs gpfs0 rw
33 30 0:33 / /home/anna/local rw - xfs /dev/sdb rw
34 22 0:34 / /mnt/keys rw - fuse.sshfs host:/keys rw
35 22 0:35 / /over rw - nfs server:/over rw
36 22 0:36 / /over rw - tmpfs tmpfs rw
37 22 0:37 / /homework rw - btrfs /dev/sdc rw
"""


@pytest.fixture
def mountinfo(tmp_path):
    file = tmp_path / "mountinfo"
    file.write_text(MOUNTS)
    return file


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/chase/chase.sqlite", "ext4"),
        ("/home/anna/.local/state/chase.sqlite", "nfs4"),
        ("/home/anna/local/chase.sqlite", "xfs"),
        ("/home", "nfs4"),
        ("/homework/x", "btrfs"),
        ("/mnt/my disk/x", "gpfs"),
        ("/over/x", "tmpfs"),
    ],
)
def test_the_file_system_of_a_path(mountinfo, path, kind):
    """The deepest mount that holds it, the last of two at one place; names with spaces, files that do not exist."""
    assert connect.filesystem(Path(path), mountinfo) == kind


def test_a_link_is_followed_to_its_file_system(mountinfo, tmp_path):
    """A link into a network home is in the network home."""
    link = tmp_path / "state"
    link.symlink_to("/scratch/chase")
    assert connect.filesystem(link / "chase.sqlite", mountinfo) == "lustre"


def test_without_mountinfo_nothing_is_claimed(tmp_path):
    """On a system that does not say, the path is taken as it is."""
    assert connect.filesystem(tmp_path, tmp_path / "missing") == ""


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "gpfs", "lustre", "ceph", "beegfs", "9p", "fuse.sshfs", "fuse.gcsfuse"]
)
def test_a_network_file_system_is_refused_before_anything_is_made(kind, path, clock, monkeypatch):
    """The error names the file system, the danger and the key to change."""
    monkeypatch.setattr(connect, "filesystem", lambda _: kind)
    with pytest.raises(StoreError, match=rf"network file system \({kind}\).*service\.state_dir"):
        Store(path, clock=clock)
    assert not path.parent.exists()


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk", "fuse.fuse-overlayfs", ""]
)
def test_a_local_file_system_is_taken(kind, path, clock, monkeypatch):
    """Containers' own layers included."""
    monkeypatch.setattr(connect, "filesystem", lambda _: kind)
    store = Store(path, clock=clock)
    assert store.add_event(EVENT) == 1
    store.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path, clock):
    """A wrong path is told at the start."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file/state cannot be made for the database: Not a directory"):
        Store(tmp_path / "file" / "state" / "chase.sqlite", clock=clock)


def test_a_missing_database_is_named(path):
    """And none is made by looking."""
    with pytest.raises(StoreError, match="there is no database here"):
        open_readonly(path)
    assert not path.exists()


@pytest.mark.parametrize(
    "name", ["a b.sqlite", "what?.sqlite", "50%.sqlite", "a#b.sqlite", "a&mode=rwc.sqlite", "ключ.sqlite"]
)
def test_any_file_name(tmp_path, clock, name):
    """Marks that mean something in a URI mean nothing here."""
    store = Store(tmp_path / name, clock=clock)
    store.add_event(EVENT)
    assert len(store.events()) == 1
    store.close()
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(("-wal", "-shm"))] == [name]


def test_a_reader_cannot_write(store, path):
    """Not through any connection that it holds."""
    store.upsert_job(JOB)
    with open_readonly(path) as reader, pytest.raises(StoreError, match="readonly"):
        reader._rows("DELETE FROM jobs")
    assert count_of(path, "jobs") == 1


READ_AS_NOBODY = """
import os, sys
from pathlib import Path
from chase.errors import StoreError
from chase.store import open_readonly
os.setgid(65534); os.setuid(65534)
try:
    with open_readonly(Path(sys.argv[1])) as reader:
        print(len(reader.decisions()))
except StoreError as error:
    print(error)
"""


@pytest.fixture
def shared_directory():
    """A directory that other users may look into, but not write."""
    directory = Path(tempfile.mkdtemp(prefix="chase-store-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("running", [True, False])
def test_another_user_reads_the_log(shared_directory, clock, running):
    """While the service runs and after it ended, without a right to write the directory."""
    store = Store(shared_directory / "chase.sqlite", clock=clock)
    store.upsert_job(JOB)
    store.add_decision(DECISION)
    if not running:
        store.close()
    with child(READ_AS_NOBODY, store.path) as process:
        output, _ = process.communicate(timeout=30)
    store.close()
    assert output.strip() == "1"


def test_reading_needs_no_sqlite_utils():
    """A command that only reads starts fast: the writing side is imported when it is asked for."""
    code = "import sys; from chase.store import open_readonly; print('sqlite_utils' in sys.modules)"
    with child(code) as process:
        assert process.communicate(timeout=30)[0].strip() == "False"


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    """As for any module."""
    import chase.store

    with pytest.raises(AttributeError, match="no attribute 'Stone'"):
        _ = chase.store.Stone
