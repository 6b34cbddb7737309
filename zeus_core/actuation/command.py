"""A site's own blessed command as the setter, for those who get neither root nor `chase actuator`.

Vendors' tools exit with 0 on failure, so the exit status only counts when it is not 0; ``HeldGpu`` reads back.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from string import Formatter

from zeus_core.actuation.base import ActuationError
from zeus_core.gpus.base import Gpu, NoPermission, NotSupported, Refused, Unavailable

TARGETS = frozenset({"uuid", "index"})
VALUES = frozenset({"power_limit_w", "power_limit_mw"})
_CALL = "setter command"


class CommandSetter:
    """Runs ``argv`` with its placeholders filled in: {uuid} {index} {power_limit_w} {power_limit_mw}. No shell.

    Raises ``ActuationError`` for a command that cannot work or, as root, one that others could have written.
    """

    backend = "command"

    def __init__(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> None:
        _check_placeholders(argv)
        self._argv = tuple(argv)
        self._timeout_s = timeout_s
        self._program = find_program(argv[0])

    def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None:
        values = {
            "uuid": gpu.uuid,
            "index": str(gpu.index),
            "power_limit_w": f"{power_limit_w:.3f}".rstrip("0").rstrip("."),
            "power_limit_mw": str(round(power_limit_w * 1000)),
        }
        if objection := objection_to(self._program):
            raise NoPermission(f"setter command: {objection}", uuid=gpu.uuid, call=_CALL)
        self._run([str(self._program), *(word.format_map(values) for word in self._argv[1:])], gpu)

    def lock_sm_clocks_mhz(self, gpu: Gpu, low_mhz: int, high_mhz: int) -> None:  # noqa: ARG002  # Setter
        raise NotSupported("the setter command sets power limits only, not clocks", uuid=gpu.uuid, call=_CALL)

    def reset_sm_clocks(self, gpu: Gpu) -> None:
        raise NotSupported("the setter command sets power limits only, not clocks", uuid=gpu.uuid, call=_CALL)

    def _run(self, argv: Sequence[str], gpu: Gpu) -> None:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except PermissionError as error:
            raise NoPermission(f"{argv[0]} may not be run by uid {os.geteuid()}", uuid=gpu.uuid, call=_CALL) from error
        except OSError as error:
            raise Unavailable(f"{argv[0]} cannot be run: {error.strerror}", uuid=gpu.uuid, call=_CALL) from error
        with process:
            try:
                output, _ = process.communicate(timeout=self._timeout_s)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                text = f"{argv[0]} was killed: not done within {self._timeout_s:g} s"
                raise Unavailable(text, uuid=gpu.uuid, call=_CALL) from error
        if process.returncode != 0:
            said = _last_line(output)
            raise Refused(f"{argv[0]} exited with {process.returncode}: {said}", uuid=gpu.uuid, call=_CALL)


def find_program(name: str) -> Path:
    """The file that ``name`` runs, links resolved. Raises ``ActuationError``."""
    found = shutil.which(name)
    if found is None:
        raise ActuationError(f"setter command: {name} is not an executable file; give its absolute path")
    program = Path(found).resolve()
    if objection := objection_to(program):
        raise ActuationError(f"setter command: {objection}")
    return program


def objection_to(program: Path) -> str:
    """Why root should not run ``program``: another user could have written it, or a folder above it.

    Empty when there is nothing against it. A sticky folder passes, since nobody can replace another's file there.
    """
    if os.geteuid() != 0:
        return ""
    for path in (program, *program.parents):
        try:
            info = path.stat()
        except OSError as error:
            return f"{path}: {error.strerror}"
        sticky = stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX
        if info.st_uid != 0 or (info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky):
            return (
                f"as root, {program} is not run, since others may write {path}: "
                "give it to root and take away the write permission of group and others"
            )
    return ""


def _check_placeholders(argv: Sequence[str]) -> None:
    if not argv:
        raise ActuationError("setter command: it is empty")
    used: set[str] = set()
    for word in argv:
        used |= _placeholders(word)
    if not used & TARGETS or not used & VALUES:
        raise ActuationError(
            f"setter command: {' '.join(argv)!r} needs {{uuid}} or {{index}}, "
            "and {power_limit_w} or {power_limit_mw}, to say which GPU gets what"
        )
    if _placeholders(argv[0]):
        raise ActuationError(f"setter command: the program {argv[0]!r} cannot be a placeholder")


def _placeholders(word: str) -> set[str]:
    """The names in ``word``. Raises ``ActuationError`` for any but the four, plainly written."""
    try:
        parts = [part[1:] for part in Formatter().parse(word) if part[1] is not None]
    except ValueError as error:
        raise ActuationError(f"setter command: {word!r}: {error}; write {{{{ for a brace") from error
    for name, spec, conversion in parts:
        if name not in TARGETS | VALUES or spec or conversion:
            raise ActuationError(
                f"setter command: unknown placeholder in {word!r}; there are {{uuid}}, {{index}}, "
                "{power_limit_w} and {power_limit_mw}"
            )
    return {str(name) for name, _, _ in parts}


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"
