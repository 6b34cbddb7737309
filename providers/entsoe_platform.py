"""How ENTSO-E's Transparency Platform is asked, and what it answers with when it has nothing or does not want to.

Having nothing is an Acknowledgement document, under 200 or under 400, and so is a request that asks for too much or
makes no sense; its code is 999 for each, so its text decides. More than 400 requests a minute are a ban of ten minutes.
While it moved in 2026 it answered 503, and 404 for pages that were there again later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from providers.base import AuthError, BadRequest, NoData, ProviderError, RateLimited, Transient
from providers.entsoe_zones import Area, area
from providers.options import web_address
from providers.redact import Redactor
from providers.xml import parse, text_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from providers.redact import Secret
    from providers.reply import Reply
    from providers.session import Session

BASE_URL = "https://web-api.tp.entsoe.eu/api"
NAME = "entsoe"
_BAN_S = 600.0
_MOVING = re.compile(r"page not found|temporarily unavailable|maintenance", re.IGNORECASE)
_WRONG = re.compile(r"exceeds? (the )?allowed limit|dependency tables|amount of requested data", re.IGNORECASE)
_TAGS = re.compile(r"<(style|script|head)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_LONGEST_WORDS = 200
_LONGEST_PAGE = 4000


class Platform:
    """One zone of it. ``base_url`` may leave the path out; ``root`` is where is asked."""

    def __init__(self, zone: str, token: Secret | None, base_url: str | None, session: Session) -> None:
        self.area: Area = area(zone)
        self.label = f"{NAME} {zone}"
        self._token, self._session = token, session
        self._root = web_address(NAME, base_url, BASE_URL)
        if not urlsplit(self._root).path:
            self._root += "/api"
        self._redactor = Redactor()
        if token:
            self._redactor.protect(token)

    def ask(
        self, params: Mapping[str, str], start: datetime, end: datetime, *, longest: timedelta
    ) -> Iterator[Element]:
        """The replies for ``[start, end)``, in full hours, no request longer than ``longest``.

        A piece without data is left out; ``NoData`` if all of them are.
        """
        if not self._token:
            raise AuthError(f"{self.label} needs a token: set the environment variable that token_env names")
        answered = False
        nothing: NoData | None = None
        for first, last in _pieces(*self.area.clip(_hour(start), _hour(end, up=True)), longest):
            span = {"periodStart": f"{first:%Y%m%d%H%M}", "periodEnd": f"{last:%Y%m%d%H%M}"}
            query: dict[str, str | Secret] = {"securityToken": self._token, **params, **span}
            try:
                root = self._session.get_xml(self._root, params=query, judge=self._judge)
            except NoData as error:
                nothing = error
                continue
            answered = True
            yield root
        if nothing is not None and not answered:
            raise nothing

    def _judge(self, reply: Reply) -> ProviderError | None:
        code, words = self._words(reply)
        said = f"{self.label}: {reply.status} {words}".rstrip()
        if reply.status == 401 or (reply.status in {400, 403} and "security token" in words.lower()):  # noqa: PLR2004
            return AuthError(f"{said}: check the token; a new one may take days until it works")
        if reply.status == 429:  # noqa: PLR2004 - HTTP's own numbers are its names
            return RateLimited(said, retry_after_s=reply.retry_after_s or _BAN_S)
        if _MOVING.search(words) and (code or reply.status == 404):  # noqa: PLR2004
            return Transient(f"{said}: the platform is down or moving, which no token mends")
        if code:
            return _acknowledged(said, code, words)
        if reply.status == 400 and words:  # noqa: PLR2004
            return BadRequest(said)
        return None

    def _words(self, reply: Reply) -> tuple[str, str]:
        """The code of an Acknowledgement, empty where it is none, and the reply's own words on one line."""
        code, words = _reason(reply) or ("", "")
        if not code and reply.status >= 400:  # noqa: PLR2004
            words = _TAGS.sub(" ", reply.text[:_LONGEST_PAGE]) or reply.message
        return code, self._redactor.clean(" ".join(words.split()))[:_LONGEST_WORDS]


def _reason(reply: Reply) -> tuple[str, str] | None:
    """Code and text of an Acknowledgement."""
    if "Acknowledgement_MarketDocument" not in reply.text[:_LONGEST_PAGE]:
        return None
    try:
        root = parse(reply.text, reply.url)
    except ProviderError:
        return None
    if root.tag != "Acknowledgement_MarketDocument":
        return None
    return text_of(root, "Reason/code") or "no code", text_of(root, "Reason/text")


def _acknowledged(said: str, code: str, words: str) -> ProviderError:
    if _WRONG.search(words):
        return BadRequest(said)
    if "no matching data" in words.lower() or code == "999":
        return NoData(said)
    return BadRequest(f"{said} (code {code})")


def _hour(at: datetime, *, up: bool = False) -> datetime:
    floor = at.replace(minute=0, second=0, microsecond=0)
    return floor + timedelta(hours=1) if up and floor < at else floor


def _pieces(start: datetime, end: datetime, longest: timedelta) -> Iterator[tuple[datetime, datetime]]:
    while start < end:
        piece = min(start + longest, end)
        yield start, piece
        start = piece
