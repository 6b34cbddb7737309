"""Registration, ownership, leases and progress."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.clock import ManualClock
from chase.config import PolicyConfig
from chase.jobs import MAX_JOBS, Job, JobRefused, JobTable, Peer, Registration
from zeus_core.gpus.base import Process

ALICE, BOB, ROOT = Peer(1000, 11), Peer(1001, 22), Peer(0, 33)
GPUS = ("GPU-0", "GPU-1")
ID = "0123456789abcdef"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 3, 2, tzinfo=UTC))


@pytest.fixture
def users() -> dict[str, tuple[Process, ...]]:
    """Who runs on which GPU; a test fills it."""
    return {}


@pytest.fixture
def table(clock, users) -> JobTable:
    return JobTable(clock=clock, lease_s=30.0, users=lambda uuid: users.get(uuid, ()))


def add(table: JobTable, peer: Peer = ALICE, job_id: str = ID, gpus: tuple[str, ...] = ("GPU-0",), **more) -> Job:
    wanted = Registration(id=job_id, name="train", gpus=gpus, **more)
    return table.register(wanted, peer, known=GPUS, region="gb", policy=PolicyConfig())


def refused(status: int, code: str):
    return pytest.raises(JobRefused, check=lambda error: (error.status, error.code) == (status, code))


class TestRegistration:
    @pytest.mark.parametrize("job_id", ["", "xyz", "0123456", "g" * 16, "a" * 33, "../../etc"])
    def test_an_id_is_hexadecimal(self, table, job_id):
        """An id ends up in tables and addresses, so nothing but hexadecimal digits is one."""
        with refused(422, "bad-id"):
            add(table, job_id=job_id)

    @pytest.mark.parametrize("gpus", [(), ("GPU-0", "GPU-0"), tuple(f"GPU-{i}" for i in range(65))])
    def test_gpus_are_a_few_different_ones(self, table, gpus):
        """None, one twice, or more than a node can have is a mistake."""
        with refused(422, "bad-gpus"):
            add(table, gpus=gpus)

    @pytest.mark.parametrize("units", [float("nan"), float("inf"), -1.0])
    def test_impossible_units(self, table, units):
        """A count of work is a finite number of at least zero."""
        with refused(422, "bad-units"):
            add(table, total_units=units)

    def test_an_unknown_gpu_names_those_there_are(self, table):
        """The text tells what this node has."""
        with pytest.raises(JobRefused, match=r"no GPU GPU-9; it has GPU-0, GPU-1"):
            add(table, gpus=("GPU-9",))

    def test_the_caller_is_who_the_kernel_says(self, table):
        """Uid and pid come from the peer, never from the message."""
        job = add(table)
        assert (job.uid, job.pid) == (1000, 11)

    def test_registering_again_finds_the_job(self, table):
        """A client that comes back after a restart of either side continues its job."""
        first = add(table, units_done=5.0)
        again = add(table, units_done=9.0)
        assert again is first
        assert (len(table), first.units_done) == (1, 9.0)

    def test_nobody_takes_over_anothers_job_by_its_id(self, table):
        """An id is not a password."""
        add(table)
        with refused(403, "not-yours"):
            add(table, peer=BOB)

    def test_a_gpu_with_a_job_of_another_user_is_taken(self, table):
        """Two users do not share a GPU's limit; one user's two jobs may."""
        add(table)
        add(table, job_id="b" * 16)
        with refused(403, "gpu-taken"):
            add(table, peer=BOB, job_id="c" * 16)

    def test_root_may_take_any(self, table):
        """An operator may register on behalf of anybody."""
        add(table)
        add(table, peer=ROOT, job_id="d" * 16)
        assert len(table.on_gpu("GPU-0")) == 2

    def test_there_is_a_bound(self, table):
        """A client gone mad cannot fill the service's memory."""
        for number in range(MAX_JOBS):
            add(table, peer=ROOT, job_id=f"{number:016x}")
        with refused(503, "too-many-jobs"):
            add(table, job_id="f" * 16)


class TestOwnership:
    def test_reports_of_others_are_refused(self, table):
        """Only the owner and root may report for a job or end it."""
        add(table)
        with refused(403, "not-yours"):
            table.report(ID, BOB, 1.0)
        assert table.report(ID, ROOT, 1.0).units_done == 1.0

    def test_an_unknown_job_is_told_to_register(self, table):
        """After a restart of the service a report is answered with 404, on which clients register again."""
        with refused(404, "unknown-job"):
            table.report(ID, ALICE, 1.0)

    @pytest.mark.parametrize(
        ("there", "strange"),
        [
            ((), False),
            ((Process(1, 1000),), False),
            ((Process(1, 1001),), True),
            ((Process(1, 1001), Process(2, 1000)), False),
            ((Process(1, 0),), True),
            ((Process(1, None),), True),
        ],
    )
    def test_a_gpu_where_only_others_run_is_strange(self, table, users, there, strange):
        """A GPU is touched when it is idle or when the owner runs there too; an unknown pid is somebody else's."""
        job = add(table)
        users["GPU-0"] = there
        assert table.strangers(job) == (["GPU-0"] if strange else [])

    def test_roots_jobs_have_no_strangers(self, table, users):
        """Root any."""
        users["GPU-0"] = (Process(1, 1001),)
        assert table.strangers(add(table, peer=ROOT)) == []


class TestLease:
    def test_silence_ends_it_and_a_report_renews_it(self, table, clock):
        """A client that is gone without goodbye is noticed when its lease ends, not before."""
        job = add(table)
        clock.advance(30)
        assert table.expired() == []
        table.report(ID, ALICE, 1.0)
        clock.advance(30)
        assert table.expired() == []
        clock.advance(0.1)
        assert table.expired() == [job]

    def test_the_wall_clock_has_no_say(self, table, clock):
        """A clock that is set forward an hour ends no lease, and set back keeps none alive."""
        add(table)
        clock.step_wall(3600)
        assert table.expired() == []
        clock.step_wall(-7200)
        clock.advance(31)
        assert len(table.expired()) == 1


@given(st.lists(st.floats(0, 1e12), min_size=1))
def test_progress_never_falls(reports):
    """A launcher and its child both report; whatever the order, the count is the greatest so far."""
    table = JobTable(clock=ManualClock(datetime(2026, 3, 2, tzinfo=UTC)), lease_s=30.0, users=lambda _: ())
    job = add(table)
    for units in reports:
        table.report(ID, ALICE, units)
    assert job.units_done == max(reports)
