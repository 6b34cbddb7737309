"""One way to ask a server: timeouts, retries with jitter, ``Retry-After``, a pace for each host, no secrets.

The libraries for retrying sleep on the machine's clock; here clock and sleep are handed in, so the loop is our own.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from providers.base import ProviderError, RateLimited, Transient
from providers.deadline import Deadlines, Expired
from providers.pace import Pace
from providers.redact import Redactor, Texts, bare, is_secret
from providers.reply import Body, Judge, Reply, judge_by_status, read

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from providers.redact import Secret
    from providers.transport import RawReply, Transport

T = TypeVar("T")
_FIRST_BACKOFF_S = 0.5
_ACCEPT = {Body.JSON: "application/json", Body.TEXT: "*/*"}
_CHATTY = ("urllib3.connectionpool", "urllib3.util.retry")  # they log request lines, query and all


@dataclass(frozen=True, slots=True)
class Lane:
    """What a source counts for itself, within or across hosts: one request in ``every_s`` seconds."""

    name: str
    every_s: float


@dataclass(frozen=True, slots=True)
class _Request:
    url: str
    params: Texts = field(repr=False)
    headers: Texts = field(repr=False)
    judge: Judge
    lane: Lane | None
    wanted: Body


class Session:
    """What the HTTP providers of a process share; safe to use from several threads.

    ``timeout`` is (connect, read) in seconds of one socket operation, ``deadline_s`` bounds a call with all its tries
    and waits, ``max_bytes`` a decompressed body, ``rate_per_s`` and ``burst`` the requests to one host.
    """

    def __init__(
        self,
        timeout: tuple[float, float] = (3.0, 15.0),
        *,
        deadline_s: float = 45.0,
        attempts: int = 3,
        max_bytes: int = 4 * 1024 * 1024,
        rate_per_s: float = 1.0,
        burst: int = 4,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._timeout, self._max_bytes = timeout, max_bytes
        self._deadline_s, self._attempts = deadline_s, attempts
        self._monotonic, self._now, self._jitter = monotonic, now, jitter
        self._pace = Pace(rate_per_s=rate_per_s, burst=burst, monotonic=monotonic)
        self._deadlines: Deadlines[RawReply] = Deadlines()
        self._closed = threading.Event()
        self._sleep = sleep or self._closed.wait
        self._transport: Transport | None = None
        self._lock = threading.Lock()
        self._shared: dict[Hashable, Any] = {}
        self._redactor = Redactor()
        for name in _CHATTY:
            logging.getLogger(name).addFilter(self._redactor)

    def monotonic(self) -> float:
        """The clock of all its durations, for what else expires: a step of the wall clock keeps no token alive."""
        return self._monotonic()

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """What the providers of this session have in common, such as one login: made by the first who asks."""
        with self._lock:
            if key not in self._shared:
                self._shared[key] = make()
            found: T = self._shared[key]
            return found

    def protect(self, secret: Secret) -> None:
        """Mask it as those that are sent, where it is only a part of what is sent."""
        self._redactor.protect(secret)

    def close(self) -> None:
        """Wakes whoever waits in ``get``; they get ``Transient``."""
        self._closed.set()
        self._deadlines.close()
        with self._lock:
            if self._transport is not None:
                self._transport.close()
        for name in _CHATTY:
            logging.getLogger(name).removeFilter(self._redactor)

    def get_json(
        self,
        url: str,
        *,
        params: Texts | None = None,
        headers: Texts | None = None,
        judge: Judge = lambda _: None,
        lane: Lane | None = None,
    ) -> Any:
        """The parsed body. ``judge`` sees each reply first and may name the error; else its status decides.

        Raises ``ProviderError`` only, without secrets in text, context or the locals of its traceback.
        """
        return self.get(url, params=params, headers=headers, judge=judge, lane=lane).data

    def get_text(
        self,
        url: str,
        *,
        params: Texts | None = None,
        headers: Texts | None = None,
        judge: Judge = lambda _: None,
        lane: Lane | None = None,
    ) -> str:
        """As ``get_json`` for CSV and the like: the body as text, without its byte order mark. HTML is an error."""
        return self.get(url, params=params, headers=headers, judge=judge, lane=lane, wanted=Body.TEXT).text

    def get_xml(
        self,
        url: str,
        *,
        params: Texts | None = None,
        headers: Texts | None = None,
        judge: Judge = lambda _: None,
        lane: Lane | None = None,
    ) -> Element:
        """As ``get_json``: the root element, its tags without namespaces. ``SchemaError`` for entities and the like."""
        from providers.xml import parse

        reply = self.get(url, params=params, headers=headers, judge=judge, lane=lane, wanted=Body.TEXT)
        return parse(reply.text, reply.url)

    def get(
        self,
        url: str,
        *,
        params: Texts | None = None,
        headers: Texts | None = None,
        judge: Judge = lambda _: None,
        lane: Lane | None = None,
        wanted: Body = Body.JSON,
    ) -> Reply:
        """The whole reply; its status is 304 where ``headers`` hold an If-None-Match that still matches."""
        request = _Request(url, params or {}, {"Accept": _ACCEPT[wanted], **(headers or {})}, judge, lane, wanted)
        for secret in (text for text in (*request.params.values(), *request.headers.values()) if is_secret(text)):
            self._redactor.protect(secret)
        until = self._monotonic() + self._deadline_s
        attempt = 1
        while True:
            try:
                return self._once(request, until)
            except (Transient, RateLimited) as error:
                wait_s = self._wait_before_retry(error, attempt, request.lane)
                if wait_s is None or self._monotonic() + wait_s >= until:
                    raise
            self._sleep(wait_s)
            attempt += 1

    def _once(self, request: _Request, until: float) -> Reply:
        host = urlsplit(bare(request.url)).netloc
        self._take_turn(host, until)
        if request.lane is not None:
            self._take_turn(request.lane.name, until, every_s=request.lane.every_s)
        raw = self._fetch(request.url, request.params, request.headers, until)
        reply = read(raw, now=self._now(), clean=self._redactor.clean, wanted=request.wanted)
        if reply.retry_after_s is not None and reply.status in {429, 503}:
            self._pace.hold(host, reply.retry_after_s)
        error = request.judge(reply) or judge_by_status(reply, request.wanted)
        if isinstance(error, RateLimited) and error.retry_after_s is not None:
            self._pace.hold(request.lane.name if request.lane else host, error.retry_after_s)  # a ban without a header
        if error is not None:
            raise error
        return reply

    def _take_turn(self, name: str, until: float, *, every_s: float | None = None) -> None:
        patience_s = until - self._monotonic()
        wait_s = self._pace.reserve(name, patience_s, every_s=every_s)
        if wait_s > patience_s:
            raise RateLimited(f"{name} is not to be asked for {wait_s:.0f} s more", retry_after_s=wait_s)
        if wait_s > 0:
            self._sleep(wait_s)

    def _fetch(self, url: str, query: Texts, head: Texts, until: float) -> RawReply:
        transport, seconds = self._opened(), until - self._monotonic()
        try:
            return self._deadlines.run(lambda: transport.get(url, query, head, seconds=seconds), seconds)
        except ProviderError:
            raise
        except Expired as error:
            failure = Transient(f"{bare(url)}: {error}")
        except Exception as error:  # noqa: BLE001 - a library's own bug must not stop the one who polls
            failure = Transient(f"{bare(url)}: {type(error).__name__}")
        raise failure  # here, so that no library's text hangs on as its context

    def _opened(self) -> Transport:
        """Made at the first request: who reads only files never pays for ``requests``."""
        with self._lock:
            if self._transport is None:
                from providers.transport import Transport

                self._transport = Transport(self._timeout, self._max_bytes)
            return self._transport

    def _wait_before_retry(self, error: ProviderError, attempt: int, lane: Lane | None) -> float | None:
        """Seconds, between half and all of a doubling back-off; None when it is not worth it or time to give up."""
        if attempt >= self._attempts or self._closed.is_set():
            return None
        if isinstance(error, RateLimited):
            return error.retry_after_s
        back_off_s = _FIRST_BACKOFF_S * 2.0 ** (attempt - 1) * (0.5 + 0.5 * self._jitter())
        return back_off_s if lane is None else max(back_off_s, self._pace.wait_s(lane.name, every_s=lane.every_s))
