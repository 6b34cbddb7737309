"""The ``chase`` command: a listing. Each command lives in its own module, imported when it is used."""

from __future__ import annotations

import click

from chase import __version__
from chase.cli.group import Entry, LazyGroup

_RUN, _LOOK, _ACT, _SETUP = "Run", "Look", "Step in", "Set up"

main = LazyGroup(
    name="chase",
    help=(
        "Moves running GPU training jobs along their own time-energy frontier as the grid's carbon intensity "
        "changes.\n\n"
        "Exit codes: 0 done, 1 something was found or failed, 2 wrong usage or configuration, 75 try later. "
        "Times are in UTC."
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    entries={
        "serve": Entry("chase.cli.serve:serve", "Run the service on this node.", _RUN),
        "actuator": Entry("chase.cli.actuator:actuator", "Run the privileged process that sets GPUs.", _RUN),
        "exec": Entry("chase.cli.exec:exec_", "Run a command as a job of the service.", _RUN),
        "demo": Entry("chase.cli.demo:demo", "Show the main job offline, on simulated GPUs.", _RUN),
        "status": Entry("chase.cli.status:status", "Show what the service is doing now.", _LOOK),
        "jobs": Entry("chase.cli.jobs:jobs", "List the jobs under control.", _LOOK),
        "decisions": Entry("chase.cli.decisions:decisions", "List the decisions taken, newest first.", _LOOK),
        "report": Entry("chase.cli.report:report", "Show what a job cost and saved.", _LOOK),
        "explain": Entry("chase.cli.explain:explain", "Take one decision again and say why it came out so.", _LOOK),
        "plan": Entry("chase.cli.plan:plan", "Show what is planned for a job.", _LOOK),
        "whatif": Entry("chase.cli.whatif:whatif", "Compare other budgets, policies and regions for a job.", _LOOK),
        "replay": Entry("chase.cli.replay:replay", "Run the controller through a grid's past.", _LOOK),
        "recurrences": Entry("chase.cli.recurrences:recurrences", "Show recurring jobs and their batch sizes.", _LOOK),
        "signal": Entry("chase.cli.grid:signal", "Show the grid's carbon intensity and prices.", _LOOK),
        "forecast": Entry("chase.cli.forecast:forecast", "Score forecasts on stored history.", _LOOK),
        "hold": Entry("chase.cli.hold:hold", "Override the policy for a while.", _ACT),
        "restore": Entry("chase.cli.restore:restore", "Give GPUs back as they were found.", _ACT),
        "init": Entry("chase.cli.init:init", "Write a service file to begin with.", _SETUP),
        "doctor": Entry("chase.cli.doctor:doctor", "Check this node and say what to do.", _SETUP),
        "config": Entry("chase.cli.config:config", "Show or check the configuration.", _SETUP),
        "regions": Entry("chase.cli.regions:regions", "List, show, check or guess regions.", _SETUP),
        "db": Entry("chase.cli.db:db", "Find, export or prune the database.", _SETUP),
    },
)
main = click.version_option(__version__, prog_name="chase")(main)
