from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

from chase.config import Config, config_dir, load
from chase.config.reference import allowed, tables, toml

ROOT = config_dir().parent
SERVICE_FILE = config_dir() / "chase.toml"
KEYS = sorted((section, key) for section, model in Config() for key in type(model).model_fields)


def test_the_shipped_service_file_is_written_from_the_code():
    """config/chase.toml is what ``python -m chase.config.reference toml`` prints."""
    assert SERVICE_FILE.read_text() == toml()


def test_the_shipped_service_file_says_the_defaults(env):
    """Every value in config/chase.toml is the default in the code, so using the file changes nothing but origins."""
    from_file, from_code = load(service_file=SERVICE_FILE, env=env), load(env=env)

    assert from_file.config.model_dump() == from_code.config.model_dump()
    written = {key for key, origin in from_file.origin.items() if origin.startswith(str(SERVICE_FILE))}
    assert {f"{s}.{k}" for s, values in tomllib.loads(SERVICE_FILE.read_text()).items() for k in values} == written


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_each_key_is_in_the_service_file_with_its_meaning(section, key):
    """Each key stands once in its section, as a value or as a comment, under at least one line that explains it."""
    part = SERVICE_FILE.read_text().split(f"\n[{section}]\n")[1].split("\n\n")[0]

    assert len(re.findall(rf"^(?:# )?{key} = \S", part, re.MULTILINE)) == 1
    assert re.search(rf"^# .*[.]\n(?:# )?{key} = ", part, re.MULTILINE)


def test_commented_out_keys_would_be_good_values(env, write):
    """Every example in a comment of config/chase.toml can be used as it stands."""
    text = re.sub(r"^# ([a-z_0-9]+ = )", r"\1", SERVICE_FILE.read_text(), flags=re.MULTILINE)
    text = text.replace('gpus = "nvml"', 'gpus = "simulated"')

    config = load(service_file=write(text), env=env).config

    assert all(getattr(getattr(config, section), key) is not None for section, key in KEYS)


def test_the_documented_tables_are_written_from_the_code():
    """docs/configuration.md holds what ``python -m chase.config.reference tables`` prints."""
    page = (ROOT / "docs/configuration.md").read_text()

    assert page.split("<!-- settings: begin -->\n")[1].split("<!-- settings: end -->")[0] == tables()


@pytest.mark.parametrize("model", [type(section) for _, section in Config()])
def test_each_key_of_the_models_is_described(model):
    """No setting without a sentence."""
    assert all(field.description for field in model.model_fields.values())


def test_the_region_file_of_the_documentation_works(write, env):
    """The example of docs/configuration.md is a region file that loads."""
    page = (ROOT / "docs/configuration.md").read_text()
    example = page.split("```toml\n")[1].split("```")[0]

    loaded = load(region=write(example, "home.toml"), env=env)

    assert [source.provider for source in loaded.region.sources] == ["electricity_maps", "file"]
    assert loaded.config.policy.efficiency_above == 350


def test_the_mistakes_of_the_documentation_are_real(write, env):
    """The messages that docs/configuration.md shows are those that people get."""
    page = (ROOT / "docs/configuration.md").read_text()
    shown = page.split("```\n/etc/")[1].split("```")[0]
    path = write('# 1\n# 2\n# 3\n# 4\n[control]\nintervals = 5\nheartbeat_s = "10s"\n')

    with pytest.raises(Exception, match="intervals") as caught:
        load(service_file=path, env=env)

    assert str(caught.value).replace(str(path), "/etc/chase/chase.toml") == f"/etc/{shown}".strip()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"enum": ["a", "b"]}, "a, b"),
        ({"type": "number", "exclusiveMinimum": 0}, "number > 0"),
        ({"type": "integer", "minimum": 1, "maximum": 64}, "whole number ≥ 1 ≤ 64"),
        ({"anyOf": [{"type": "string", "format": "path"}, {"type": "null"}]}, "absolute path"),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, "number or text"),
    ],
)
def test_what_a_key_takes_is_said_in_words(schema, words):
    """Choices, kinds and limits are readable without knowing any schema language."""
    assert allowed(schema) == words


def test_the_reference_is_a_command():
    """Both pages can be written again by anybody."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "chase.config.reference", "toml"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    assert done.stdout == SERVICE_FILE.read_text()
