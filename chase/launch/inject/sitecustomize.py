"""Counts the optimizer steps of a PyTorch training under ``chase exec``, without a change to its code.

The launcher puts this file's folder in front of PYTHONPATH: each Python of the job runs it at its start, whichever it
is. So it needs nothing but the standard library, of Python 3.8 on, and whatever goes wrong here is no concern of the
training's. A ``.pth`` file would have to be written into somebody's environment, and a wrapper around the script would
miss what ``torchrun`` starts.

It imports no torch: it waits until the training does, and asks for torch's own hook after each optimizer step, of any
optimizer. Of several the one that steps most counts: generator and discriminator step in turn, and two steps are one
of the training. The step costs an addition; a thread writes the count to a file once a second. Only local rank 0
counts. A process that counts by itself (``chase.client.Job``) silences this. CHASE_INSTRUMENT=0 turns it off.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself takes longer than all of this
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_WATCHED = "torch.optim.optimizer"
_EVERY_S = 1.0


class _Steps:
    """What this process has counted, and the file that says so."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.cells: dict[int, list[int]] = {}  # by optimizer
        self.pid = os.getpid()
        self.path: str | None = None
        self.thread: Any = None
        self.silent = False
        self.written = 0

    def hook(self, optimizer: object, *_: object) -> None:
        cell = self.cells.get(id(optimizer))
        if cell is None:
            cell = self.cells.setdefault(id(optimizer), [0])
            self.begin()
        cell[0] += 1

    def begin(self) -> None:
        """Also in a forked child, which has no thread: it counts for nobody."""
        if self.thread is None and not self.silent and os.getpid() == self.pid:
            import atexit
            import threading

            self.thread = threading.Thread(target=self.run, name="chase-steps", daemon=True)
            self.thread.start()
            atexit.register(self.write)

    def run(self) -> None:
        import time

        while not self.silent:
            self.write()
            time.sleep(_EVERY_S)

    def write(self) -> None:
        """All or nothing for whoever reads; a launcher that is gone has taken its folder along."""
        try:
            count = max(cell[0] for cell in tuple(self.cells.values()))
            if self.silent or count == self.written or os.getpid() != self.pid:
                return
            import json
            import time

            if self.path is None:
                name = "%020d-%d.steps.json" % (time.monotonic_ns(), self.pid)
                self.path = os.path.join(self.directory, name)
            beside = os.path.join(self.directory, "." + os.path.basename(self.path))
            with open(beside, "w") as file:
                json.dump({"units": "steps", "units_done": count}, file)
            os.replace(beside, self.path)
            self.written = count
        except Exception:
            return

    def silence(self) -> None:
        """This process counts by itself from now on."""
        self.silent = True
        if self.path is not None:
            try:
                os.remove(self.path)
            except OSError:
                pass


class _Watch:
    """In front of all finders until the module is imported, and no longer."""

    def __init__(self, steps: _Steps) -> None:
        self.steps = steps

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _WATCHED:
            return None
        try:
            sys.meta_path.remove(self)
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find is not None else None
                if spec is not None:
                    self.wrap(spec.loader)
                    return spec
        except Exception:
            return None
        return None

    def wrap(self, loader: Any) -> None:
        execute, steps = loader.exec_module, self.steps

        def exec_module(module: Any) -> None:
            execute(module)
            try:
                module.register_optimizer_step_post_hook(steps.hook)
            except Exception:
                return

        loader.exec_module = exec_module


def _counts() -> bool:
    if os.environ.get("CHASE_INSTRUMENT", "1") == "0" or not os.environ.get("CHASE_JOB_DIR"):
        return False
    ranks = [os.environ.get(name, "") for name in _RANKS]
    return next((int(rank) for rank in ranks if rank.isdigit()), 0) == 0


def _begin() -> None:
    if _counts():
        steps = _Steps(os.environ["CHASE_JOB_DIR"])
        sys.meta_path.insert(0, _Watch(steps))
        sys.modules["_chase_steps"] = steps  # type: ignore[assignment]  # where a Job of this process finds what to silence


def _go_on() -> None:
    """To the sitecustomize that would have been run without this one. What it raises is its own affair."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if "sitecustomize" not in sys.modules and ours is not None:
            sys.modules["sitecustomize"] = ours


try:
    _begin()
except Exception:
    sys.modules.pop("_chase_steps", None)
_go_on()
