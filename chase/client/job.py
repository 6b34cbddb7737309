"""What a training process uses: count units of work, read what the grid wants of it.

    with Job("resnet50", units="samples", total_units=90 * 1_281_167) as job:
        for batch in loader:
            train(batch)
            job.step(len(batch))

The step path is one addition to a number of the calling thread's own: no lock, no I/O, no device. A background
thread tells the service how far the job is and learns the setting. Without a service, with a slow one, or with one
that dies, the training goes on as if there were none; when there is one again, it is found.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import index

from chase.client.arguments import gpu_list, named, own_and_others, part_of, plain, total
from chase.client.counter import MOST, Counter
from chase.client.messages import Advice, Said, Terms, Trial
from chase.client.reporter import Reporter

TYPE_CHECKING = False  # typing itself is a tenth of what this package costs a training process
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Literal, Self, SupportsFloat

    from chase.client.recurring import Recurring
    from chase.client.reporter import Link
    from chase.client.summary import Summary
    from chase.clock import Clock
    from zeus_core.setting import Setting

logger = logging.getLogger("chase.client")

ID_VARIABLE = "CHASE_JOB_ID"
CLOSE_S = 2.0
TRIAL_S = 15.0  # a launcher asks the service every few seconds
_RANK_VARIABLES = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")


class Job:
    """One training job, as a context manager (or ``start`` and ``close``).

    ``units`` is what is counted and ``total_units`` how many there will be. ``gpus`` are UUIDs or indices in bus order;
    None means those that ``CUDA_VISIBLE_DEVICES`` shows. ``policy`` overrides keys of the region's policy, ``profile``
    names a published frontier to use instead of measuring one. ``socket`` is the service's; None looks in the usual
    places, again at every try.

    ``batch_sizes`` are those that the job can change to while it runs, and ``batch_size`` is its own among them, which
    all are compared with: then the service may want another (``job.batch_size``), and what is counted must be worth the
    same at each of them (``chase.integrations.torch``). A ``recurring`` job tries a batch size for a whole training
    (``global_batch``); where it names ``batch_sizes`` as well, these are its microbatches, which change inside one.

    ``joint`` is for a job with ranks on several nodes, each with a service of its own: the ranks agree on one setting,
    which is that of the node that ``leads``, and each says so (``agreed``); ``chase.integrations.torch`` does it.

    In a process under ``chase exec`` the job is the launcher's: its GPUs, its id, its flags before these arguments,
    and before the name the launcher's ``--name`` alone.
    Of several ranks on a node only local rank 0 talks. A forked child may go on counting, for itself alone.

    Raises ``ValueError`` or ``TypeError`` for arguments that mean nothing; after that nothing here raises.
    """

    def __init__(
        self,
        name: str,
        *,
        units: str = "steps",
        total_units: float | None = None,
        gpus: Sequence[str | int] | None = None,
        region: str | None = None,
        policy: Mapping[str, Any] | None = None,
        profile: str | None = None,
        batch_size: int | None = None,
        batch_sizes: Sequence[int] = (),
        recurring: Recurring | None = None,
        joint: Literal["leads", "follows"] | None = None,
        socket: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._env = dict(os.environ if env is None else env)
        if recurring is not None and not hasattr(recurring, "check_microbatch"):
            raise TypeError(f"recurring must be a chase.client.Recurring, not {recurring!r}")
        self.name = named("name", name)
        self.id = self._env.get(ID_VARIABLE) or os.urandom(16).hex()
        self._terms = Terms(
            named("units", units),
            total(total_units),
            region if region is None else named("region", region),
            None if policy is None else plain(policy),
            profile if profile is None else named("profile", profile),
            *own_and_others(batch_size, batch_sizes),
            None if recurring is None else recurring.to_dict(),
            part_of(joint),
        )
        if recurring is not None and batch_size is not None:
            recurring.check_microbatch(batch_size)
        self._recurring = recurring
        self._said = Said(batch_size)
        self._epochs = 0
        self._gpus = None if gpus is None else gpu_list(gpus)
        self._socket = None if socket is None else os.fspath(socket)
        self._clock = clock
        self._count = Counter()
        self._own = self._count.own
        self._reporter: Reporter | None = None
        self._pid = 0
        self._summary: Summary | None = None
        self._complained = False

    def step(self, n: SupportsFloat = 1) -> None:
        """Count ``n`` units of work done. Costs an addition; may be called from any thread.

        ``n`` is a number of this process: a tensor on a device is read back, which waits for the device. What is
        no number of at least 0 is not counted and complained of once.
        """
        if n.__class__ is int and n > 0:
            self._own.cell.whole += n
        else:
            self._step_unusual(n)

    @property
    def units_done(self) -> float:
        """The units counted in this process so far. Never falls."""
        return self._count.value

    @property
    def units(self) -> str:
        """What is counted."""
        return self._terms.units or "steps"

    @property
    def joint(self) -> str | None:
        """Its part in a job on several nodes; None where it is on one."""
        return self._terms.joint

    @property
    def setting(self) -> Setting:
        """What the service last wanted. Old news while not ``connected``."""
        return self._advice.setting

    @property
    def batch_size(self) -> int | None:
        """What the service wants now; its own while that is not known, and where no service is.

        Of a recurring job without sizes to change to, it is ``global_batch``.
        """
        if self._recurring is not None and self._terms.batch_size is None:
            return self.global_batch
        wanted = self.setting.batch_size if self.connected else None
        possible = {*(self._terms.batch_sizes or ())} - {*self._said.impossible}
        if wanted in possible:
            return wanted
        own = self._terms.batch_size
        return own if own is None or own in possible else self._said.batch_size

    @property
    def global_batch(self) -> int | None:
        """The size that this recurrence of a recurring job tries, from the first time it is asked for on.

        Then that may wait for the service, for at most ``TRIAL_S`` seconds; without one it is the default at once.
        """
        recurring = self._recurring
        if recurring is None:
            return None
        if self._said.global_batch is None:
            if self._reporter is not None and self._mine():
                self._reporter.wait_for(lambda answer: answer.advice.trial is not None or answer.alone, TRIAL_S)
            trial = self._advice.trial
            known = trial is not None and trial.batch_size in recurring.batch_sizes
            self._said = replace(self._said, global_batch=trial.batch_size if trial and known else recurring.default)
        return self._said.global_batch

    def agreed(self, power_limit_w: float) -> None:
        """Say which power limit all ranks of a ``joint`` job have agreed on: the service sets no other."""
        self._said = replace(self._said, agreed_w=float(power_limit_w))

    def report(self, metric: float) -> None:
        """Say what an epoch came to, once for each epoch of a recurring job. Never raises."""
        try:
            value = float(metric)
        except Exception:  # noqa: BLE001  whatever the caller's type raises, its training goes on
            value = math.nan
        self._epochs += 1
        reached = self._recurring is not None and self._recurring.reached_by(value)
        told = value if abs(value) <= MOST else None  # false for NaN
        self._said = replace(self._said, epochs=self._epochs, metric=told, reached=reached)

    @property
    def should_stop(self) -> bool:
        """Whether a recurring job is at its end: the target reached, its epochs over, or too dear by the service."""
        recurring = self._recurring
        if recurring is None:
            return False
        over = self._said.reached is True or self._epochs >= recurring.max_epochs
        return over or (self.connected and bool(self._advice.stop))

    @property
    def trial(self) -> Trial | None:
        """Which recurrence this is. None while that is not known, and where no service is."""
        return self._advice.trial

    def runs_at(self, batch_size: int) -> None:
        """Say which batch size is in force from now on. Raises ``ValueError`` for one that was not declared."""
        self._said = replace(self._said, batch_size=self._declared(batch_size))

    def cannot_run_at(self, batch_size: int) -> None:
        """Say that a batch size is impossible after all: it did not fit into the memory. It is not wanted again.

        Of the job's own say first which one it ``runs_at`` instead: that one is what others are compared with then.
        Raises ``ValueError`` for one that was not declared, and for its own while that is in force.
        """
        batch_size = self._declared(batch_size)
        if batch_size == self._terms.batch_size == self._said.batch_size:
            raise ValueError(f"{batch_size} is in force: say first, with runs_at, what the job runs at instead")
        self._said = replace(self._said, impossible=tuple({**dict.fromkeys(self._said.impossible), batch_size: None}))

    def _declared(self, batch_size: int) -> int:
        sizes = self._terms.batch_sizes or ()
        if batch_size not in sizes:
            raise ValueError(f"batch size {batch_size!r} is none of the declared ones, {list(sizes)}")
        return index(batch_size)

    @property
    def own_batch_size(self) -> int | None:
        """The one that it was written for, with which others are compared."""
        return self._terms.batch_size

    @property
    def controls(self) -> bool:
        """Whether the service is there, and sets this job's GPUs."""
        return self.connected and self._advice.control == "control"

    @property
    def mode(self) -> str:
        """``speed-first``, ``efficiency-first``, ``between``, ``profiling`` or ``off``."""
        return self._advice.mode

    @property
    def reason(self) -> str:
        return self._advice.reason

    @property
    def intensity_g_per_kwh(self) -> float | None:
        """The grid's, that the service went by last. None while that is not known, and where no service is."""
        return self._advice.intensity_g_per_kwh

    @property
    def connected(self) -> bool:
        """Whether the service answered the latest report."""
        return self._reporter is not None and self._mine() and self._reporter.answer.connected

    @property
    def summary(self) -> Summary | None:
        """What the job cost, once closed. None while open, without a service, and under ``chase exec``."""
        return self._summary

    def start(self) -> Self:
        """Begin to report. Returns at once, whether there is a service or not; a second call does nothing."""
        if self._pid:
            if self._reporter is not None and self._mine() and self._reporter.stopped:
                logger.warning("job %s is closed and counts for nobody any more: make another Job", self.name)
            return self
        self._pid = os.getpid()
        link = self._link() if _local_rank(self._env) == 0 else None
        if link is not None:
            self._begin(Reporter(link, clock=self._clock))
        return self

    def close(self, reason: str = "done") -> None:
        """End the job; waits at most two seconds for the service. Also called when the interpreter exits."""
        if self._reporter is None or not self._mine() or self._reporter.stopped:
            return
        atexit.unregister(self.close)
        self._summary = self._reporter.stop(reason, CLOSE_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(_end_reason(error))

    @property
    def _advice(self) -> Advice:
        return Advice() if self._reporter is None else self._reporter.answer.advice

    def _mine(self) -> bool:
        """False in a forked child, which has the object but not the thread, and must not end its parent's job."""
        return self._pid == os.getpid()

    def _link(self) -> Link | None:
        if self._env.get(ID_VARIABLE):
            return self._inside()
        from pathlib import Path  # neither of these is paid for by who only imports this module

        from chase.client.daemonlink import DaemonLink

        return DaemonLink(
            job_id=self.id,
            name=self.name,
            pid=os.getpid(),
            units_done=lambda: self.units_done,
            terms=self._terms,
            said=lambda: self._said,
            gpus=self._gpus,
            socket=None if self._socket is None else Path(self._socket),
            env=self._env,
        )

    def _inside(self) -> Link | None:
        from pathlib import Path

        from chase.client.inside import DIRECTORY_VARIABLE, InsideLink

        directory = self._env.get(DIRECTORY_VARIABLE)
        if not directory:
            logger.warning("%s is set but %s is not: job %s gets no count", ID_VARIABLE, DIRECTORY_VARIABLE, self.id)
            return None
        return InsideLink(
            Path(directory),
            units_done=lambda: self.units_done,
            terms=self._terms,
            name=self.name,
            said=lambda: self._said,
        )

    def _begin(self, reporter: Reporter) -> None:
        try:
            reporter.start()
        except RuntimeError as error:  # no more threads, or the interpreter is going down
            logger.warning("no thread to report with (%s); the training goes on without it", error)
            return
        self._reporter = reporter
        atexit.register(self.close)

    def _step_unusual(self, n: Any) -> None:
        try:
            value = math.nan if isinstance(n, str) else float(n)
        except Exception:  # noqa: BLE001 - whatever the caller's type raises, its training goes on
            value = math.nan
        if 0 <= value <= MOST:
            self._own.cell.part += value
        elif not self._complained:
            self._complained = True
            logger.warning("step() takes a number of at least 0, not a %s; not counted", type(n).__name__)


def _local_rank(env: Mapping[str, str]) -> int:
    """The rank on this node, by whichever launcher says it first; 0 where none does."""
    said = (env.get(name, "") for name in _RANK_VARIABLES)
    return next((int(rank) for rank in said if rank.isdecimal()), 0)


def _end_reason(error: BaseException | None) -> str:
    """How the block ended. The error's type only: its text may hold what is nobody's business."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return "done"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else f"failed: {type(error).__name__}"
