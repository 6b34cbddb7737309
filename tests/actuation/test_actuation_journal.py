"""The originals on disk."""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_core.actuation.faults import JournalError
from zeus_core.actuation.journal import MAX_BYTES, Damaged, Entry, Journal, boot_id, near

UUID = "GPU-5ca1ab1e-0000-4a40-8000-0000c0ffee00"
watts = st.floats(1, 3000, allow_nan=False)
entries = st.builds(
    Entry,
    uuid=st.just(UUID),
    original_w=watts,
    default_w=watts,
    ours=st.lists(watts, max_size=8).map(tuple),
    sm_clock_mhz=st.none() | st.integers(1, 5000),
    pid=st.integers(0, 2**22),
    boot_id=st.text(max_size=40),
    at=st.text(max_size=40),
)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "state")
    journal.prepare()
    return journal


@pytest.fixture
def entry() -> Entry:
    return replace(Entry.of(UUID, 275.0, 300.0), ours=(275.0, 150.0), sm_clock_mhz=1200)


def path_of(journal: Journal) -> Path:
    return journal.directory / f"{UUID}.json"


@contextmanager
def full_disk():
    """No file of this process can grow, as the kernel has it; EFBIG where a full disk says ENOSPC."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@given(entry=entries)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, entry: Entry):
    """What is written is read, to the last bit of every number."""
    journal = Journal(tmp_path_factory.getbasetemp() / "round-trip")
    journal.write(entry)
    assert journal.read(UUID) == entry


def test_entry_names_its_writer(entry: Entry):
    """An entry says which process of which boot wrote it, and when."""
    assert (entry.pid, entry.boot_id) == (os.getpid(), boot_id())
    assert entry.at.endswith("+00:00")
    assert boot_id()


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["original_w", "default_w", "ours"])
def test_impossible_limits_are_refused(entry: Entry, field: str, value: float):
    """No entry holds a limit that cannot be set."""
    with pytest.raises(ValueError, match="finite and positive"):
        replace(entry, **{field: (value,) if field == "ours" else value})


def test_absent(journal: Journal):
    """No file is no entry, and removing it twice is fine."""
    assert journal.read(UUID) is None
    assert journal.uuids() == []
    journal.remove(UUID)


def test_listing_and_removal(journal: Journal, entry: Entry):
    """A file is listed by its GPU until it is removed."""
    journal.write(entry)
    assert journal.uuids() == [UUID]
    journal.remove(UUID)
    assert (journal.uuids(), journal.read(UUID)) == ([], None)


def test_no_directory_is_no_leftover(tmp_path: Path):
    """A state directory that was never made has nothing in it."""
    assert Journal(tmp_path / "never").uuids() == []


def test_private(journal: Journal, entry: Entry):
    """Directory and files are for their owner alone."""
    journal.write(entry)
    assert stat.S_IMODE(journal.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(path_of(journal).stat().st_mode) == 0o600


def test_torn_at_every_byte(journal: Journal, entry: Entry):
    """A file cut anywhere is reported and kept aside, never believed and never fatal."""
    journal.write(entry)
    whole = path_of(journal).read_bytes()
    for length in range(len(whole)):
        path_of(journal).write_bytes(whole[:length])
        found = journal.read(UUID)
        assert isinstance(found, Damaged)
        assert found.kept_as.read_bytes() == whole[:length]
        assert journal.uuids() == []
        found.kept_as.unlink()


def test_every_flipped_byte(journal: Journal, entry: Entry):
    """A damaged byte is noticed, or it was not part of the meaning."""
    journal.write(entry)
    whole = path_of(journal).read_bytes()
    for at in range(len(whole)):
        path_of(journal).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        found = journal.read(UUID)
        assert isinstance(found, Damaged) or found == entry


@given(data=st.binary(max_size=300))
def test_garbage(tmp_path_factory: pytest.TempPathFactory, data: bytes):
    """Arbitrary bytes are reported."""
    journal = Journal(tmp_path_factory.getbasetemp() / "garbage")
    journal.prepare()
    path_of(journal).write_bytes(data)
    found = journal.read(UUID)
    assert isinstance(found, Damaged)
    found.kept_as.unlink()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 10000, "recursion"),
        ("[]", "list indices"),
        ('{"schema": 2, "check": 0, "entry": {}}', "schema 2"),
        ('{"schema": 1, "check": 0, "entry": {}}', "checksum"),
        (" " * (MAX_BYTES + 1), "larger"),
    ],
    ids=["deep", "list", "newer", "checksum", "large"],
)
def test_foreign_files(journal: Journal, text: str, reason: str):
    """A file of another make is kept aside, with the reason."""
    path_of(journal).write_text(text)
    found = journal.read(UUID)
    assert isinstance(found, Damaged)
    assert reason in found.reason
    assert found.kept_as.exists()


def test_entry_of_another_gpu(journal: Journal, entry: Entry):
    """A file that was renamed to another GPU is not believed."""
    journal.write(entry)
    path_of(journal).rename(journal.directory / "GPU-other.json")
    found = journal.read("GPU-other")
    assert isinstance(found, Damaged)
    assert UUID in found.reason


def test_kept_aside_under_a_free_name(journal: Journal):
    """Damaged files do not overwrite each other."""
    kept = []
    for text in ("one", "two"):
        path_of(journal).write_text(text)
        kept.append(journal.read(UUID).kept_as)
    assert [path.read_text() for path in kept] == ["one", "two"]


def test_links_are_not_followed(journal: Journal, entry: Entry, tmp_path: Path):
    """Neither reading nor writing goes through a symbolic link."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path_of(journal).symlink_to(victim)
    assert isinstance(journal.read(UUID), Damaged)
    path_of(journal).with_suffix(".tmp").symlink_to(victim)
    with pytest.raises(JournalError):
        journal.write(entry)
    assert victim.read_text() == "precious"


