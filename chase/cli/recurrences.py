"""``chase recurrences``: jobs that are trained again and again, what was tried of them, and what is believed by now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from chase import unixhttp
from chase.cli import options
from chase.cli.daemon import socket_path
from chase.cli.group import DefaultGroup
from chase.cli.output import Column, Form, Row, emit, emit_lines, emit_rows
from chase.cli.where import open_database
from chase.errors import StoreError
from chase.figures import duration, energy
from chase.records import RecurrenceRecord, TrialRecord
from chase.recurrences import Hardware, proposed
from zeus_core.batch_size import Arm

_COLUMNS = (
    Column("name", "name", least=8),
    Column("uid", "uid", right=True, spare=2),
    Column("batch_sizes", "batch sizes", show=lambda sizes: ", ".join(map(str, sizes))),
    Column("default", "own", right=True),
    Column("pinned_batch_size", "pinned", right=True, spare=1),
    Column("trials", "trials", right=True),
    Column("best", "best", right=True),
)
_DIGITS = 18  # of a number that the service's database can hold
_TRIALS = (
    Column("number", "number", right=True),
    Column("began_at", "began", spare=2),
    Column("batch_size", "batch", right=True),
    Column("stage", "stage", spare=1),
    Column("status", "ended"),
    Column("epochs", "epochs", right=True),
    Column("metric", "metric", right=True, spare=3),
    Column("energy_j", "energy", show=energy, right=True),
    Column("duration_s", "time", show=duration, right=True),
    Column("eta", "eta", show=lambda eta: f"{eta:.2f}", right=True),
    Column("reason", "because", wrap=True),
)


@dataclass(frozen=True, slots=True)
class _View:
    """A recurring job at an eta: its trials that count, and what is believed of each batch size."""

    record: RecurrenceRecord
    trials: tuple[TrialRecord, ...]
    arms: tuple[Arm, ...]
    eta: float

    @property
    def best(self) -> int | None:
        known = {arm.batch_size: arm.mean for arm in self.arms if arm.mean is not None}
        return min(known, key=lambda size: known[size] or 0.0, default=None)

    def row(self) -> dict[str, Any]:
        record = self.record
        told = {"name": record.name, "uid": record.uid, "pinned_batch_size": record.pinned_batch_size}
        spec = {key: record.spec[key] for key in ("batch_sizes", "default", "target", "max_epochs")}
        return {**told, **spec, "trials": len(self.trials), "best": self.best}

    def to_dict(self) -> dict[str, Any]:
        arms = [asdict(arm) for arm in self.arms]
        return {**self.row(), "eta": self.eta, "arms": arms, "history": [asdict(trial) for trial in self.trials]}

    def lines(self) -> Iterator[str]:
        record = self.record
        pinned = f", pinned at {record.pinned_batch_size}" if record.pinned_batch_size else ""
        yield f"{record.name}: {_trainings(len(self.trials))}{pinned}; what a batch size costs at eta {self.eta:g}"
        for arm in self.arms:
            own = ", its own" if arm.batch_size == record.spec["default"] else ""
            best = ", the best" if arm.batch_size == self.best else ""
            yield f"  {arm.batch_size:>8}  {_belief(arm, self.trials)}{own}{best}"


class _ShowsByDefault(DefaultGroup):
    default = "show"


@click.group(
    cls=_ShowsByDefault,
    short_help="Show recurring jobs and their batch sizes.",
    epilog=options.example("chase recurrences", "chase recurrences show ranking", "chase recurrences pin ranking 64"),
)
def recurrences() -> None:
    """Jobs that are trained again and again, and the search for their batch size."""


@recurrences.command(
    short_help="List recurring jobs, or one with its trials.",
    epilog=options.example("chase recurrences show", "chase recurrences show ranking --eta 1"),
)
@click.argument("name", required=False)
@click.option(
    "--eta",
    type=options.Number(min=0.0, max=1.0),
    default=0.5,
    show_default=True,
    help="Weight of energy against time: 0 is time alone, 1 energy alone.",
)
@options.db_option
@options.config_option
@options.list_options
@options.verbose_option
def show(*, name: str | None, eta: float, db_file: Path | None, config_file: Path | None, form: Form) -> None:
    """What was tried of each recurring job, or of the one called NAME, and what is believed of its batch sizes.

    The costs are worked out anew for the eta that is asked for, from the joules and seconds of each training.
    """
    with open_database(db_file, config_file) as log:
        records = [record for record in log.recurrences() if name in {None, record.name}]
        views = [_view(record, log.trials(record.key), eta) for record in records]
    if name is not None and not views:
        raise StoreError(f"no job {name!r} was trained here as a recurring one; 'chase recurrences' lists them")
    if name is None:
        rows: list[Row] = [view.row() for view in views]
        emit_rows(rows, _COLUMNS, form, none="No recurring jobs.")
        return
    for view in views:
        if form is Form.JSON:
            emit(view.to_dict(), view.lines, as_json=True)
            continue
        if form is Form.TEXT:
            emit_lines(view.lines())
        emit_rows([asdict(trial) for trial in view.trials], _TRIALS, form, none="Nothing was tried yet.")


@recurrences.command(
    short_help="Let a recurring job run at one batch size.",
    epilog=options.example("chase recurrences pin ranking 64", "chase recurrences pin ranking none"),
)
@click.argument("name")
@click.argument("batch_size", metavar="SIZE|none")
@options.socket_option
@options.config_option
@options.json_option
@options.verbose_option
def pin(*, name: str, batch_size: str, socket_file: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Let all trainings of NAME run at one batch size; none lets the search have its way again."""
    if batch_size != "none" and not (batch_size.isdecimal() and len(batch_size) <= _DIGITS):
        raise click.UsageError(f"a batch size is a whole number, or none, not {batch_size[:60]!r}")
    size = None if batch_size == "none" else int(batch_size)
    body = {"name": name, "batch_size": size}
    answer = unixhttp.request(socket_path(socket_file, config_file), "POST", "/v1/recurrences/pin", body)
    text = f"{name} is searched again" if size is None else f"{name} runs at batch {size} from its next training on"
    emit(answer["recurrence"], lambda: [text], as_json=as_json)


