from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from chase.config import config_dir, region_ids

ROOT = config_dir().parent

SHOW = """
import json
from importlib.resources import files
import chase
from chase.config import config_dir, load, load_region, profile_names, profile_path, region_ids
print(json.dumps({
    "package": chase.__file__,
    "resource": files("chase").joinpath("_config", "chase.toml").is_file(),
    "dir": str(config_dir()),
    "regions": region_ids(),
    "profiles": profile_names(),
    "profile": profile_path("a40-resnet50").is_file(),
    "loads": load(env={}, region="de").region.id,
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel as pip would lay it out, built from what a checkout holds, without a network."""
    source, built, site = (tmp_path_factory.mktemp(name) for name in ("source", "built", "site"))
    for name in ("chase", "zeus_core", "providers", "config"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "_config"))
    for name in ("pyproject.toml", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source / name)
    (source / "README.md").write_text("# carbon-chase\n")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    return site


def _run(installed, code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=installed, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_wheel_holds_the_configuration(installed):
    """Every file of config/ is in the wheel, byte for byte."""
    for path in (ROOT / "config").rglob("*.toml"):
        inside = installed / "chase/_config" / path.relative_to(ROOT / "config")
        assert inside.read_bytes() == path.read_bytes()


def test_an_installed_package_finds_its_configuration(installed):
    """From the installed wheel, away from any checkout, regions and profiles are found by importlib.resources."""
    found = json.loads(_run(installed, SHOW))

    assert found["package"] == str(installed / "chase/__init__.py")
    assert found["resource"]
    assert found["dir"] == str(installed / "chase/_config")
    assert found["regions"] == region_ids()
    assert "a40-resnet50" in found["profiles"]
    assert found["profile"]
    assert found["loads"] == "de"


def test_the_wheel_carries_the_licences(installed):
    """LICENSE and NOTICE travel with the figures."""
    for name in ("LICENSE", "NOTICE"):
        inside = next(installed.glob(f"carbon_chase-*.dist-info/licenses/{name}"))
        assert inside.read_bytes() == (ROOT / name).read_bytes()
