"""``chase replay``: what a policy would have saved, by running the real controller through a grid's past."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chase.cli import options
from chase.cli.output import Column, Form, Row, emit_csv, emit_lines, emit_rows, emit_table, say, utc
from chase.cli.progress import bar
from chase.config.shipped import home_dir
from chase.figures import duration, percent
from chase.replay.cell import CLOSED, FORECASTS, Cell, Result

if TYPE_CHECKING:
    from chase.replay.asking import Asked
    from chase.replay.sweep import Progress, Report

_POLICIES = ("budget", "threshold", "chase", "static", "off", *sorted(CLOSED))
_PROFILE = "a40-resnet50"
_FEW = 2  # runs that no process is started for
_PICTURES = 6  # runs at most of which each gets a picture of its own
_SHOWN = 5  # failures that are told
_ROUNDING_S = 0.05
_STOPPED = 130  # what a shell reports of a program that was told to stop


if TYPE_CHECKING:
    Kind = click.ParamType[Any, Any]
else:  # generic since click 8.4 only
    Kind = click.ParamType


class Moment(Kind):
    """A time of the past or of none, in UTC unless it says otherwise."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            when = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time: write 2023-03-01 or 2023-03-01T18:00Z (UTC)", param, ctx)
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


class Setting(Kind):
    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            self.fail(f"{value!r} is not KEY=VALUE, such as eta=0.24", param, ctx)
        try:
            number = float(text)
        except ValueError:
            return key.strip(), text.strip()
        if not math.isfinite(number):
            self.fail(f"{text!r} is not a finite number", param, ctx)
        return key.strip(), number


def _several(*names: str, text: str, **attrs: Any) -> Callable[[options.F], options.F]:
    return click.option(*names, multiple=True, help=f"{text} May be given again.", **attrs)


@click.command(
    short_help="Run the controller through a grid's past.",
    epilog=options.example(
        "chase replay --region gb --days 7 --max-slowdown 0.05",
        "chase replay --trace DE_2023.csv --profile v100-resnet50 --start 2023-03-01 --compare",
        "chase replay --trace DE_2023.csv --days 3 --days 7 --starts 24 --out sweep --plots",
        "chase replay --trace DE_2023.csv --starts 500 --engine dask://10.0.0.1:8786 --out sweep --csv > runs.csv",
    ),
)
@_several("--trace", "traces", type=options.FILE, text="A file of a grid's past: CSV or JSON, also gzipped.")
@click.option(
    "--column", default="", metavar="NAME", help="The values' column, or their scope, where there are several."
)
@_several("--region", "regions", metavar="REGION", text="A region of which a typical profile is replayed, no history.")
@_several(
    "--profile",
    "profiles",
    default=(_PROFILE,),
    show_default=True,
    metavar="NAME",
    text="A shipped GPU profile, a profile's file, or a row of a sweep as FILE.csv:COLUMN=VALUE,...",
)
@_several(
    "--policy",
    "policies",
    type=click.Choice(_POLICIES),
    default=("budget",),
    show_default=True,
    text="A policy, or a limit to compare with that needs no controller.",
)
@click.option("--compare", is_flag=True, help="All policies, limits and forecasts beside each other, and a placebo.")
@_several(
    "--max-slowdown",
    "budgets",
    type=options.Share(0, 10),
    text="How much longer the whole job may take: 0.1 and 10% are the same; 0.05 if not given.",
)
@_several("--set", "settings", type=Setting(), text="Another setting of [policy], such as eta=0.24.")
@_several(
    "--forecast",
    "forecasts",
    type=click.Choice(FORECASTS),
    default=("own",),
    show_default=True,
    text="What the budget policy sees of the days ahead.",
)
@_several(
    "--days",
    type=options.Number(0.001, 3660),
    default=(7.0,),
    show_default=True,
    text="How long the job takes at full power.",
)
@_several("--start", "begins", type=Moment(), text="When the job begins (UTC); by default four weeks into the trace.")
@click.option("--starts", type=options.Whole(1, 100_000), help="So many jobs, evenly from --start to the trace's end.")
@click.option(
    "--delay-h",
    type=options.Number(0, 24),
    default=0.0,
    show_default=True,
    help="How long after an interval began its value is known.",
)
@click.option("--gpus", type=options.Whole(1, 64), default=1, show_default=True, help="Cards of a job.")
@click.option("--pue", type=options.Number(1, 5), default=1.0, show_default=True, help="Power usage effectiveness.")
@click.option(
    "--engine",
    metavar="ENGINE",
    help="processes, processes:N, dask://HOST:PORT or inline; as many processes as cores if not given.",
)
@click.option("--out", type=options.FOLDER, metavar="DIR", help="Keep results here, and run only what is missing.")
@click.option("--plots", is_flag=True, help="Draw pictures into --out; needs the extra 'plots'.")
@click.option("--cache", type=options.FOLDER, metavar="DIR", help="Keep forecasts here, in place of the user's cache.")
@options.list_options
@options.verbose_option
@click.pass_context
def replay(
    ctx: click.Context, /, *, form: Form, out: Path | None, plots: bool, engine: str | None, **given: Any
) -> None:
    """Run jobs through a grid's past, and say what a policy would have saved.

    Controller, policy, signal, forecast, database and accounts are the service's own; clock and GPUs are simulated. Of
    options that are given several times all combinations are run.
    """
    if plots:
        _need_plots(out)
    asked = _asked(**given)
    sweep = _Sweep(asked.cells(), asked.cache, out, engine)
    try:
        report = sweep.run()
    except KeyboardInterrupt:
        kept = f" and kept in {out}; the same command goes on from there" if out else "; with --out they would be kept"
        say(f"Stopped: {sweep.done} of {sweep.total} runs are done{kept}.")
        ctx.exit(_STOPPED)
    for failure in report.failures[:_SHOWN]:
        say(f"Failed: {_named(failure.cell)}: {failure.error}")
    if len(report.failures) > _SHOWN:
        say(f"... and {len(report.failures) - _SHOWN} more of {sweep.total} runs")
    if out is not None:
        _keep(out, report.results, plots=plots, cache=asked.cache)
    _tell(report.results, form)
    ctx.exit(1 if report.failures else 0)


