"""Electricity Maps as a server: how it is asked, and what its refusals mean.

401 stands for a bad token, for a zone or endpoint outside the plan, and has been seen for too many requests. The body
often tells, and where it does not, ``/zones`` does: to a good token it lists what its plan opens for each zone. It has
promised more than was kept, so it explains a refusal, and never says that something will work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from providers.base import AuthError, BadRequest, NoData, PlanError, ProviderError, RateLimited
from providers.options import Options, did_you_mean, web_address
from providers.reading import record
from providers.reply import Body, Reply

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

SOURCE = "electricity_maps"
BASE_URL = "https://api.electricitymaps.com"
_KEPT_S, _MISTRUSTED_S = 86400.0, 3600.0


class Api:
    """One zone of it, by options ``version`` (v4, v3) and ``header``."""

    def __init__(
        self, zone: str, given: Options, *, token: Secret | None, base_url: str | None, session: Session
    ) -> None:
        version = given.text("version", "v4", choices=("v4", "v3"))
        self._header = given.text("header", "auth-token")
        self._root = _rooted(web_address(SOURCE, base_url, BASE_URL), version)
        self._zone, self._token, self._session = zone, token, session
        self._accepted = False  # the token has worked since it was last refused
        self._doubted: set[str] = set()  # what was refused without a reason, and was taken for too many requests
        self._listed: tuple[frozenset[str] | None, float] | None = None

    @property
    def _label(self) -> str:
        return f"{SOURCE}, zone {self._zone}"

    @property
    def is_v4(self) -> bool:
        return self._root.endswith("v4")

    def ask(self, what: str, params: Mapping[str, str]) -> Any:
        """``what`` is signal and temporality, such as ``carbon-intensity/latest``. ``PlanError`` at once where the plan
        is known, by ``access``, not to have it.
        """
        self._need_token()
        known = self._remembered(_KEPT_S)
        if known is not None and what not in known:
            raise PlanError(f"{self._label}: {what} is not in the plan of this token, as /zones says")
        try:
            reply = self._get(what, {"zone": self._zone, **params})
        except AuthError as error:
            raise self._explained(error, what) from None
        self._accepted = True
        self._doubted.discard(what)
        return reply

    def access(self) -> frozenset[str] | None:
        """What the token's plan opens for the zone, kept for a day; None where the token is not known to ``/zones``.

        ``BadRequest`` if there is no such zone.
        """
        if self._listed is None or self._session.monotonic() - self._listed[1] >= _KEPT_S:
            self._listed = self._list(), self._session.monotonic()
        return self._listed[0]

    def _list(self) -> frozenset[str] | None:
        self._need_token()
        zones = record(self._get("zones", {}), f"{SOURCE}: the list of zones")
        if self._zone not in zones:
            near = did_you_mean(self._zone, zones)
            raise BadRequest(f"{SOURCE} has no zone {self._zone!r}{near}; it has {len(zones)} others")
        listed = record(zones[self._zone], f"{SOURCE}: zone {self._zone}").get("access")
        return frozenset(str(what) for what in listed) if isinstance(listed, list) else None

    def _remembered(self, age_s: float) -> frozenset[str] | None:
        """What the list said, if that is not longer ago."""
        if self._listed is None or self._session.monotonic() - self._listed[1] >= age_s:
            return None
        return self._listed[0]

    def _get(self, path: str, params: Mapping[str, str]) -> Any:
        headers = {self._header: self._token} if self._token else {}
        return self._session.get_json(f"{self._root}/{path}", params=params, headers=headers, judge=self._judge)

    def _need_token(self) -> None:
        if not self._token:
            raise AuthError(f"{SOURCE} needs a token: set the environment variable that token_env names")

    def _explained(self, error: AuthError, what: str) -> ProviderError:
        """A refusal without a reason: outside the plan, or too many requests, or the token itself."""
        listed = self._looked_up()
        if listed is not None and what not in listed:
            return PlanError(f"{self._label}: the token is good, but {what} is not in its plan")
        if (listed is not None or self._accepted) and what not in self._doubted:
            self._doubted.add(what)
            return RateLimited(f"{self._label}: {what} was refused to a good token: too many requests?")
        if listed is not None:
            return PlanError(f"{self._label}: /zones lists {what}, and it is refused all the same")
        self._accepted = False
        return error

    def _looked_up(self) -> frozenset[str] | None:
        try:
            return self._remembered(_MISTRUSTED_S) or self._fresh()
        except ProviderError:
            return None

    def _fresh(self) -> frozenset[str] | None:
        self._listed = None
        return self.access()

    def _judge(self, reply: Reply) -> ProviderError | None:
        said = f"{self._label}: {reply.status} {reply.message}".rstrip()
        words = reply.message.lower()
        if reply.status == 401 and reply.body is not Body.HTML:  # noqa: PLR2004 - HTTP's own numbers are its names
            return self._refused(said, words, reply)
        if reply.status == 403 and words:  # noqa: PLR2004
            return PlanError(said)
        if re.search(r"\bno (recent )?data\b", words) and reply.status in {200, 404, 502}:
            return NoData(said)
        if "no route matched" in words:
            return BadRequest(f"{said}: no such address; check base_url and version")
        return None

    def _refused(self, said: str, words: str, reply: Reply) -> ProviderError:
        if "zonekey" in words or "do not have access" in words:
            return PlanError(f"{said}: the token is good, but its plan does not cover this")
        if reply.retry_after_s is not None:
            return RateLimited(said, retry_after_s=reply.retry_after_s)
        return AuthError(f"{said}: check the token")


def _rooted(base: str, version: str) -> str:
    """People copy addresses with the version in them; then that is the version."""
    return base if re.search(r"/v[34]$", base) else f"{base}/{version}"
