"""One way to ask a server for JSON: timeouts, retries with jitter, ``Retry-After``, a pace for each host, no secrets.

The libraries for retrying sleep on the machine's clock; here clock and sleep are handed in, so the loop is our own.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from providers.base import ProviderError, RateLimited, Transient
from providers.deadline import Deadlines, Expired
from providers.pace import Pace
from providers.redact import Redactor, Secret, Texts, bare
from providers.reply import Judge, judge_by_status, read

if TYPE_CHECKING:
    from providers.transport import RawReply, Transport

_FIRST_BACKOFF_S = 0.5
_CHATTY = ("urllib3.connectionpool", "urllib3.util.retry")  # they log request lines, query and all


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
        self._redactor = Redactor()
        for name in _CHATTY:
            logging.getLogger(name).addFilter(self._redactor)

    def close(self) -> None:
        """Wakes whoever waits in ``get_json``; they get ``Transient``."""
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
    ) -> Any:
        """The parsed body. ``judge`` sees each reply first and may name the error; else its status decides.

        Raises ``ProviderError`` only, without secrets in text, context or the locals of its traceback.
        """
        query, head = params or {}, headers or {}
        for secret in (text for text in (*query.values(), *head.values()) if isinstance(text, Secret)):
            self._redactor.protect(secret)
        until = self._monotonic() + self._deadline_s
        attempt = 1
        while True:
            try:
                return self._once(url, query, head, judge, until)
            except (Transient, RateLimited) as error:
                wait_s = self._wait_before_retry(error, attempt)
                if wait_s is None or self._monotonic() + wait_s >= until:
                    raise
            self._sleep(wait_s)
            attempt += 1

    def _once(self, url: str, query: Texts, head: Texts, judge: Judge, until: float) -> Any:
        host = urlsplit(bare(url)).netloc
        self._take_turn(host, until)
        reply = read(self._fetch(url, query, head, until), now=self._now(), clean=self._redactor.clean)
        if reply.retry_after_s is not None and reply.status in {429, 503}:
            self._pace.hold(host, reply.retry_after_s)
        error = judge(reply) or judge_by_status(reply)
        if error is not None:
            raise error
        return reply.data

    def _take_turn(self, host: str, until: float) -> None:
        patience_s = until - self._monotonic()
        wait_s = self._pace.reserve(host, patience_s)
        if wait_s > patience_s:
            raise RateLimited(f"{host} is not to be asked for {wait_s:.0f} s more", retry_after_s=wait_s)
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

    def _wait_before_retry(self, error: ProviderError, attempt: int) -> float | None:
        """Seconds, between half and all of a doubling back-off; None when it is not worth it or time to give up."""
        if attempt >= self._attempts or self._closed.is_set():
            return None
        if isinstance(error, RateLimited):
            return error.retry_after_s
        return _FIRST_BACKOFF_S * 2.0 ** (attempt - 1) * (0.5 + 0.5 * self._jitter())
