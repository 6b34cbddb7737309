"""What client and server say to each other: one JSON object a line, over a Unix socket.

The server speaks first: ``{"hello": {"version", "lease_s", "backend", "pid"}}``, or an error and the end. Then each
request gets one reply, in order:

    {"op": "describe"}                                                             {"ok": [GpuState, ...]}
    {"op": "apply", "wishes": {UUID: {"power_limit_w": W, "sm_clock_mhz": MHz}}}   {"ok": [Applied, ...]}
    {"op": "restore", "uuids": [UUID, ...] or null}                                {"ok": [Applied, ...]}
    {"op": "keepalive"}                                                            {"ok": []}

or ``{"error": {"code", "message", "pid"}}``. Whatever is not exactly this is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from zeus_core.actuation.base import ActuationError, Applied, GpuState, Status, Wish

VERSION = 1
MAX_BYTES = 65536

_FIELDS: Mapping[str, frozenset[str]] = {
    "describe": frozenset({"op"}),
    "apply": frozenset({"op", "wishes"}),
    "restore": frozenset({"op", "uuids"}),
    "keepalive": frozenset({"op"}),
}
_HUGE = 1_000_000
_LEVERS = frozenset({"power_limit_w", "sm_clock_mhz"})


class ProtocolError(ActuationError):
    """A message that is refused. After a ``broken`` one the place in the stream is lost, so it ends there."""

    def __init__(self, message: str, *, broken: bool = False) -> None:
        super().__init__(message)
        self.broken = broken

    @property
    def code(self) -> str:
        return "broken" if self.broken else "refused"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that has been checked. ``uuids`` None means all."""

    op: str
    wishes: Mapping[str, Wish] = field(default_factory=dict)
    uuids: tuple[str, ...] | None = None


def encode(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def encode_request(request: Request) -> bytes:
    message: dict[str, Any] = {"op": request.op}
    if request.op == "apply":
        message["wishes"] = {uuid: asdict(wish) for uuid, wish in request.wishes.items()}
    if request.op == "restore":
        message["uuids"] = None if request.uuids is None else list(request.uuids)
    return encode(message)


def encode_ok(results: Iterable[Applied | GpuState]) -> bytes:
    return encode({"ok": [asdict(result) for result in results]})


def encode_error(code: str, message: str, pid: int | None = None) -> bytes:
    return encode({"error": {"code": code, "message": message, "pid": pid}})


def decode(line: bytes) -> dict[str, Any]:
    """One line as an object. Raises ``ProtocolError``, broken, for anything else."""
    if len(line) > MAX_BYTES:
        raise ProtocolError(f"a message has at most {MAX_BYTES} bytes", broken=True)
    try:
        message = json.loads(line, object_pairs_hook=_no_twins, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a message is one JSON object on one line: {error}", broken=True) from error
    if not isinstance(message, dict):
        raise ProtocolError("a message is one JSON object on one line", broken=True)
    return message


def decode_request(line: bytes) -> Request:
    """Raises ``ProtocolError``."""
    message = decode(line)
    op = message.get("op")
    if not isinstance(op, str) or op not in _FIELDS:
        raise ProtocolError(f"unknown op {str(op)[:40]!r}; there are {', '.join(_FIELDS)}")
    if message.keys() != _FIELDS[op]:
        fields = sorted(str(name)[:40] for name in message.keys() ^ _FIELDS[op])
        raise ProtocolError(f"{op} has the fields {', '.join(sorted(_FIELDS[op]))}; missing or unknown: {fields}")
    if op == "apply":
        return Request(op, wishes=_wishes(message["wishes"]))
    if op == "restore":
        return Request(op, uuids=_uuids(message["uuids"]))
    return Request(op)


def applied_from(data: Mapping[str, Any]) -> Applied:
    """Raises ``ValueError``, ``KeyError`` or ``TypeError``."""
    return Applied(**{**data, "status": Status(data["status"])})


def state_from(data: Mapping[str, Any]) -> GpuState:
    return GpuState(**data)


def _wishes(data: Any) -> dict[str, Wish]:
    if not isinstance(data, dict):
        raise ProtocolError("wishes is an object: a UUID, and for it power_limit_w and sm_clock_mhz")
    return {uuid: _wish(uuid, wish) for uuid, wish in data.items()}


def _wish(uuid: str, data: Any) -> Wish:
    if not isinstance(data, dict) or not data.keys() <= _LEVERS:
        raise ProtocolError(f"the wish for {uuid[:96]} is an object with {' and '.join(sorted(_LEVERS))}, no more")
    limit_w, clock_mhz = data.get("power_limit_w"), data.get("sm_clock_mhz")
    if limit_w is not None and not _is_number(limit_w):
        raise ProtocolError(f"power_limit_w of {uuid[:96]} is a finite number of watts or null")
    if clock_mhz is not None and not (type(clock_mhz) is int and 0 < clock_mhz < _HUGE):
        raise ProtocolError(f"sm_clock_mhz of {uuid[:96]} is a whole number of megahertz or null")
    return Wish(None if limit_w is None else float(limit_w), clock_mhz)


def _is_number(value: Any) -> bool:
    """A boolean is none, and neither is what no float can hold or what is not finite."""
    return type(value) in {int, float} and abs(value) < _HUGE


def _uuids(data: Any) -> tuple[str, ...] | None:
    if data is None:
        return None
    if not isinstance(data, list) or not all(isinstance(uuid, str) for uuid in data):
        raise ProtocolError("uuids is a list of UUIDs, or null for all")
    return tuple(data)


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")
