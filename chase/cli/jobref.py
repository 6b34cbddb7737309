"""Which job a person means: a whole id, a name, or the beginning of an id."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from chase import unixhttp
from chase.cli.output import say


def find(known: Sequence[tuple[str, str]], text: str, *, hint: str = "'--job'") -> str:
    """The id that ``text`` stands for among ``known`` (id, name), oldest first; of one name the newest, and said so.

    Raises ``click.BadParameter`` when it is none of them, or the beginning of several; ``hint`` is what was given.
    """
    if not text.strip():  # of a script's unset variable; it is the beginning of every id
        raise click.BadParameter("no job is named; see 'chase jobs'", param_hint=hint)
    if any(job_id == text for job_id, _ in known):
        return text
    named = [job_id for job_id, name in known if name == text]  # before beginnings: "e5" is a name, and a beginning
    if named:
        if len(named) > 1:
            say(f"{len(named)} jobs are called {text!r}; the newest is {named[-1]}")
        return named[-1]
    ids = [job_id for job_id, _ in known if job_id.startswith(text)]
    if len(ids) > 1:
        raise click.BadParameter(f"{text!r} is the beginning of several: {', '.join(ids[:5])}", param_hint=hint)
    if not ids:
        raise click.BadParameter(f"no job is called {text!r}; see 'chase jobs'", param_hint=hint)
    return ids[0]


def find_running(socket_path: Path, text: str) -> str:
    """The same among the jobs that the service has under control."""
    jobs = unixhttp.request(socket_path, "GET", "/v1/jobs")["jobs"]
    return find([(job["id"], job["name"]) for job in sorted(jobs, key=lambda job: str(job["registered_at"]))], text)
