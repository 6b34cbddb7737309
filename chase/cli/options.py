"""The options that several commands share, so that they are called and explained alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from chase.cli.output import VERBOSE, Form

F = TypeVar("F", bound=Callable[..., Any])


class Whole(click.IntRange):
    """A whole number within bounds; what is none is told so in plain words."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number", param, ctx)
        return int(super().convert(value, param, ctx))


class Number(click.FloatRange):
    """The same of numbers with a point. Infinity and what is not a number are none, though Python reads them."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            finite = math.isfinite(float(value))
        except ValueError:
            finite = False
        if not finite:
            self.fail(f"{value!r} is not a number", param, ctx)
        return float(super().convert(value, param, ctx))


class Share(Number):
    """The same, also as a percentage."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return super().convert(fraction(str(value)), param, ctx)
        except ValueError:
            self.fail(f"{value!r} is not a number, nor a percentage", param, ctx)


def fraction(text: str) -> float:
    """``0.1`` and ``10%`` are the same. Raises ``ValueError``."""
    return float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)


FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
SOCKET = click.Path(path_type=Path, readable=False)  # connecting says best what is wrong with it


def config_option(function: F) -> F:
    text = "The service's configuration file; CHASE_CONFIG names it too."
    return click.option("--config", "config_file", type=FILE, envvar="CHASE_CONFIG", metavar="FILE", help=text)(
        function
    )


def region_option(function: F) -> F:
    text = "A region's name (see 'chase regions list') or a region file."
    return click.option("--region", metavar="REGION", help=text)(function)


def db_option(function: F) -> F:
    text = "The database, in place of the configured one."
    return click.option("--db", "db_file", type=FILE, metavar="FILE", help=text)(function)


def socket_option(function: F) -> F:
    text = "The service's socket; CHASE_SOCKET names it too."
    return click.option("--socket", "socket_file", type=SOCKET, envvar="CHASE_SOCKET", metavar="FILE", help=text)(
        function
    )


def verbose_option(function: F) -> F:
    def callback(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        del param
        ctx.meta[VERBOSE] = value or ctx.meta.get(VERBOSE, False)

    text = "Say more on stderr: the files used, and what caused an error."
    return click.option("-v", "--verbose", is_flag=True, expose_value=False, callback=callback, help=text)(function)


def json_option(function: F) -> F:
    """For a command that prints one thing: ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(function)


def list_options(function: F) -> F:
    """For a command that prints a list: ``form``."""
    flags = (
        (Form.NL, "Print one JSON object a line."),
        (Form.CSV, "Print CSV with a header."),
        (Form.JSON, "Print one JSON document: an array."),
    )
    for form, text in flags:
        name, callback = f"as_{form}", _chooses(form)
        option = click.option(f"--{form}", name, is_flag=True, expose_value=False, callback=callback, help=text)
        function = option(function)
    return function


def _chooses(form: Form) -> Callable[[click.Context, click.Parameter, bool], None]:
    """Three flags for one ``form``: click would silently take the last one given."""

    def callback(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        del param
        before = ctx.params.setdefault("form", Form.TEXT)
        if value and before is not Form.TEXT:
            raise click.UsageError(f"--{before} and --{form} are two forms: choose one", ctx)
        if value:
            ctx.params["form"] = form

    return callback


def example(*lines: str) -> str:
    """An epilog that shows commands as they are typed."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