@recurrences.command(
    short_help="Search a recurring job's batch size anew.", epilog=options.example("chase recurrences reset ranking")
)
@click.argument("name")
@options.socket_option
@options.config_option
@options.json_option
@options.verbose_option
def reset(*, name: str, socket_file: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Forget what was learnt of NAME. Its trainings stay in the database, and are not gone by any more."""
    answer = unixhttp.request(socket_path(socket_file, config_file), "POST", "/v1/recurrences/reset", {"name": name})
    emit(answer["recurrence"], lambda: [f"{name} is searched anew from its next training on"], as_json=as_json)


def _view(record: RecurrenceRecord, trials: list[TrialRecord], eta: float) -> _View:
    counted = tuple(trial for trial in trials if trial.number >= record.first_trial)
    last = counted[-1] if counted else None
    hardware = Hardware(last.gpu_model if last else "", (last.max_power_w if last else 0.0) or 1.0)
    return _View(record, counted, proposed(record, counted, eta, hardware, seed=0).arms, eta)


def _belief(arm: Arm, trials: Iterable[TrialRecord]) -> str:
    if arm.mean is None or arm.sd is None:
        ended = Counter(trial.status for trial in trials if trial.batch_size == arm.batch_size)
        times = ", ".join(status if count == 1 else f"{status} {count} times" for status, count in ended.items())
        state = "given up" if arm.state == "out" else "nothing known" if times else "not tried"
        return f"{state}: {times}" if times else state
    by = _trainings(arm.count) if arm.count else "what it took on other GPUs"
    return f"{energy(arm.mean)}, give or take {energy(arm.sd)}, by {by}"


def _trainings(count: int) -> str:
    return "1 training" if count == 1 else f"{count} trainings"
