"""HTTP and JSON on the service's Unix socket. Who calls is known by the kernel's word alone (SO_PEERCRED).

The endpoints only translate: what a caller may do is decided in ``jobs`` and ``controller``.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from chase.client.messages import Said
from chase.config import Config
from chase.controller import Controller
from chase.jobs import MAX_BATCH_SIZES, MAX_EPOCHS, Job, JobRefused, Peer, Registration
from chase.protocol import Impatient
from chase.status import hold_dict, job_dict, recurrence_dict, status_dict

MAX_BODY = 64 * 1024
_UCRED = struct.Struct("3i")  # pid, uid, gid


def _printable(text: str) -> str:
    """What callers say is shown on other people's terminals, so nothing in it may move a cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]


class PeerProtocol(Impatient):
    """uvicorn's HTTP/1.1 over a Unix socket, with the peer's uid and pid as the ASGI client."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        credentials = transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        pid, uid, _ = _UCRED.unpack(credentials)
        self.client = (str(uid), pid)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class NewJob(_Body):
    """A registration. ``pid`` is taken for a courtesy only: the kernel says who calls."""

    id: str
    name: Name
    gpus: Annotated[list[Name], Field(max_length=64)]
    pid: int | None = None
    units: Name = "steps"
    total_units: FiniteFloat | None = None
    units_done: FiniteFloat = 0.0
    region: Name | None = None
    policy: dict[str, Any] = {}
    profile: Name | None = None
    batch_size: int | None = None
    batch_sizes: Annotated[tuple[int, ...], Field(max_length=MAX_BATCH_SIZES)] = ()
    joint: Literal["", "leads", "follows"] = ""
    recurring: dict[str, Any] | None = None


class _Said(_Body):
    """What a report and an end say besides."""

    batch_size: int | None = None
    impossible: Annotated[tuple[int, ...], Field(max_length=MAX_BATCH_SIZES)] = ()
    epochs: Annotated[int, Field(ge=1, le=MAX_EPOCHS)] | None = None
    metric: FiniteFloat | None = None
    reached: bool | None = None
    agreed_w: Annotated[FiniteFloat, Field(ge=1, le=1e6)] | None = None
    global_batch: int | None = None

    @property
    def said(self) -> Said:
        return Said(**{f.name: getattr(self, f.name) for f in fields(Said)})


class Report(_Said):
    units_done: FiniteFloat


class End(_Said):
    reason: Annotated[str, Field(max_length=500), AfterValidator(_printable)] = "ended"
    units_done: FiniteFloat = 0.0


class NewHold(_Body):
    mode: Literal["speed-first", "efficiency-first", "off"]
    until: datetime | None = None
    job: Name | None = None


class EndHold(_Body):
    job: Name | None = None


class Pin(_Body):
    name: Name
    batch_size: int | None = None


class Reset(_Body):
    name: Name


def peer_of(request: Request) -> Peer:
    """The caller. A transport that does not say who calls is refused."""
    client = request.client
    if client is None or not client.host.isdigit():
        raise JobRefused(403, "unknown-peer", "the kernel does not say who calls: use the Unix socket")
    return Peer(uid=int(client.host), pid=client.port)


Caller = Annotated[Peer, Depends(peer_of)]


def create_app(controller: Controller, config: Callable[[], Config], facts: Callable[[], dict[str, Any]]) -> FastAPI:
    """The API over one controller; ``facts`` is what status says of the service itself."""
    app = FastAPI(title="chase", openapi_url=None, docs_url=None, redoc_url=None)

    @app.post("/v1/jobs")
    def register(body: NewJob, peer: Caller) -> dict[str, Any]:
        wanted = Registration(**{**body.model_dump(exclude={"pid"}), "gpus": tuple(body.gpus)})
        job = controller.register(wanted, peer)
        return {"id": job.id, "report_s": config().jobs.report_s, "clock_rate": facts()["clock_rate"], **_told(job)}

    @app.post("/v1/jobs/{job_id}/report")
    def report(job_id: str, body: Report, peer: Caller) -> dict[str, Any]:
        return _told(controller.report(job_id, peer, body.units_done, body.said))

    @app.post("/v1/jobs/{job_id}/end")
    def end(job_id: str, body: End, peer: Caller) -> dict[str, Any]:
        summary, decisions, units = controller.end(job_id, peer, body.reason, body.units_done, body.said)
        return {"summary": {**summary.to_dict(), "decisions": decisions, "counted_in": units}}

    @app.get("/v1/status")
    def status() -> dict[str, Any]:
        return status_dict(controller, facts())

    @app.get("/v1/jobs")
    def jobs() -> dict[str, Any]:
        return {"jobs": [job_dict(job) for job in controller.jobs]}

    @app.post("/v1/holds")
    def hold(body: NewHold, peer: Caller) -> dict[str, Any]:
        return {"hold": hold_dict(controller.hold(body.mode, peer, until=_utc(body.until), job_id=body.job))}

    @app.delete("/v1/holds")
    def unhold(body: EndHold, peer: Caller) -> dict[str, Any]:
        return {"ended": controller.unhold(peer, job_id=body.job)}

    def _told(job: Job) -> dict[str, Any]:
        control, _ = controller.control
        wished = job.own if job.joint else job.setting  # the ranks are yet to agree on it
        return {
            "setting": wished.to_dict() if wished else {},
            "mode": job.mode or "off",
            "control": control,
            "observed": control == "observe",
            "lease_s": config().jobs.lease_s,
            "reason": job.reason,
            "intensity_g_per_kwh": job.intensity_g,
            **controller.trial(job),
        }

    _add_recurrences(app, controller)
    _add_errors(app)
    return app


def _add_recurrences(app: FastAPI, controller: Controller) -> None:
    @app.post("/v1/recurrences/pin")
    def pin(body: Pin, peer: Caller) -> dict[str, Any]:
        return {"recurrence": recurrence_dict(controller.pin(body.name, peer, body.batch_size))}

    @app.post("/v1/recurrences/reset")
    def reset(body: Reset, peer: Caller) -> dict[str, Any]:
        return {"recurrence": recurrence_dict(controller.reset(body.name, peer))}


def _add_errors(app: FastAPI) -> None:
    app.add_middleware(_Limited)

    @app.exception_handler(JobRefused)
    async def refused(_: Request, error: JobRefused) -> Response:
        return _error(error.status, error.code, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        texts = [f"{'.'.join(map(str, item['loc'][1:])) or 'body'}: {item['msg']}" for item in error.errors()]
        return _error(422, "bad-body", "; ".join(texts))


class _Limited:
    """Refuses a body that is too large, or that does not say how large it is, before a byte of it is read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdigit() or int(length) > MAX_BODY:
            text = f"a body has a Content-Length of at most {MAX_BODY} bytes"
            await _error(413, "too-large", text)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _error(status: int, code: str, message: str) -> Response:
    shown = message.encode("utf-8", "replace").decode()  # half a surrogate pair is valid JSON and no text
    return JSONResponse({"error": {"code": code, "message": shown}}, status_code=status)


def _utc(until: datetime | None) -> datetime | None:
    if until is not None and until.tzinfo is None:
        raise JobRefused(422, "naive-time", f"until needs a UTC offset, not {until.isoformat()}")
    try:
        return until.astimezone(UTC) if until else None
    except OverflowError as error:
        raise JobRefused(422, "bad-time", f"until is out of range: {until!r}") from error
