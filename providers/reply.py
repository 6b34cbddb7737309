"""What a server's answer means: status, content type and body together, since vendors abuse each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from providers.base import AuthError, BadRequest, NoData, ProviderError, RateLimited, Transient
from providers.pace import retry_after_s

if TYPE_CHECKING:
    from providers.transport import RawReply

_LONGEST_MESSAGE = 200
_LONGEST_BARE = 4096
_MESSAGE_KEYS = ("error", "message", "detail", "title")
_PASSING = frozenset({408, 425})
_PAGE = re.compile(r"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)


class Body(StrEnum):
    JSON = "JSON"
    EMPTY = "an empty body"
    HTML = "an HTML page"
    TEXT = "text"
    OTHER = "no JSON"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as a source judges it.

    ``status`` is what was meant: an error body under a 200 keeps its own code, or 502 if it names none. ``data`` is
    None unless ``body`` is JSON. ``text`` is the body where text was wanted.
    ``message`` is the source's own words on one line. ``location`` is where a redirect
    pointed that was not followed.
    """

    url: str
    status: int
    body: Body
    data: Any = field(repr=False)
    message: str
    location: str
    retry_after_s: float | None
    text: str = field(default="", repr=False)
    etag: str = ""


Judge = Callable[[Reply], ProviderError | None]


def read(raw: RawReply, *, now: datetime, clean: Callable[[str], str], wanted: Body = Body.JSON) -> Reply:
    """``wanted`` is JSON or TEXT; XML and CSV are text. ``clean`` masks secrets: servers echo what they were sent."""
    body, data = _parse(raw.body, raw.content_type)
    text = ""
    if wanted is Body.TEXT and body in {Body.HTML, Body.OTHER}:
        text = raw.body.decode("utf-8", errors="replace").removeprefix("\ufeff")
        body = Body.HTML if _PAGE.match(text) else Body.TEXT
    return Reply(
        url=raw.url,
        status=_status_meant(raw.status, data),
        body=body,
        data=data,
        message=clean(_message(data) or _bare_message(raw, body))[:_LONGEST_MESSAGE],
        location=raw.location,
        retry_after_s=retry_after_s(raw.retry_after, now),
        text=text,
        etag=raw.etag,
    )


def judge_by_status(reply: Reply, wanted: Body = Body.JSON) -> ProviderError | None:
    """What a status means where the source has no meaning of its own for it; None for data, or for a 304."""
    said = f"{reply.url} answered {reply.status}" + (f": {reply.message}" if reply.message else "")
    if reply.status == 204:  # noqa: PLR2004 - HTTP's own numbers are its names
        return NoData(said)
    if reply.status < 300 or reply.status == 304:  # noqa: PLR2004
        return None if reply.body is wanted or reply.status == 304 else Transient(f"{said} with {reply.body}")  # noqa: PLR2004
    if reply.location:
        return BadRequest(
            f"{said}: it moved to {reply.location}, which was not followed; correct base_url if it is right"
        )
    if reply.status == 429:  # noqa: PLR2004
        return RateLimited(said, retry_after_s=reply.retry_after_s)
    if reply.status in _PASSING or reply.status >= 500 or reply.body is Body.HTML:  # noqa: PLR2004
        return Transient(f"{said} with {reply.body}" if reply.body is not Body.JSON else said)
    return AuthError(said) if reply.status in {401, 403} else BadRequest(said)


def _parse(body: bytes, content_type: str) -> tuple[Body, Any]:
    text = body.strip()
    if not text:
        return Body.EMPTY, None
    try:
        return Body.JSON, json.loads(text)
    except (ValueError, RecursionError):
        page = text.startswith(b"<") or "html" in content_type.lower()
        return (Body.HTML if page else Body.OTHER), None


def _status_meant(status: int, data: Any) -> int:
    if status != 200 or not isinstance(data, dict):  # noqa: PLR2004
        return status
    error = data.get("error")
    if not error and data.get("status") != "error":
        return status
    code = re.match(r"[45]\d\d\b", str(error.get("code", ""))) if isinstance(error, dict) else None
    return int(code.group()) if code else 502


def _message(data: Any) -> str:
    """``error``, ``message`` and their like from an error body, or from the object under ``error``, on one line."""
    if not isinstance(data, dict):
        return ""
    nested = data.get("error")
    fields = nested if isinstance(nested, dict) else data
    said = [fields[key] for key in _MESSAGE_KEYS if isinstance(fields.get(key), str)]
    return " ".join(" ".join(said).split())


def _bare_message(raw: RawReply, body: Body) -> str:
    """Some say what is wrong in a line of text, or in a JSON text, under a status of 400 and above."""
    if raw.status < 400 or body in {Body.HTML, Body.EMPTY} or len(raw.body) > _LONGEST_BARE:  # noqa: PLR2004 - HTTP's
        return ""
    text = raw.body.decode("utf-8", errors="replace")
    return "" if text.lstrip().startswith(("{", "[")) else " ".join(text.split()).strip('"')
