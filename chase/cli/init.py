"""``chase init``: a service file to begin with, for the region that this machine is probably in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from chase.cli import options
from chase.cli.checks.sources import can_be_asked
from chase.cli.output import emit_json, emit_lines, say
from chase.config import RegionConfig, load, load_region, region_path
from chase.config.guess import Candidate, Guess, guess
from chase.config.loading import SYSTEM_FILE
from chase.config.shipped import home_dir, is_path
from chase.errors import ChaseError, ConfigError

_FILE = """\
# Settings of the chase service on this node, written by 'chase init'. What is not here has its default;
# 'chase config show --origin' tells every setting in force, and 'chase config check' whether this file is good.

[service]
# observe decides and logs, and touches nothing; control sets the power limits of GPUs.
mode = "{mode}"
# {about}
region = {region}
"""
_THERE = "{path} is there already: write over it with --force, or name another with --output"


@click.command(
    "init",
    short_help="Write a service file to begin with.",
    epilog=options.example(
        "chase init", "chase init --region de --control", "chase init --output ./chase.toml --force"
    ),
)
@options.region_option
@click.option(
    "--output", type=options.FILE, metavar="FILE", help="The file to write, in place of where it is looked for."
)
@click.option("--observe/--control", default=True, help="Touch nothing, or set power limits. [default: observe]")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@options.json_option
@options.verbose_option
def init(*, region: str | None, output: Path | None, observe: bool, force: bool, as_json: bool) -> None:
    """Write a service file that can be run as it is, check it, and say what to do next.

    Without --region it is the one that 'chase regions guess' is sure of, or that you choose: on a terminal it asks,
    elsewhere it names those that fit and writes nothing. The file goes where 'chase serve' looks for it.
    """
    named, why = _choose(region, asks=sys.stdin.isatty() and sys.stdout.isatty() and not as_json)
    path, mode = (output or _default_file()).absolute(), "observe" if observe else "control"
    if path.exists() and not path.is_file():
        raise ChaseError(f"{path} is there and is no file, so it is not replaced; name a file with --output")
    if path.exists() and not force:
        raise ChaseError(_THERE.format(path=path))
    found = load_region(named)
    _write(path, _text(named, found, mode), force=force)
    if as_json:
        emit_json({"file": path, "region": named, "mode": mode, "why": why, "tokens": _tokens(found)})
    else:
        emit_lines([f"Wrote {path}: region {found.id} ({found.name}{why and f'; {why}'}), {mode} mode.", ""])
        emit_lines(_next(path, found, output is not None))


def _choose(region: str | None, *, asks: bool) -> tuple[str, str]:
    """The region's name or file, made whole, and why it is that one."""
    if region is not None:
        return (str(region_path(region).absolute()) if is_path(region) else region), ""
    found = guess()
    if found.best is not None and (not asks or len(found.candidates) == 1):
        return found.best.region, found.best.why
    if asks and found.candidates:
        return _asked(found)
    raise ConfigError(_undecided(found))


def _asked(found: Guess) -> tuple[str, str]:
    for one in found.candidates:
        say(f"  {one.region:<14}{one.sure.value:<10}{one.why}")
    first: Candidate = found.candidates[0]
    answer = str(click.prompt("Region", default=first.region, err=True))
    return answer, next((one.why for one in found.candidates if one.region == answer), "")


def _undecided(found: Guess) -> str:
    if found.candidates:
        names = ", ".join(one.region for one in found.candidates)
        return f"several regions may be meant: {names}; name one with --region ('chase regions guess' says why)"
    notes = "".join(f"; {note}" for note in found.notes)
    return f"nothing tells which region this is{notes}; name one of 'chase regions list' with --region"


def _default_file() -> Path:
    """Where the service looks for it: the system's place for root, else the user's."""
    if os.geteuid() == 0:
        return SYSTEM_FILE
    return Path(os.environ.get("XDG_CONFIG_HOME") or home_dir(os.environ) / ".config") / "chase/chase.toml"


def _text(named: str, region: RegionConfig, mode: str) -> str:
    providers = ", ".join(
        f"{source.provider} ({source.token_env})" if source.token_env else source.provider for source in region.sources
    )
    about = f"{region.name}: {providers or 'its typical profile alone'}. Variables in brackets hold a token."
    return _FILE.format(mode=mode, about=" ".join(about.split()), region=_quoted(named))


def _quoted(text: str) -> str:
    """As a TOML string: a path may hold a quote or a backslash."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write(path: Path, text: str, *, force: bool) -> None:
    """Only what can be used: a draft is read back before the file itself is touched, to which a link may lead."""
    path = path.resolve()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _begin(draft, path, text)
        load(service_file=draft)
        if force:
            draft.replace(path)
            return
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ChaseError(_THERE.format(path=path)) from None
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _begin(draft: Path, path: Path, text: str) -> None:
    try:
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> ChaseError:
    return ChaseError(f"{path} cannot be written: {error.strerror}; name another place with --output")


def _tokens(region: RegionConfig) -> list[str]:
    """Variables that hold a token and are not set, each once, in the order of the sources."""
    without = (s.token_env for s in (*region.sources, *region.prices) if s.token_env and s.token() is None)
    return list(dict.fromkeys(without))


def _next(path: Path, region: RegionConfig, elsewhere: bool) -> Iterator[str]:
    config = f" --config {path}" if elsewhere else ""
    if not can_be_asked(region):
        tokens = " or ".join(_tokens(region))
        yield f"Its sources need a token; until then its typical profile is gone by. Set {tokens}."
        yield ""
    rows: Mapping[str, Any] = {
        f"chase doctor --online{config}": "look at this node and ask the sources",
        f"chase serve{config}": "run the service; --simulated where there is no NVIDIA GPU",
        "chase exec -- python train.py": "run a job under it, in another terminal",
        "chase status": "see what it does",
    }
    yield "Next:"
    width = max(map(len, rows))
    yield from (f"  {command:<{width}}  {text}" for command, text in rows.items())
    if can_be_asked(region) and _tokens(region):
        yield f"With {' or '.join(_tokens(region))} set, more of its sources answer."
