"""GET and nothing else: who may ask, how often, for what, and the answer with its tag."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from chase.share import document
from chase.share.callers import Callers
from chase.share.document import Shared

LONGEST = timedelta(days=32)
_LONGEST_TEXT = 200
Tell = Callable[[Shared, datetime, datetime], dict[str, Any]]


def create_app(shared: Sequence[Shared], *, token: str | None, callers: Callers) -> ASGIApp:
    """``token`` is what callers must send, None where only this machine can reach us."""

    def endpoint(tell: Tell) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            found = next((one for one in shared if one.is_at(request.path_params["place"])), None)
            if found is None:
                known = ", ".join(one.region for one in shared)
                raise HTTPException(404, f"there is no such region or zone here; there is {known}")
            return _tagged(document.encoded(tell(found, *_span(request))), request.headers)

        return answer

    routes = [
        Route("/v1/grid/{place}/intensity", endpoint(document.intensity)),
        Route("/v1/grid/{place}/prices", endpoint(document.prices)),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused, Exception: _failed})
    app.router.redirect_slashes = False  # the address to go to would be made of what the caller says is our name
    return _Gate(app, token, callers)


class _Gate:
    """Before anything is looked up: the pace of the caller, the method, the size, the token."""

    def __init__(self, app: ASGIApp, token: str | None, callers: Callers) -> None:
        self._app = app
        self._digest = None if token is None else _digest(token)
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        wait_s = self._callers.wait_s((scope.get("client") or ("",))[0])
        if wait_s > 0:
            return _error(429, "too many requests; ask less often", Retry_After=str(math.ceil(wait_s)))
        if scope["method"] != "GET":
            return _error(405, "this only tells; ask with GET", Allow="GET")
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return _error(413, "a GET has no body here")
        return self._token_refusal(headers.get("authorization", ""))

    def _token_refusal(self, given: str) -> Response | None:
        """Compared by digests of one length, in a time that tells nothing of how much was right."""
        if self._digest is None:
            return None
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return _error(401, "send the token: Authorization: Bearer ...", WWW_Authenticate="Bearer")
        if not hmac.compare_digest(_digest(token.strip()), self._digest):
            return _error(403, "this token is not the one of this node")
        return None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _tagged(body: bytes, headers: Mapping[str, str]) -> Response:
    """304 where the caller has this already."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    common = {"ETag": tag, "Cache-Control": "private, no-cache", "Connection": "close"}
    known = {given.strip().removeprefix("W/") for given in headers.get("if-none-match", "").split(",")}
    if known & {tag, "*"}:
        return Response(status_code=304, headers=common)
    return Response(body, media_type="application/json", headers=common)


def _span(request: Request) -> tuple[datetime, datetime]:
    start, end = (_time(name, request.query_params.get(name, "")) for name in ("start", "end"))
    if not timedelta(0) < end - start <= LONGEST:
        raise HTTPException(400, f"start must be before end, and at most {LONGEST.days} days")
    return start, end


def _time(name: str, text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text[:_LONGEST_TEXT])
        if at.utcoffset() is not None:
            return at.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise HTTPException(400, f"{name} must be a time with its UTC offset, such as 2026-01-08T14:00Z")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  registered for these alone
    return _error(error.status_code, error.detail)


async def _failed(_: Request, __: Exception) -> Response:
    return _error(500, "this node cannot tell just now")


def _error(status: int, message: str, **headers: str) -> Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse({"error": {"code": str(status), "message": message}}, status, {**given, "Connection": "close"})