def _asked(
    *,
    traces: tuple[Path, ...],
    regions: tuple[str, ...],
    policies: tuple[str, ...],
    compare: bool,
    settings: tuple[tuple[str, Any], ...],
    forecasts: tuple[str, ...],
    delay_h: float,
    gpus: int,
    pue: float,
    cache: Path | None,
    begins: tuple[datetime, ...],
    starts: int | None,
    **rest: Any,
) -> Asked:
    from chase.replay.asking import COMPARED, Asked
    from chase.replay.sweep import Policy

    if not traces and not regions:
        raise click.UsageError("name a grid: --trace FILE, or --region REGION for a typical year")
    if len(begins) > 1 and starts is not None:
        raise click.UsageError("--starts spreads jobs from one --start on: give one, or all of them without --starts")
    chosen = dict(settings)
    named = [
        Policy(name, chosen, forecast)
        for name in policies
        for forecast in (forecasts if name == "budget" else ("own",))
    ]
    compared = [Policy(p.name, {**chosen, **p.settings}, p.forecast, p.shuffle) for p in COMPARED]
    return Asked(
        traces=traces,
        regions=regions,
        policies=compared if compare else named,
        begins=begins,
        starts=starts,
        common={"delay_s": 3600.0 * delay_h, "gpus": gpus, "pue": pue},
        cache=(cache or _user_cache()).absolute(),
        **rest,
    )


