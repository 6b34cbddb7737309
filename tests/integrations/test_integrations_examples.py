"""The examples as their users run them, and what an extra that is missing says."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*argv: str) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *argv], env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_accelerate_on_two_ranks(service):
    """One job that has seen each sample once an epoch, whatever filled up the last batch."""
    if importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed")
    example = str(ROOT / "examples/accelerate_train.py")
    run("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", example)
    (ended,) = service.ended.values()
    assert (ended["units_done"], ended["total_units"], ended["reason"]) == (6000.0, 6000.0, "done")


@pytest.mark.parametrize("library", ["transformers", "lightning"])
def test_a_library_that_is_missing(library):
    """Is named, with what installs it; and nothing else of ours needs it."""
    module = {"transformers": "huggingface", "lightning": "lightning"}[library]
    script = (
        "import sys\n"
        f"sys.modules['{library}'] = None\n"
        "import chase.integrations.loop\n"
        f"try:\n    import chase.integrations.{module}\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert f"chase.integrations.{module} needs {library}" in done.stdout
    assert "pip install" in done.stdout


@pytest.mark.parametrize("name", ["accelerate_train.py", "deepspeed_train.py"])
def test_an_example_says_how_it_is_run(name):
    """In its docstring, by its own name."""
    tree = ast.parse((ROOT / "examples" / name).read_text())
    assert f"examples/{name}" in (ast.get_docstring(tree) or "")
