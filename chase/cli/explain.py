"""``chase explain``: one decision, taken again."""

from __future__ import annotations

from pathlib import Path

import click

from chase.cli import options
from chase.cli.output import emit
from chase.cli.where import open_database
from chase.errors import ChaseError
from chase.explain import explain as take_again


@click.command(
    short_help="Take one decision again and say why it came out so.",
    epilog=options.example("chase explain 42", "chase explain 42 --json"),
)
@click.argument("decision_id", metavar="ID", type=options.Whole(min=1))
@options.db_option
@options.config_option
@options.json_option
@options.verbose_option
@click.pass_context
def explain(
    ctx: click.Context, *, decision_id: int, db_file: Path | None, config_file: Path | None, as_json: bool
) -> None:
    """Take the decision ID again from its stored inputs, and say what it weighed and why it came out so.

    Exit code 1 means that it came out differently this time.
    """
    with open_database(db_file, config_file) as log:
        record = log.decision(decision_id)
    if record is None:
        raise ChaseError(f"there is no decision {decision_id}; see 'chase decisions'")
    explanation = take_again(record)
    emit(explanation.to_dict(), explanation.lines, as_json=as_json)
    if not explanation.same:
        ctx.exit(1)
