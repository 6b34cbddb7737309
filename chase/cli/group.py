"""A click group that knows its commands by name and one line, and imports a command when it is used."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem

from chase.cli.output import say, say_more
from chase.errors import ChaseError

_SIGPIPE_STATUS = 128 + 13  # what a shell reports of a program that died of a closed pipe


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command is (``module:attribute``), the one line for the listing, and its section there."""

    target: str
    line: str
    section: str

    def load(self) -> click.Command:
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.target} is not a click command")
        return command


class LazyGroup(click.Group):
    """Lists from ``entries`` alone; turns the project's own errors into one line and an exit code."""

    def __init__(self, *, entries: Mapping[str, Entry], **attrs: Any) -> None:
        super().__init__(**attrs)
        self.entries = dict(entries)

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        entry = self.entries.get(cmd_name)
        return None if entry is None else entry.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.entries and not ctx.resilient_parsing:
            near = difflib.get_close_matches(args[0], self.entries, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        width = max(map(len, self.entries))
        for section in dict.fromkeys(entry.section for entry in self.entries.values()):
            rows = [(f"{n:{width}}", e.line) for n, e in self.entries.items() if e.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = (name for name in self.entries if name.startswith(incomplete))
        items = [CompletionItem(name, help=self.entries[name].line) for name in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):  # in a locale without the letter, a mark is better than a crash
            getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
        try:
            return super().invoke(ctx)
        except ChaseError as error:
            _report(error)
            raise click.exceptions.Exit(error.exit_code) from error
        except BrokenPipeError:
            # The reader has gone (``| head``): nothing to say, and nothing left to flush at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(_SIGPIPE_STATUS) from None
        except OSError as error:
            if error.filename is None:  # not a file that the user could mend
                raise
            say(f"Error: {error.filename}: {error.strerror}")
            raise click.exceptions.Exit(1) from error


class DefaultGroup(click.Group):
    """Without a command's name ``default`` is meant, whose arguments and options may follow at once."""

    default = "show"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in ctx.help_option_names or self.is_name(args[0]))
        return super().parse_args(ctx, args if named or ctx.resilient_parsing else [self.default, *args])

    def is_name(self, word: str) -> bool:
        """Whether the first word names a command here rather than begins what the default command is given."""
        return word in self.commands


def _report(error: ChaseError) -> None:
    """What a person reads of an error that they can mend; its causes too with ``--verbose``."""
    say(f"Error: {error}")
    cause = error.__cause__
    while cause is not None:
        say_more(f"  because of {type(cause).__name__}: {cause}")
        cause = cause.__cause__
