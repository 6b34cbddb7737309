"""``chase exec -- COMMAND``: run a command as one job of the service, from outside and without changing it.

The command is started first and never waits: registering, reporting and looking for a service that is not there happen
beside it. The launcher holds the job's lease; what the command counts reaches it through ``handover``. If the launcher
is killed the command goes on, the lease ends, and the GPUs are given back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chase import unixhttp
from chase.client.daemonlink import DaemonLink
from chase.client.inside import DIRECTORY_VARIABLE
from chase.client.job import CLOSE_S, ID_VARIABLE
from chase.client.messages import Answer, Terms
from chase.client.reporter import Reporter, logger
from chase.client.summary import Summary
from chase.launch import foreground
from chase.launch.foreground import Ended, Held
from chase.launch.handover import Handover
from chase.launch.summary import lines

SOCKET_VARIABLE = "CHASE_SOCKET"
INSTRUMENT_VARIABLE = "CHASE_INSTRUMENT"
_INJECT = Path(__file__).with_name("inject")
_LONGEST_NAME = 200  # that the service takes
_FAILED = "failed: "


def run(
    argv: Sequence[str],
    *,
    name: str | None = None,
    gpus: Sequence[str | int] | None = None,
    terms: Terms | None = None,
    socket: Path | None = None,
    env: Mapping[str, str] | None = None,
    level: int = logging.WARNING,
) -> int:
    """Run ``argv`` as a job and return the status to exit with; die of the signal that it died of, if any.

    ``gpus`` None means those that the environment shows. ``terms`` (total, region, policy, profile) go before what a
    ``Job`` inside says, and so does ``name``; what is counted, and in which unit, the ``Job`` knows best. ``level`` is
    from where on the launcher's own news go to stderr. Raises ``ValueError`` without a command; returns 127 or 126 for
    one that is not found or cannot be run. Call it from the main thread.
    """
    if not argv:
        raise ValueError("there is no command to run; write it after --")
    env = dict(os.environ if env is None else env)
    try:
        with foreground.held_signals() as held:
            if env.get(ID_VARIABLE):  # a launcher inside a launched job, which the outer one reports
                return foreground.wait(foreground.spawn(argv, env, held), held).repeat()
            launch = _Launch(name, job_name(argv), terms or Terms(), gpus, socket, env, level)
            return launch.run(argv, held).repeat()
    except foreground.CannotRun as error:
        _say(str(error))
        return error.status


def job_name(argv: Sequence[str]) -> str:
    """What a person would call it: the script or module that an interpreter or launcher runs, else the command."""
    script = next((arg for arg in argv[1:] if arg.endswith(".py")), None)
    module = argv[argv.index("-m") + 1] if "-m" in argv[:-1] else None
    return (Path(script or module or argv[0]).name or argv[0])[:_LONGEST_NAME]


@dataclass(frozen=True, slots=True)
class _Launch:
    name: str | None
    command: str
    terms: Terms
    gpus: Sequence[str | int] | None
    socket: Path | None
    env: Mapping[str, str]
    level: int

    def run(self, argv: Sequence[str], held: Held) -> Ended:
        with _news_on_stderr(self.level), _handover(self.env) as handover:
            job_id = os.urandom(16).hex()
            child = foreground.spawn(argv, self._inner(job_id, handover), held)
            daemon = self._daemon(job_id, child, handover)
            link = LauncherLink(daemon, handover, self.terms, name=self.name, command=self.command)
            reporter = _started(Reporter(link))
            ended = foreground.wait(child, held)
            summary = None if reporter is None else reporter.stop(_reason(ended), CLOSE_S)
            if link.registered_once:
                _sum_up(summary, job_id, link)
        return ended

    def _inner(self, job_id: str, handover: Handover) -> dict[str, str]:
        return {
            **instrumented(self.env),
            ID_VARIABLE: job_id,
            DIRECTORY_VARIABLE: str(handover.directory),
            SOCKET_VARIABLE: str(self.socket or unixhttp.default_socket(self.env)),
        }

    def _daemon(self, job_id: str, child: int, handover: Handover) -> DaemonLink:
        return DaemonLink(
            job_id=job_id,
            name=self.name or self.command,
            pid=child,
            units_done=lambda: handover.gather().units_done,
            said=lambda: handover.gather().said,
            terms=self.terms,
            gpus=self.gpus,
            socket=self.socket,
            env=self.env,
        )


def instrumented(env: Mapping[str, str]) -> dict[str, str]:
    """With our folder in front of PYTHONPATH, unless its owner does not want that (``inject/sitecustomize.py``)."""
    if env.get(INSTRUMENT_VARIABLE) == "0":
        return dict(env)
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, (str(_INJECT), env.get("PYTHONPATH", ""))))}


class LauncherLink:
    """Reports for all processes of the job and passes the answers on to them."""

    patience_s = DaemonLink.patience_s

    def __init__(self, daemon: DaemonLink, handover: Handover, flags: Terms, *, name: str | None, command: str) -> None:
        """``flags`` and ``name`` are what the launcher was given; ``command`` is the last resort for a name."""
        self.simulated = False
        self._daemon = daemon
        self._handover = handover
        self._flags = flags
        self._name = name
        self._command = command
        self._last = Answer()

    @property
    def registered_once(self) -> bool:
        return self._daemon.registered_once

    @property
    def units(self) -> str:
        return self._terms().units or "steps"

    @property
    def name(self) -> str:
        return self._name or self._handover.gather().name[:_LONGEST_NAME] or self._command

    def exchange(self) -> Answer:
        self._daemon.amend(self._terms(), self.name)
        self._last = replace(self._last, connected=False)
        try:
            self._last = self._daemon.exchange()
        finally:
            self._handover.publish(self._last)
        self.simulated = self._daemon.simulated  # now, as the end has no time for questions
        return self._last

    def end(self, reason: str) -> Summary | None:
        self._daemon.amend(self._terms(), self.name)
        return self._daemon.end(self._in_full(reason))

    def _in_full(self, reason: str) -> str:
        """With the error that the job itself ended with: a status does not tell that the memory was too small."""
        ended = self._handover.gather().ended
        told = reason.startswith(_FAILED) and ended.startswith(_FAILED)
        return f"{reason} ({ended.removeprefix(_FAILED)[:_LONGEST_NAME]})" if told else reason

    def _terms(self) -> Terms:
        said = self._handover.gather().terms
        return replace(self._flags.or_else(said), units=said.units or self._flags.units)


@contextlib.contextmanager
def _handover(env: Mapping[str, str]) -> Iterator[Handover]:
    try:
        handover = Handover.create(env)
    except OSError as error:
        _say(f"no place for the job's own files ({error}); what the command counts will not be known")
        yield Handover(Path(os.devnull))
        return
    try:
        yield handover
    finally:
        handover.remove()


@contextlib.contextmanager
def _news_on_stderr(level: int) -> Iterator[None]:
    """The reporter's log is this process's talk; nobody else has configured it."""
    handler = logging.NullHandler() if sys.stderr is None else logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("chase: %(message)s"))
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def _started(reporter: Reporter) -> Reporter | None:
    try:
        reporter.start()
    except RuntimeError as error:
        _say(f"no thread to report with ({error}); the command runs without the service")
        return None
    return reporter


def _sum_up(summary: Summary | None, job_id: str, link: LauncherLink) -> None:
    if summary is None:
        _say(f"job {link.name}: the service gave no summary; see chase decisions --job {job_id}")
        return
    name = f"{link.name} (simulated GPUs)" if link.simulated else link.name
    for line in lines(summary, name=name, job_id=job_id, units=summary.counted_in or link.units):
        _say(line)


def _reason(ended: Ended) -> str:
    if ended.signal is not None:
        return f"killed by {foreground.signal_name(ended.signal)}"
    return f"{_FAILED}exit status {ended.status}" if ended.status else "done"


def _say(line: str) -> None:
    """A line on stderr, unless that is closed: the command's status is worth more than our line."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"chase: {line}\n")
            sys.stderr.flush()
