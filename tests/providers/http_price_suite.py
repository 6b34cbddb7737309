"""What every source of prices over HTTP must do when its server misbehaves: the faults are those of http_suite.py."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import ClassVar

import pytest
from grid_server import Answer, html
from http_suite import FAULTS, SLOW, TOKEN

from providers.base import Transient
from providers.testing import PriceProviderSuite


class HttpPriceSuite(PriceProviderSuite):
    """Needs, besides ``provider`` (server in order), a method ``make(session, base_url)``.

    ``REQUESTS`` are those for five days, ``AHEAD_REQUESTS`` those for hours ahead alone where they are fewer;
    ``PAUSE_S`` is what the source wants between two requests.
    """

    SECRETS = (TOKEN,)
    REQUESTS: ClassVar[int] = 1
    AHEAD_REQUESTS: ClassVar[int | None] = None
    PAUSE_S: ClassVar[float] = 0.0

    @pytest.fixture
    def once(self, make_session):
        """A session that tries once."""
        return make_session(attempts=1, max_bytes=1_000_000)

    @pytest.mark.parametrize(("answer", "error"), FAULTS)
    def test_a_misbehaving_server_is_told_as_what_it_is(self, server, once, caplog, answer, error):
        """Each fault has its class, and shows no secret in text or log."""
        server.answer_with(answer)
        with caplog.at_level(logging.DEBUG), pytest.raises(error) as caught:
            self._ask(once, server)
        assert TOKEN not in f"{caught.value} {caught.value!r} {caplog.text}"

    @pytest.mark.parametrize("answer", SLOW)
    def test_a_server_that_takes_its_time_is_left(self, server, make_session, answer):
        """Neither silence nor a drip holds a call much longer than its deadline."""
        server.answer_with(answer)
        session = make_session(attempts=1, deadline_s=0.2, timeout=(0.2, 0.15))
        began = time.monotonic()
        with pytest.raises(Transient):
            self._ask(session, server)
        assert time.monotonic() - began < 2.0

    def test_it_recovers_by_itself(self, server, session, clock):
        """After an outage the same object answers again."""
        healthy = server.answer
        provider = self.make(session, server.url)
        server.answer_with(html(503))
        with pytest.raises(Transient):
            provider.prices(self.NOW, self.NOW + timedelta(hours=3))
        server.answer_with(healthy)
        clock.advance(self.PAUSE_S)
        assert provider.prices(self.NOW, self.NOW + timedelta(hours=3)).points

    def test_an_empty_body_once_costs_one_more_request(self, server, session, clock):
        """It is tried again at once, or where the source wants a pause, at the next call."""
        healthy = server.answer
        server.answer_with(Answer(), healthy)
        provider = self.make(session, server.url)
        if self.PAUSE_S:
            with pytest.raises(Transient):
                provider.prices(self.NOW, self.NOW + timedelta(hours=3))
            clock.advance(self.PAUSE_S)
        assert provider.prices(self.NOW, self.NOW + timedelta(hours=3)).points
        assert len(server.requests) == 1 + (self.AHEAD_REQUESTS or self.REQUESTS)

    def test_the_trail_of_requests_is_short(self, server, provider):
        """Three days back and two ahead."""
        provider.prices(self.NOW - timedelta(hours=72), self.NOW + timedelta(hours=48))
        assert len(server.requests) == self.REQUESTS

    def _ask(self, session, server):
        self.make(session, server.url).prices(self.NOW - timedelta(hours=3), self.NOW + timedelta(hours=3))
