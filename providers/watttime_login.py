"""The 30 minutes' token of WattTime: got by a login, shared by threads, renewed before it ends or when it is refused.

Its life is measured on the session's monotonic clock: a wall clock that is set back, or an hour of autumn, would keep
a dead token. Of callers that find none, one logs in and the others wait for it. Logins have a lane of their own, far
below the hundred in five minutes after which the source refuses them.
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from providers.base import AuthError, ProviderError, SchemaError
from providers.reading import record
from providers.redact import Secret
from providers.session import Lane

if TYPE_CHECKING:
    from providers.reply import Reply
    from providers.session import Session

LIFE_S = 30 * 60.0
SKEW_S = 5 * 60.0  # for what is under way when it ends
_EVERY_S = 10.0


@dataclass(slots=True)
class Login:
    """``credentials`` are ``user:password``. ``url`` is that of the login, ``name`` is for errors."""

    session: Session
    url: str
    credentials: Secret | None
    name: str
    _lock: threading.Lock = field(init=False, compare=False, repr=False, default_factory=threading.Lock)
    _header: Secret | None = field(init=False, compare=False, default=None)
    _until: float = field(init=False, compare=False, default=float("-inf"))

    def header(self) -> Secret:
        """For ``Authorization``; the same object while it is the same token. Raises ``ProviderError``."""
        with self._lock:
            if self._header is None or self.session.monotonic() >= self._until:
                self._header = None
                asked_at = self.session.monotonic()
                self._header = self._logged_in()
                self._until = asked_at + LIFE_S - SKEW_S
            return self._header

    def drop(self, refused: Secret) -> None:
        """``refused`` was no good; a newer one, which another caller may have got meanwhile, stays."""
        with self._lock:
            if self._header is refused:
                self._header = None

    def _logged_in(self) -> Secret:
        basic, password = _basic(self.credentials)
        if not basic:
            raise AuthError(f"{self.name} needs a login: the variable that token_env names must hold user:password")
        self.session.protect(password)
        lane = Lane(f"login at {self.url}", _EVERY_S)
        reply = self.session.get_json(self.url, headers={"Authorization": basic}, judge=self._judge, lane=lane)
        bearer = _bearer(record(reply, f"{self.name}: the login"))
        if bearer is None:
            raise SchemaError(f"{self.name}: the login gave no token")
        return bearer

    def _judge(self, reply: Reply) -> ProviderError | None:
        """It refuses with a web page."""
        if reply.status not in {401, 403}:
            return None
        said = f"{self.name}: the login was refused with {reply.status} {reply.message}".rstrip()
        return AuthError(f"{said}: check user:password in the variable that token_env names")


def shared_login(session: Session, url: str, credentials: Secret | None, name: str) -> Login:
    """One for all regions that log in with the same credentials."""
    key = (name, url, _digest(credentials))
    return session.shared(key, lambda: Login(session, url, credentials, name))


# Functions of their own, so that no traceback of ours has a credential among its locals.


def _digest(credentials: Secret | None) -> bytes:
    return hashlib.sha256(credentials.reveal().encode() if credentials else b"").digest()


def _basic(credentials: Secret | None) -> tuple[Secret, Secret]:
    """The header and the password in it, both empty where one of the two parts is missing."""
    user, _, password = credentials.reveal().partition(":") if credentials else ("", "", "")
    if not (user and password):
        return Secret(""), Secret("")
    return Secret(f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"), Secret(password)


def _bearer(reply: Mapping[str, object]) -> Secret | None:
    token = reply.get("token")
    return Secret(f"Bearer {token.strip()}") if isinstance(token, str) and token.strip() else None
