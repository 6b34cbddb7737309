"""How a mistake ends: a text on stderr, an exit code, and never a traceback."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from chase.cli import main, options
from chase.cli.group import Entry, LazyGroup
from chase.cli.output import Column, Form, emit_rows, say_more
from chase.errors import ChaseError, ConfigError, StoreError, TryLater

_NUMBERS = (click.IntRange, click.FloatRange, type(click.INT), type(click.FLOAT))


@click.command()
@click.argument("what")
@options.verbose_option
def fail(what: str) -> None:
    """A command that ends as it is told."""
    errors = {
        "finding": ChaseError("this was found"),
        "config": ConfigError("chase.toml: service.mode: must be control or observe"),
        "store": StoreError("chase.sqlite: cannot be read"),
        "later": TryLater("nobody answers"),
        "file": PermissionError(13, "Permission denied", "/etc/secret.toml"),
        "escape": ChaseError("a job called \x1b[2J"),
        "bug": RuntimeError("a bug"),
        "nameless": OSError(5, "Input/output error"),
    }
    say_more("more of it")
    raise errors[what] from ValueError("the root of it")


group = LazyGroup(name="chase", entries={"fail": Entry(f"{__name__}:fail", "Fail.", "Test")})


@pytest.fixture
def call(monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, sys.modules[fail.callback.__module__])
    return lambda *args: CliRunner().invoke(group, ["fail", *args])


@pytest.mark.parametrize(
    ("what", "code", "text"),
    [
        ("finding", 1, "Error: this was found\n"),
        ("config", 2, "Error: chase.toml: service.mode: must be control or observe\n"),
        ("store", 1, "Error: chase.sqlite: cannot be read\n"),
        ("later", 75, "Error: nobody answers\n"),
        ("file", 1, "Error: /etc/secret.toml: Permission denied\n"),
        ("escape", 1, "Error: a job called �[2J\n"),
    ],
)
def test_an_error_is_one_text_and_its_own_exit_code(call, what, code, text):
    """What a person can mend is said on stderr alone, with the code of its kind."""
    result = call(what)
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", text)


def test_verbose_says_what_caused_it(call):
    """With -v the chain of causes follows, and other talk that is silent otherwise."""
    assert call("store", "-v").stderr == (
        "more of it\nError: chase.sqlite: cannot be read\n  because of ValueError: the root of it\n"
    )


@pytest.mark.parametrize("what", ["bug", "nameless"])
def test_a_bug_is_not_dressed_up_as_a_mistake(call, what):
    """What nobody can mend keeps its traceback."""
    assert isinstance(call(what).exception, (RuntimeError, OSError))


def test_an_unknown_command_is_a_usage_error_with_a_guess(run):
    """A typing mistake gets the nearest command's name."""
    result = run("statsu")
    assert result.exit_code == 2
    assert "Did you mean 'status'?" in result.stderr
    assert "Did you mean" not in run("xyzzy").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["decisions", "--nosuch"],
        ["decisions", "--limit", "-1"],
        ["explain"],
        ["hold", "sideways"],
        ["hold", "none", "--until", "2h"],
        ["restore", "--all", "0"],
        ["exec"],
        ["exec", "--max-slowdown", "fast", "--", "true"],
        ["exec", "--max-slowdown", "600%", "--", "true"],
        ["exec", "--max-slowdown", "nan", "--", "true"],
        ["exec", "--deadline", "whenever", "--", "true"],
        ["exec", "--deadline", "2020-01-01", "--", "true"],
        ["exec", "--gpus", ",", "--", "true"],
        ["actuator"],
        ["actuator", "--uid", "0", "--user", "root"],
        ["actuator", "--user", "nobody-of-this-name"],
        ["actuator", "--uid", "0", "--group", "nobody-of-this-name"],
        ["signal", "nosuch"],
        ["regions", "show", "nosuch"],
        ["serve", "--region", "nosuch", "--simulated"],
        ["serve", "--config", "nosuch.toml"],
        ["demo", "--seconds", "0"],
        ["demo", "--seconds", "nan"],
        ["demo", "--region", "mars"],
        ["demo", "--region", "gb", "--region", "mars"],
        ["hold", "off", "--until", "2020-01-01"],
        ["hold", "off", "--until", "soon"],
        ["hold", "off", "--until", "soon", "--job", "x"],
        ["exec", "--total", "inf", "--", "true"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_two(run, arguments):
    """Whatever is asked wrongly ends with exit code 2, a text, and nothing on stdout."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["status"], ["jobs"], ["hold", "off"], ["hold", "off", "--until", "2h"], ["hold", "none", "--job", "x"]],
    ids=" ".join,
)
def test_without_a_service_it_is_try_later(run, arguments):
    """Each command that needs the service ends with 75, and names the socket that was tried."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (75, "")
    assert "nobody.sock" in result.stderr


@pytest.mark.parametrize(
    "command",
    [["decisions"], ["jobs", "--all"], ["config", "show"], ["regions", "list"], ["restore"], ["db", "export", "jobs"]],
    ids=" ".join,
)
@pytest.mark.parametrize("forms", list(itertools.permutations(["--json", "--csv", "--nl"], 2)), ids=" ".join)
def test_two_forms_at_once_are_wrong_usage(run, log, command, forms):
    """None of two forms is taken silently; the error names both."""
    result = run(*command, *forms)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{forms[0]} and {forms[1]} are two forms" in result.stderr


def test_one_form_twice_is_one_form(run, log):
    """Saying it again changes nothing."""
    assert run("decisions", "--db", log.path, "--json", "--json").stdout == (
        run("decisions", "--db", log.path, "--json").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["decisions", "--limit", "abc"], "'--limit': 'abc' is not a whole number"),
        (["decisions", "--limit", "1.5"], "'--limit': '1.5' is not a whole number"),
        (["decisions", "--since", "abc"], "'--since': 'abc' is not a time"),
        (["explain", "x"], "'ID': 'x' is not a whole number"),
        (["signal", "gb", "--hours", "x"], "'--hours': 'x' is not a whole number"),
        (["actuator", "--uid", "me"], "'--uid': 'me' is not a whole number"),
        (["actuator", "--lease-s", "long"], "'--lease-s': 'long' is not a number"),
        (["exec", "--total", "nan", "--", "true"], "'--total': 'nan' is not a number"),
        (["db", "prune", "--keep-days", "x"], "'--keep-days': 'x' is not a whole number"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_no_number_is_told_so_in_plain_words(run, arguments, said):
    """No word of the library's own types reaches a person."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "range" not in result.stderr


def test_no_command_takes_numbers_by_another_type():
    """An option that is added later gets the same plain words."""
    types = [(name, param.name, param.type) for name, command in every_command() for param in command.params]
    plain = (options.Whole, options.Number)
    assert [(n, p) for n, p, kind in types if isinstance(kind, _NUMBERS) and not isinstance(kind, plain)] == []


def every_command():
    context = click.Context(main, info_name="chase", **main.context_settings)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        yield name, command
        yield from getattr(command, "commands", {}).items()


def test_a_demo_of_a_region_without_a_typical_year_is_refused(run, quiet_region):
    """There is nothing to replay: that is said before a day is begun."""
    result = run("demo", "--region", quiet_region)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "typical" in result.stderr


@pytest.mark.parametrize("until", ["2020-01-01", "soon"])
def test_a_wrong_end_of_a_hold_is_wrong_usage_whether_or_not_a_service_answers(run, service, until):
    """The option is what is wrong in both cases, and the same words say so."""
    texts = set()
    for socket in (service.socket, "nobody.sock"):
        result = run("hold", "off", "--until", until, "--socket", socket)
        assert (result.exit_code, result.stdout) == (2, "")
        texts.add(result.stderr)
    assert len(texts) == 1


def test_a_wrong_configuration_touches_nothing(chase, tmp_path):
    """Exit code 2 with file and key, before a folder is made or a driver is asked."""
    config = tmp_path / "chase.toml"
    config.write_text(f'[service]\nstate_dir = "{tmp_path}/state"\nmodus = "observe"\n')
    done = chase("serve", "--config", config)
    assert done.returncode == 2
    assert "chase.toml:3" in done.stderr
    assert "modus" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "state").exists()


def test_a_reader_that_leaves_is_no_error(log):
    """``chase decisions | head -1`` prints its line and nothing on stderr."""
    command = f"{sys.executable} -m chase db export decisions --db {log.path} | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"{"
    assert done.stderr == b""


def test_a_closed_pipe_ends_the_command_quietly():
    """Even a flood into a closed pipe ends at once, as a shell expects of SIGPIPE."""
    code = (
        "from chase.cli.group import *\nfrom chase.cli.output import emit_lines\nimport itertools\n"
        "flood = click.command()(lambda: emit_lines(itertools.repeat('x' * 100)))\n"
        "Entry.load = lambda self: flood\n"
        "LazyGroup(name='chase', entries={'flood': Entry('', '', '')})(['flood'])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.read(3) == b"xxx"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=30) == 141


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_a_locale_that_lacks_a_letter_gets_a_mark(chase, log, encoding):
    """A bar of the chart that the terminal's encoding cannot say is replaced, never a crash."""
    done = chase("signal", "gb", "--db", log.path, env={**os.environ, "PYTHONIOENCODING": encoding}, encoding=encoding)
    assert done.returncode == 0, done.stderr
    assert ("█" if encoding == "utf-8" else "????") in done.stdout


@pytest.mark.parametrize("form", list(Form))
def test_hostile_values_come_out_in_every_form(capsys, form):
    """Quotes, newlines, commas, escapes and lone surrogates do not break a form."""
    emit_rows([{"name": 'a"b,\nc\x1b[1m\udc80'}], [Column("name", "name")], form)
    out = capsys.readouterr().out
    assert out
    assert "\x1b" not in out