def _user_cache() -> Path:
    """Where the user's programs keep what can be made again."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if Path(named).is_absolute() else home_dir(os.environ) / ".cache") / "chase" / "replay"


@dataclass(slots=True)
class _Sweep:
    """``done`` of ``total`` runs, also when it was stopped."""

    cells: Sequence[Cell]
    cache: Path
    out: Path | None
    engine: str | None
    done: int = 0

    @property
    def total(self) -> int:
        return len(self.cells)

    def run(self) -> Report:
        from chase.replay.engine import engine_of
        from chase.replay.results import Results
        from chase.replay.sweep import run_sweep

        usual = "inline" if self.total <= _FEW else "processes"
        with (
            self._results() as path,
            engine_of(self.engine or usual) as engine,
            Results(path) as results,
            bar() as show,
        ):

            def watch(progress: Progress) -> None:
                self.done = 0 if progress.forecasts else progress.done
                show("forecasts" if progress.forecasts else "runs", progress.done, progress.total)

            return run_sweep(self.cells, engine, results, cache_dir=self.cache / "forecasts", watch=watch)

    @contextlib.contextmanager
    def _results(self) -> Iterator[Path]:
        if self.out is not None:
            yield self.out / "results.sqlite"
            return
        with tempfile.TemporaryDirectory(prefix="chase-sweep-") as folder:
            yield Path(folder) / "results.sqlite"


def _need_plots(out: Path | None) -> None:
    """Before anything is run."""
    from chase.replay.plots import need_matplotlib

    if out is None:
        raise click.UsageError("--plots draws into a folder: name it with --out DIR")
    need_matplotlib()


def _keep(out: Path, results: Sequence[Result], *, plots: bool, cache: Path) -> None:
    from chase.replay.summary import row_of

    with (out / "results.csv").open("w", newline="", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        emit_csv(map(row_of, results))
    if not plots or not results:
        return
    from chase.replay.plots import draw_run, draw_shares

    pictures = [draw_shares(results, out / "shares.png")]
    if len(results) <= _PICTURES:
        pictures += [path for result in results if (path := draw_run(result, out, cache / "forecasts"))]
    for path in pictures:
        say(f"Drawn: {path}")


def _tell(results: Sequence[Result], form: Form) -> None:
    from chase.replay.summary import means, row_of

    if form is not Form.TEXT:
        emit_rows([row_of(result) for result in results], _RUN_KEYS, form)
        return
    rows = means(results)
    if rows:
        emit_lines([*_heading(rows, results), ""])
        emit_table(rows, [column for column in _COLUMNS if column.key not in _SAME or _differs(rows, column.key)])
        emit_lines(["", *_footing(rows)])


_RUN_KEYS = (Column("grid", "grid"), Column("policy", "policy"))  # of a CSV without runs


def _label(row: Row) -> str:
    from chase.replay.summary import label

    return label(row)


_SAME = ("grid", "profile", "max_slowdown", "days", "runs")
_COLUMNS = (
    Column("grid", "grid"),
    Column("profile", "profile"),
    Column("days", "days", right=True),
    Column("max_slowdown", "allowed", show=percent, right=True),
    Column("policy", "policy", tell=_label, least=12),
    Column("runs", "runs", right=True, spare=5),
    Column("saved", "saved", show=percent, right=True),
    Column("efficiency", "efficiency", show=percent, right=True, spare=2),
    Column("timing", "timing", show=percent, right=True, spare=1),
    Column("of_optimum", "of optimum", show=percent, right=True, spare=3),
    Column("of_optimum_timing", "of its timing", show=percent, right=True, spare=4),
    Column("slowdown", "slowdown", show=percent, right=True),
    Column("exceeded_s", "exceeded", show=lambda s: duration(s) if s > _ROUNDING_S else "no", right=True),
)


def _differs(rows: Sequence[Row], key: str) -> bool:
    return len({row[key] for row in rows}) > 1


def _heading(rows: Sequence[Row], results: Sequence[Result]) -> Iterator[str]:
    """What is the same in all rows."""
    first = rows[0]
    same = {key: first[key] for key in _SAME if not _differs(rows, key)}
    grid, profile = same.get("grid", "several grids"), same.get("profile", "several profiles")
    yield f"{_many(len(results), 'run')} through the past of {grid}, on {_many(first['gpus'], 'GPU')}: {profile}"
    starts = sorted(result.cell.start for result in results)
    days = f"of {_many(same['days'], 'day')} at full power" if "days" in same else "of several lengths"
    begin = f"on {utc(starts[0])}" if starts[0] == starts[-1] else f"from {utc(starts[0])} to {utc(starts[-1])}"
    allowed = same.get("max_slowdown")
    jobs, slower = "A job" if len(results) == 1 else "Jobs", f"{percent(allowed)} slower" if allowed else ""
    yield f"{jobs} {days}, beginning {begin}" + (slower and f", allowed to be {slower}")
    for grid in dict.fromkeys(row["grid"] for row in rows if row["typical"]):
        yield f"{grid} is a typical profile, the mean of each hour of a month: no measurement, and easier to forecast"


def _many(number: float, what: str) -> str:
    return f"{number:g} {what}{'' if number == 1 else 's'}"


def _footing(rows: Sequence[Row]) -> Iterator[str]:
    yield "saved is a share of full power's CO2eq, efficiency what the best fixed setting saves in the same time, and"
    yield "timing the rest. The optimum knew what would come."
    if any(row["runs"] > 1 for row in rows):
        yield "Means over runs; shares of the optimum are of sums; exceeded is the worst."


def _named(cell: Cell) -> str:
    return f"{Path(cell.trace).name}, {cell.profile}, {cell.policy}, {cell.days:g} days from {utc(cell.start)}"