def test_full_disk_leaves_the_entry_before(journal: Journal, entry: Entry):
    """A write that fails says so and leaves the file from before, with nothing beside it."""
    journal.write(entry)
    with full_disk(), pytest.raises(JournalError, match="nothing was changed"):
        journal.write(replace(entry, ours=(120.0,)))
    assert journal.read(UUID) == entry
    assert [path.name for path in journal.directory.iterdir()] == [f"{UUID}.json"]


def test_failing_sync_is_a_failing_write(journal: Journal, entry: Entry, monkeypatch: pytest.MonkeyPatch):
    """What is not known to be on the disk does not count as written."""

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(JournalError, match="Input/output error"):
        journal.write(entry)


def test_file_then_directory_are_synced(journal: Journal, entry: Entry, monkeypatch: pytest.MonkeyPatch):
    """Content is durable before the rename, and the rename before the write returns."""
    events: list[str] = []
    sync, replace_file = os.fsync, Path.replace

    def noted_sync(descriptor: int) -> None:
        events.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def noted_replace(path: Path, target: Path) -> Path:
        events.append("rename")
        return replace_file(path, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    journal.write(entry)
    assert events == ["file", "rename", "directory"]


def test_directory_comes_back(journal: Journal, entry: Entry):
    """Somebody who removes the directory under us does not stop the next write."""
    journal.directory.rmdir()
    journal.write(entry)
    assert journal.read(UUID) == entry


def test_directory_that_became_a_file(journal: Journal, entry: Entry):
    """Whatever lies where the directory was, a write that cannot be made says so and nothing else."""
    journal.directory.rmdir()
    journal.directory.write_text("")
    with pytest.raises(JournalError, match="nothing was changed"):
        journal.write(entry)
    with pytest.raises(JournalError, match="cannot be removed"):
        journal.remove(UUID)
    with pytest.raises(JournalError, match="as the user that runs the actuator"):
        journal.uuids()


def test_state_directory_that_is_a_file(tmp_path: Path):
    """A state directory that cannot be one is named."""
    (tmp_path / "state").write_text("")
    with pytest.raises(JournalError, match="state"):
        Journal(tmp_path / "state").prepare()


@pytest.mark.parametrize("name", ["", "../etc/passwd", "a/b", ".hidden", "a\0b", "a b", "x" * 200])
def test_names_that_could_leave_the_directory(journal: Journal, name: str):
    """A UUID that is no plain name is refused."""
    with pytest.raises(JournalError, match="cannot name a file"):
        journal.read(name)


def test_near():
    """A watt is the line between rounding and another limit."""
    assert near(200, 200.9)
    assert not near(200, 201)


def test_ours(entry: Entry):
    """Both the limit before a change and the one after it may be in force through us."""
    assert [entry.is_ours(limit_w) for limit_w in (150.4, 275, 152, 300)] == [True, True, False, False]


def test_another_boot(entry: Entry):
    """A reboot frees the clocks and leaves the default limit, which counts as ours then."""
    entry = replace(entry, ours=(150.0,))
    later = replace(entry, boot_id="before").as_of_boot("after")
    assert (later.sm_clock_mhz, later.ours) == (None, (150.0, 300.0))
    assert replace(later, ours=(), boot_id="before").as_of_boot("after").ours == ()


@pytest.mark.parametrize(("then", "now"), [("same", "same"), ("", "now"), ("then", "")])
def test_no_other_boot(entry: Entry, then: str, now: str):
    """Where nothing says that there was a reboot, none is assumed."""
    entry = replace(entry, boot_id=then)
    assert entry.as_of_boot(now) is entry


def test_is_json_for_people(journal: Journal, entry: Entry):
    """A person can read what is owed."""
    journal.write(entry)
    document = json.loads(path_of(journal).read_text())
    assert document["entry"]["original_w"] == 275.0
