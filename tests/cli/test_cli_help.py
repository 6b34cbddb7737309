"""What ``chase`` and each command say of themselves, and what that costs to import."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from chase.cli import main
from chase.cli.group import Entry, LazyGroup

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "cli.md").read_text()
HEAVY = {"pydantic", "pydantic_settings", "numpy", "requests", "rich", "sqlite_utils", "fastapi", "uvicorn"}
HEAVY |= {"apscheduler", "structlog", "stamina", "pynvml", "torch", "zeus_core", "providers", "sqlite3", "asyncio"}


def commands():
    """Every command with its full name, groups included."""
    context = click.Context(main, info_name="chase", **main.context_settings)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {sub}", inner) for sub, inner in command.commands.items())


COMMANDS = dict(commands())
every_command = pytest.mark.parametrize("name", COMMANDS)


@every_command
def test_each_command_has_help_with_an_example(run, name):
    """-h and --help say the same: what it does, its options each with a text, and an example that begins with chase."""
    command = COMMANDS[name]
    result = run(*name.split(), "--help")
    assert result.exit_code == 0
    assert result.stdout == run(*name.split(), "-h").stdout
    assert re.search(rf"Example:\n +.*\bchase {name}", result.stdout)
    assert command.help
    assert command.short_help
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, f"{name} {param.opts} has no help"


@every_command
def test_each_command_and_option_is_in_the_reference(name):
    """docs/cli.md has a section for the command with its usage, and each of its options with its text."""
    section = re.split(rf"^#+ `chase {name}`$", REFERENCE, flags=re.MULTILINE)
    assert len(section) == 2, (
        f"docs/cli.md has no section on chase {name}: run python -m chase.cli.reference docs/cli.md"
    )
    text = " ".join(re.split(r"^#", section[1], maxsplit=1, flags=re.MULTILINE)[0].split())
    assert f"Usage: chase {name}" in text
    for param in COMMANDS[name].params:
        if isinstance(param, click.Option):
            for option in param.opts:
                assert option in text, f"{option} of chase {name} is missing in docs/cli.md"
            assert " ".join(param.help.split()) in text, (
                f"docs/cli.md says something else of {param.opts} of chase {name}"
            )


def test_the_reference_has_no_command_that_does_not_exist():
    """A command that was taken away leaves the reference too."""
    assert set(re.findall(r"^#+ `chase ([a-z ]+)`$", REFERENCE, flags=re.MULTILINE)) == set(COMMANDS)


def test_the_reference_is_rewritten_in_place(tmp_path):
    """Writing it again keeps the words around it, and is stable."""
    from chase.cli import reference

    page = tmp_path / "cli.md"
    page.write_text(f"# Title\n\nWords.\n\n{reference.BEGIN}\nold\n{reference.END}\n\nMore words.\n")
    reference.rewrite(page)
    once = page.read_text()
    assert once.startswith("# Title\n\nWords.\n")
    assert once.endswith("\nMore words.\n")
    assert "### `chase config show`" in once
    reference.rewrite(page)
    assert page.read_text() == once


@pytest.mark.parametrize("name", main.entries)
def test_the_listing_says_what_the_command_says_of_itself(name):
    """The one line is kept twice, so that the listing need not import the command; both are the same."""
    assert main.entries[name].line == COMMANDS[name].short_help


def test_the_listing_names_every_command_under_a_heading(run):
    """No command without arguments is anything but help, and the exit codes are explained there."""
    out = run("--help").stdout
    for name, entry in main.entries.items():
        assert re.search(rf"^  {name} +{re.escape(entry.line)}$", out, flags=re.MULTILINE)
    assert "75" in out


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], [], ["nosuch"]])
def test_the_front_page_imports_next_to_nothing(chase, arguments):
    """The listing is drawn from a table: neither the libraries nor the rooms of the project are loaded for it."""
    assert not HEAVY & _imported(*arguments)


@pytest.mark.parametrize("arguments", [["status"], ["jobs"], ["hold", "off"]])
def test_what_only_talks_to_the_service_stays_light(chase, arguments):
    """A look at the service costs neither configuration nor database nor GPU code."""
    assert not (HEAVY - {"sqlite3"}) & _imported(*arguments)


def test_the_actuator_loads_no_network_and_no_database():
    """The privileged process imports no HTTP client, web server, validator or database."""
    heavy = HEAVY - {"zeus_core", "pynvml"} | {"chase.config", "chase.store", "http.client", "urllib.request", "ssl"}
    assert not heavy & _imported("actuator", "--help")


def _imported(*arguments: str) -> set[str]:
    code = (
        "import sys\nfrom chase.cli import main\n"
        f"try: main({list(arguments)!r}, prog_name='chase')\n"
        "except SystemExit: pass\n"
        "print('MODULES', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    names = done.stdout.rsplit("MODULES", 1)[1].split()
    return set(names) | {name.split(".")[0] for name in names}


def test_completion_lists_commands_without_importing_them():
    """Pressing TAB costs the table alone, and the help texts come with it."""
    code = (
        "import sys\nfrom click.shell_completion import ShellComplete\nfrom chase.cli import main\n"
        "items = ShellComplete(main, {}, 'chase', '_CHASE_COMPLETE').get_completions([], 're')\n"
        "print([(item.value, item.help) for item in items])\nprint('chase.cli.restore' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (
        done.stdout
        == f"[('restore', {main.entries['restore'].line!r}), ('regions', {main.entries['regions'].line!r})]\n"
        or ("('restore'" in done.stdout and "('regions'" in done.stdout)
    )
    assert done.stdout.endswith("False\n")


def test_completion_goes_on_inside_a_command():
    """Options of a command and commands of a group complete as well."""
    complete = ShellComplete(main, {}, "chase", "_CHASE_COMPLETE").get_completions
    assert [item.value for item in complete(["decisions"], "--s")] == ["--since"]
    assert [item.value for item in complete(["db"], "p")] == ["path", "prune"]
    assert [item.value for item in complete(["hold"], "s")] == ["speed-first"]


def test_completion_works_from_a_shell(chase):
    """The script that click makes is there for bash."""
    import os

    done = chase(env={**os.environ, "_CHASE_COMPLETE": "bash_source"})
    assert done.returncode == 0
    assert "_chase_completion" in done.stdout


def test_version(run):
    """The version is the package's."""
    from chase import __version__

    assert run("--version").stdout == f"chase, version {__version__}\n"


def test_an_entry_that_points_nowhere_is_a_programming_error():
    """A name in the table must be a command."""
    with pytest.raises(TypeError, match="not a click command"):
        Entry("chase.errors:ChaseError", "", "").load()
    group = LazyGroup(name="x", entries={})
    assert group.get_command(click.Context(group), "nothing") is None
