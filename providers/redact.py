"""Secrets stay out of every text: errors, logs and reprs."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from typing import TypeGuard
from urllib.parse import quote, quote_plus, urlsplit

MASK = "***"
_MOST_SECRETS = 256
_SCHEME = re.compile(r"(?:Basic|Bearer) +")
_NAMED = re.compile(r"(?i)\b([\w-]*(?:token|key|secret|passw(?:or)?d|auth)[\w-]*=)[^&\s\"']+")


class Secret:
    """A credential that shows itself only to whoever calls ``reveal``."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value.strip()

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")


def bearer(token: Secret) -> Secret:
    """The value of an ``Authorization`` header."""
    return Secret(f"Bearer {token.reveal()}")


class Redactor(logging.Filter):
    """Masks the secrets that it was told of, and the values of query parameters whose names give them away.

    Of secrets the ones told of last are kept: tokens of half an hour would pile up for as long as a process lives.
    As a log filter it rewrites records that contain one: at DEBUG level urllib3 logs whole request lines.
    """

    def __init__(self) -> None:
        super().__init__()
        self._secrets: dict[str, set[str]] = {}
        self._forms: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def protect(self, secret: Secret) -> None:
        value = secret.reveal()
        bare_value = _SCHEME.sub("", value, count=1)  # an echo need not repeat the scheme
        forms = {form for text in (value, bare_value) for form in (text, quote(text, safe=""), quote_plus(text))} - {""}
        with self._lock:
            known = self._secrets.pop(value, None)
            self._secrets[value] = forms
            if known is None:
                while len(self._secrets) > _MOST_SECRETS:
                    del self._secrets[next(iter(self._secrets))]
                self._forms = tuple(sorted(set().union(*self._secrets.values()), key=len, reverse=True))

    def clean(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, MASK)
        return _NAMED.sub(rf"\1{MASK}", text)

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        cleaned = self.clean(text)
        if cleaned != text:
            record.msg, record.args = cleaned, ()
        return True


def is_secret(text: str | Secret) -> TypeGuard[Secret]:
    return isinstance(text, Secret)


Texts = Mapping[str, str | Secret]  # parameters or headers


def plain(given: Texts) -> dict[str, str]:
    """As the wire needs it; for the one call that sends it, lest a traceback's locals show it."""
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in given.items()}


def bare(url: str) -> str:
    """The address without user, password and query: what may be shown."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
