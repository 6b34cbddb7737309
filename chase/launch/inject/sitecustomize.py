"""Counts the optimizer steps of a PyTorch training under ``chase exec``, without a change to its code.

The launcher puts this file's folder in front of PYTHONPATH: each Python of the job runs it at its start, whichever it
is. So it needs nothing but the standard library, of Python 3.8 on, and whatever goes wrong here is no concern of the
training's. A ``.pth`` file would have to be written into somebody's environment, and a wrapper around the script would
miss what ``torchrun`` starts.

It imports no torch: it waits until the training does, and asks for torch's own hook after each optimizer step, of any
optimizer. Of several the one that steps most counts: generator and discriminator step in turn, and two steps are one
of the training. The step costs an addition; a thread writes the count to a file once a second. Only local rank 0
counts; ranks that nothing numbers are told apart by the launcher. A process that counts by itself
(``chase.client.Job``) silences this. CHASE_INSTRUMENT=0 turns it off.
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
_UNITS = "optimizer steps"  # a Job's "steps" may be other ones, and begin anew
_EVERY_S = 1.0
_PATIENCE = 10  # looks at which others stepped and the one that leads did not


class _Lead:
    """Of several optimizers the one that steps most; once it steps no more, the next goes on from there.

    A fold, a trial or a phase of a training has an optimizer of its own, and is no pause of the one before.
    """

    def __init__(self) -> None:
        self.before = 0  # steps of those that led before
        self.since: dict[int, int] = {}  # by optimizer: steps beside those
        self.best = 0
        self.total = 0
        self.seen: dict[int, int] = {}  # all steps, when the one that leads last made one
        self.missed = 0

    def count(self, steps: dict[int, int]) -> int:
        """What the training has done by now, from the steps of each optimizer; to be asked once in a while."""
        total = sum(steps.values())
        self.missed += total > self.total
        self.total = total
        if self.missed > _PATIENCE and self.most(steps) == self.best:
            self.before, self.since, self.best = self.before + self.best, self.seen, 0
        if self.most(steps) > self.best:
            self.best, self.seen, self.missed = self.most(steps), steps, 0
        return self.before + self.best

    def most(self, steps: dict[int, int]) -> int:
        return max(count - self.since.get(optimizer, 0) for optimizer, count in steps.items())


class _Steps:
    """What this process has counted, and the file that says so."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.cells: dict[int, list[int]] = {}  # by optimizer
        self.lead = _Lead()
        self.pid = os.getpid()
        self.path: str | None = None
        self.lock: Any = None
        self.began_s = 0.0
        self.silent = False
        self.written = 0

    def hook(self, optimizer: object, *_: object) -> None:
        cell = self.cells.get(id(optimizer))
        if cell is None:
            cell = self.cells.setdefault(id(optimizer), [0])
            self.begin()
        cell[0] += 1

    hook._torchdynamo_disable = True  # type: ignore[attr-defined]  # noqa: SLF001  # else a compiled step warns of it

    def begin(self) -> None:
        """Also in a forked child, which has no thread: it counts for nobody."""
        if self.lock is not None or self.silent or os.getpid() != self.pid:
            return
        try:
            import atexit
            import threading
            import time

            self.lock, self.began_s = threading.Lock(), time.monotonic()
            atexit.register(self.write)
            threading.Thread(target=self.run, name="chase-steps", daemon=True).start()
        except Exception:  # no more threads: then at the end
            return

    def run(self) -> None:
        import time

        while not self.silent:
            self.write()
            time.sleep(_EVERY_S)

    def write(self) -> None:
        """What is new, if anything. A launcher that is gone has taken its folder along."""
        if os.getpid() != self.pid:
            return
        try:
            with self.lock:
                count = self.lead.count({optimizer: cell[0] for optimizer, cell in self.cells.copy().items()})
                if not self.silent and count != self.written:
                    self.deposit(count)
                    self.written = count
        except Exception:
            return

    def deposit(self, count: int) -> None:
        """All or nothing for whoever reads."""
        import json
        import time

        if self.path is None:
            name = "%020d-%d.steps.json" % (time.monotonic_ns(), self.pid)
            self.path = os.path.join(self.directory, name)
        beside = os.path.join(self.directory, "." + os.path.basename(self.path))
        with open(beside, "w") as file:
            times = {"from_s": self.began_s, "until_s": time.monotonic()}
            json.dump(dict(times, units=_UNITS, units_done=count), file)
        os.replace(beside, self.path)

    def silence(self) -> None:
        """This process counts by itself from now on. A forked child has neither lock nor file of its own."""
        self.silent = True
        if os.getpid() != self.pid:
            return
        try:
            with self.lock:
                os.remove(self.path or "")
        except Exception:
            return


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
