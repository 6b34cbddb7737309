"""What every source over HTTP must do when its server misbehaves, on top of what every provider must do."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import ClassVar

import pytest
from grid_server import Answer, as_json, bomb, cut, dripping, html, overlong, silent

from providers.base import BadRequest, ProviderError, RateLimited, Transient
from providers.testing import ProviderSuite

TOKEN = "PlainToken98765"

SLOW = [
    pytest.param(silent(), id="silent"),
    pytest.param(dripping(Answer(b" " * 500 + b"{}"), 0.02), id="dripping"),
    pytest.param(Answer(drip_headers=True, each_s=0.02), id="dripping-headers"),
]
FAULTS = [
    pytest.param(cut(as_json({"data": [1, 2, 3]})), Transient, id="cut"),
    pytest.param(overlong(as_json({"data": [1, 2, 3]})), Transient, id="wrong-length"),
    pytest.param(Answer(), Transient, id="empty"),
    pytest.param(html(), Transient, id="html"),
    pytest.param(html(403), Transient, id="html-403"),
    pytest.param(html(503), Transient, id="html-503"),
    pytest.param(bomb(8), Transient, id="gzip-bomb"),
    pytest.param(
        as_json({"error": {"code": "500 Internal Server Error", "message": "x"}}), Transient, id="error-in-200"
    ),
    pytest.param(as_json({"message": "slow down"}, 429), RateLimited, id="429"),
    pytest.param(as_json({}, 429, Retry_After="3600"), RateLimited, id="429-seconds"),
    pytest.param(as_json({}, 429, Retry_After="Wed, 04 Mar 2026 10:20:00 GMT"), RateLimited, id="429-date"),
    pytest.param(Answer(status=410), BadRequest, id="gone"),
    pytest.param(as_json({"message": "no such thing"}, 404), BadRequest, id="404"),
    pytest.param(Answer(status=302, headers={"Location": "http://127.0.0.1:9/"}), BadRequest, id="redirect-elsewhere"),
    pytest.param(as_json([]), ProviderError, id="list"),
    pytest.param(as_json(None), ProviderError, id="null"),
    pytest.param(as_json({}), ProviderError, id="nothing"),
    pytest.param(as_json({"data": []}), ProviderError, id="no-rows"),
    pytest.param(as_json("moderate"), ProviderError, id="text"),
]


class HttpProviderSuite(ProviderSuite):
    """Needs, besides ``provider`` (server in order), a method ``make(session, base_url)``.

    ``PAUSE_S`` is what the source wants between two requests, ``MORE_REQUESTS`` how many more than one for each
    question it needs, and ``ERRORS`` says, by the id of a fault, where it must mean another thing by it.
    """

    SECRETS = (TOKEN,)
    PAUSE_S: ClassVar[float] = 0.0
    MORE_REQUESTS: ClassVar[int] = 0
    ERRORS: ClassVar[dict[str, type[ProviderError]]] = {}

    @pytest.fixture
    def once(self, make_session):
        """A session that tries once."""
        return make_session(attempts=1, max_bytes=1_000_000)

    @pytest.mark.parametrize("ask", ["observe", "forecast"])
    @pytest.mark.parametrize(("answer", "error"), FAULTS)
    def test_a_misbehaving_server_is_told_as_what_it_is(self, request, server, once, caplog, answer, error, ask):  # noqa: PLR0917 - pytest names them
        """Each fault has its class, and shows no secret in text or log."""
        server.answer_with(answer)
        provider = self.make(once, server.url)
        span = self.NOW - timedelta(hours=3), self.NOW + timedelta(hours=3)
        if ask == "forecast" and not provider.capabilities.forecast:
            assert not provider.forecast(*span).points
            assert not server.requests
            return
        error = self.ERRORS.get(request.node.callspec.id.removesuffix(f"-{ask}"), error)
        with caplog.at_level(logging.DEBUG), pytest.raises(error) as caught:
            getattr(provider, ask)(*span)
        assert TOKEN not in f"{caught.value} {caught.value!r} {caplog.text}"

    @pytest.mark.parametrize("answer", SLOW)
    def test_a_server_that_takes_its_time_is_left(self, server, make_session, answer):
        """Neither silence nor a drip holds a call much longer than its deadline."""
        server.answer_with(answer)
        provider = self.make(make_session(attempts=1, deadline_s=0.2, timeout=(0.2, 0.15)), server.url)
        began = time.monotonic()
        with pytest.raises(Transient):
            provider.observe(self.NOW - timedelta(hours=3), self.NOW)
        assert time.monotonic() - began < 2.0

    def test_it_recovers_by_itself(self, server, session, clock):
        """After an outage the same object answers again."""
        healthy = server.answer
        provider = self.make(session, server.url)
        server.answer_with(html(503))
        with pytest.raises(Transient):
            provider.observe(self.NOW - timedelta(hours=3), self.NOW)
        server.answer_with(healthy)
        clock.advance(self.PAUSE_S)
        assert provider.observe(self.NOW - timedelta(hours=3), self.NOW).points

    def test_an_empty_body_once_is_retried(self, server, session, clock):
        """One hiccup costs one more request: at once, or where the source wants a pause, at the next call."""
        healthy = server.answer
        server.answer_with(Answer(), healthy)
        provider = self.make(session, server.url)
        if self.PAUSE_S:
            with pytest.raises(Transient):
                provider.observe(self.NOW - timedelta(hours=3), self.NOW)
            clock.advance(self.PAUSE_S)
        assert provider.observe(self.NOW - timedelta(hours=3), self.NOW).points

    def test_the_trail_of_requests_is_short(self, server, provider):
        """Three days back, and two ahead, take one request each, or what the source cannot do without."""
        provider.observe(self.NOW - timedelta(hours=72), self.NOW)
        provider.forecast(self.NOW, self.NOW + timedelta(hours=48))
        assert len(server.requests) == 1 + provider.capabilities.forecast + self.MORE_REQUESTS
