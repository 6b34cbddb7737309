"""One HTTP GET that cannot hurt: bounded in bytes and time, blind to other hosts, no secrets in its errors."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urljoin, urlsplit

import requests
import urllib3.exceptions as low

from providers.base import BadRequest, ProviderError, Transient
from providers.redact import Texts, bare, plain

_CHUNK = 4096
_REDIRECTS = 3
_LONGEST_ETAG = 200
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class RawReply:
    """What came back. ``url`` has no query; ``location`` is where a refused redirect pointed (host alone)."""

    url: str
    status: int
    content_type: str
    retry_after: str | None
    location: str
    etag: str
    body: bytes = field(repr=False)


class Transport:
    """``get`` raises ``Transient`` and ``BadRequest`` only. ``timeout`` is (connect, read) in seconds."""

    def __init__(self, timeout: tuple[float, float], max_bytes: int) -> None:
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._http = requests.Session()
        self._http.auth = lambda request: request  # ~/.netrc is not ours to send
        self._http.headers.update(
            {"User-Agent": "carbon-chase", "Accept": "application/json", "Accept-Encoding": "gzip"}
        )

    def close(self) -> None:
        self._http.close()

    def get(self, url: str, params: Texts, headers: Texts, *, seconds: float) -> RawReply:
        until = time.monotonic() + seconds
        try:
            return self._get(url, params, headers, until)
        except ProviderError as error:
            failure = type(error)(str(error))
        except (requests.RequestException, low.HTTPError, OSError, ValueError, zlib.error) as error:
            failure = explain(error, bare(url))
        raise failure  # out here, so that what the libraries say and hold does not hang on as its context

    def _get(self, url: str, params: Texts, headers: Texts, until: float) -> RawReply:
        for _ in range(_REDIRECTS + 1):
            with self._http.get(
                url,
                params=plain(params),
                headers=plain(headers),
                timeout=self._timeout,
                stream=True,
                allow_redirects=False,
            ) as response:
                target = urljoin(response.url, response.headers.get("Location", ""))
                if not response.is_redirect or not _same_place(urlsplit(response.url), urlsplit(target)):
                    return self._reply(response, target if response.is_redirect else "", until)
            url, params = target, {}
        raise Transient(f"{bare(url)} redirects without end")

    def _reply(self, response: requests.Response, location: str, until: float) -> RawReply:
        headers = response.headers
        return RawReply(
            url=bare(response.url),
            status=response.status_code,
            content_type=headers.get("Content-Type", ""),
            retry_after=headers.get("Retry-After"),
            location=bare(location) if location else "",
            etag=headers.get("ETag", "")[:_LONGEST_ETAG],
            body=self._read(response, until),
        )

    def _read(self, response: requests.Response, until: float) -> bytes:
        """The decompressed body, never more than ``max_bytes`` of it in memory."""
        body = bytearray()
        unpack = _Unpacker(response.headers.get("Content-Encoding", ""))
        for chunk in _raw_chunks(response):
            body += unpack(chunk, self._max_bytes - len(body) + 1)
            if len(body) > self._max_bytes:
                raise Transient(f"{bare(response.url)} sent more than {self._max_bytes} bytes")
            if time.monotonic() > until:
                raise Transient(f"{bare(response.url)} drips: the body was not complete in time")
        if body and not unpack.complete:
            raise Transient(f"{bare(response.url)}: the compressed body was cut")
        return bytes(body)


class _Unpacker:
    """Decompression that yields no more than it is asked for, so that a bomb stays packed."""

    def __init__(self, encoding: str) -> None:
        encoding = encoding.strip().lower()
        if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise Transient(f"a body in the encoding {encoding[:20]!r}, for which nobody asked")
        self._inflate = None if encoding in {"", "identity"} else zlib.decompressobj(wbits=47)

    def __call__(self, chunk: bytes, at_most: int) -> bytes:
        return chunk if self._inflate is None else self._inflate.decompress(chunk, at_most)

    @property
    def complete(self) -> bool:
        return self._inflate is None or self._inflate.eof


def _raw_chunks(response: requests.Response) -> Iterator[bytes]:
    yield from response.raw.stream(_CHUNK, decode_content=False)


def _same_place(here: SplitResult, there: SplitResult) -> bool:
    """One origin, or the same host's encrypted door: nobody else gets to see our headers."""
    if here.hostname != there.hostname:
        return False
    upgraded = (_port(here), _port(there), there.scheme) == (80, 443, "https")
    return upgraded or (here.scheme, _port(here)) == (there.scheme, _port(there))


def _port(parts: SplitResult) -> int | None:
    return parts.port or _DEFAULT_PORTS.get(parts.scheme)


# Matched in order: requests derives its errors from OSError, and some from ValueError as well.
_FAILURES: tuple[tuple[tuple[type[Exception], ...], type[ProviderError], str], ...] = (
    ((requests.ConnectTimeout,), Transient, "no connection in time"),
    ((requests.ReadTimeout, low.ReadTimeoutError), Transient, "silent for too long"),
    ((requests.exceptions.SSLError, low.SSLError), Transient, "TLS failed"),
    ((requests.exceptions.ProxyError,), Transient, "the proxy does not let us through"),
    ((low.ProtocolError, requests.exceptions.ChunkedEncodingError), Transient, "the answer was cut"),
    ((requests.exceptions.InvalidHeader,), BadRequest, "a header that cannot be sent"),
    ((zlib.error, low.DecodeError), Transient, "the body cannot be unpacked"),
    ((ValueError,), BadRequest, "an address that cannot be used"),
    ((OSError, low.HTTPError), Transient, "no connection"),
)


def explain(error: Exception, url: str) -> ProviderError:
    """Our own words for what went wrong: the libraries' quote the address with its query."""
    made, text = next((made, text) for classes, made, text in _FAILURES if isinstance(error, classes))
    reason = _system_reason(error)
    return made(f"{url}: {text} ({reason})" if reason else f"{url}: {text}")


def _system_reason(error: BaseException) -> str:
    """What the operating system said, at the bottom of the pile of exceptions."""
    reason = ""
    seen: set[int] = set()
    pending: BaseException | None = error
    while pending is not None and id(pending) not in seen:
        seen.add(id(pending))
        if isinstance(pending, OSError) and isinstance(pending.strerror, str):
            reason = pending.strerror
        pending = pending.__cause__ or pending.__context__
    return reason
