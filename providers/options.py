"""The options of one source: read by name and type, and what nobody read is an error with a suggestion."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from providers.base import BadRequest


class Options:
    """Each method reads one option; ``finish`` refuses what is left. All raise ``BadRequest``."""

    def __init__(self, provider: str, given: Mapping[str, object]) -> None:
        self._provider = provider
        self._given = given
        self._known: list[str] = []

    def raw(self, name: str) -> object:
        self._known.append(name)
        return self._given.get(name)

    def text(self, name: str, default: str = "", *, choices: Sequence[str] = ()) -> str:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, str) or (choices and value not in choices):
            wanted = f"one of {', '.join(choices)}{did_you_mean(value, choices)}" if choices else "a text"
            raise self._wrong(name, value, wanted)
        return value

    def needed(self, name: str, why: str, *, choices: Sequence[str] = ()) -> str:
        """A text that nobody but the operator can know; ``why`` says how to find out."""
        value = self.text(name, choices=choices)
        if not value.strip():
            wanted = f"one of {', '.join(choices)}" if choices else "a text"
            raise BadRequest(f"{self._provider} needs the option {name}, {wanted}: {why}")
        return value

    def number(self, name: str, default: float, *, low: float, high: float) -> float:
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self._wrong(name, value, f"a number from {low:g} to {high:g}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def finish(self) -> None:
        for name in self._given:
            if name not in self._known:
                known = f"it knows {', '.join(sorted(self._known))}" if self._known else "it has none"
                raise BadRequest(f"{self._provider} has no option {name!r}{did_you_mean(name, self._known)}; {known}")

    def _wrong(self, name: str, value: object, wanted: str) -> BadRequest:
        return BadRequest(f"{self._provider}: option {name} is {value!r}, but must be {wanted}")


def web_address(provider: str, given: str | None, default: str) -> str:
    """``base_url`` without a trailing slash."""
    url = (given or default).rstrip("/")
    try:
        parts = urlsplit(url)
        extra = parts.query or parts.fragment or "@" in parts.netloc
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and not extra
    except ValueError:
        good = False
    if not good:
        raise BadRequest(f"{provider}: base_url must be like {default}, without a query and without credentials")
    return url


def own_address(provider: str, given: str | None, example: str) -> str:
    """``base_url`` of a server that is the operator's own, so that there is none to fall back on."""
    if given is None:
        raise BadRequest(f"{provider} needs base_url, the address of your own server, like {example}")
    return web_address(provider, given, example)


def did_you_mean(value: object, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(value), list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""
