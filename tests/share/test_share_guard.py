"""Who may ask, how often, and how long: the share's door."""

from __future__ import annotations

import logging
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from share_bench import TOKEN, until

from chase.share.callers import Callers


class TestToken:
    @pytest.fixture
    def guarded(self, serve, region):
        return serve(region, token=TOKEN)

    def test_the_right_token_is_let_in(self, guarded):
        """However its scheme is written."""
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert guarded.intensity(Authorization=f"{scheme} {TOKEN}").status == 200

    @pytest.mark.parametrize("given_text", [None, "", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}"])
    def test_without_a_token_it_says_what_to_send(self, guarded, given_text):
        """401, with the scheme that is wanted."""
        told = guarded.intensity(**({} if given_text is None else {"Authorization": given_text}))
        assert (told.status, told.headers["www-authenticate"]) == (401, "Bearer")
        assert told.body["error"]["message"] == "send the token: Authorization: Bearer ..."

    @pytest.mark.parametrize("wrong", [TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "x" * len(TOKEN), "é", "x" * 5000])
    def test_a_wrong_token_is_refused(self, guarded, wrong):
        """403 for one that is nearly right, too long, or no ASCII."""
        told = guarded.intensity(Authorization=f"Bearer {wrong}".encode())
        assert (told.status, told.body["error"]["code"]) == (403, "403")
        assert wrong not in told.body["error"]["message"]

    def test_nothing_is_told_before_the_token(self, guarded):
        """Not which regions there are, nor which methods."""
        assert {guarded.get(path).status for path in ("/", "/v1/grid/atlantis/intensity", "/v1/jobs")} == {401}

    def test_no_token_is_in_any_log(self, guarded, caplog):
        """Right or wrong, at the finest level."""
        with caplog.at_level(logging.DEBUG):
            guarded.intensity(Authorization=f"Bearer {TOKEN}")
            guarded.intensity(Authorization="Bearer another-secret-token")
        assert TOKEN not in caplog.text
        assert "another-secret" not in caplog.text


class TestQuestions:
    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
    def test_only_get(self, caller, method):
        """405, and nothing is done."""
        told = caller.ask(method, "/v1/grid/xx/intensity")
        assert (told.status, told.headers["allow"]) == (405, "GET")

    @pytest.mark.parametrize(
        "headers", ["Content-Length: 10000000000\r\n", "Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n"]
    )
    def test_a_body_is_refused_unread(self, caller, headers):
        """413 by its announcement alone: nothing of it is waited for."""
        answer = caller.raw(f"GET /v1/grid/xx/intensity HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 413 ")

    @pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"GET\r\n\r\n"])
    def test_what_is_no_http_is_refused(self, caller, data):
        """TLS on a plain port, talk, half a request: 400 or a closed connection, and the next caller is served."""
        assert caller.raw(data)[:13] in {b"HTTP/1.1 400 ", b""}
        assert caller.intensity().status == 200

    def test_a_head_without_end_is_cut(self, caller):
        """A hundred thousand bytes of headers are not kept waiting for more."""
        answer = caller.raw(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-Long: " + b"x" * 100_000)
        assert answer.startswith(b"HTTP/1.1 400 ")

    def test_what_callers_get_wrong_fills_no_log(self, caller, caplog):
        """Talk, upgrades, times and names that cannot be: nobody who has no token writes lines of our log."""
        heads = ("Upgrade: websocket\r\nConnection: upgrade", "Expect: 7", "Content-Length: x", "Authorization: \xff")
        for head in heads:
            caller.raw(f"GET /v1/grid/xx/intensity HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode("latin-1"))
        caller.raw(b"\x16\x03\x01\x02\r\n\r\n")
        caller.get("/v1/grid/%00%0d%0a/intensity", {"start": "0001-01-01T00:00Z", "end": "9999-12-31T23:59Z"})
        assert not caplog.records

    @pytest.mark.parametrize(
        ("start", "end", "status"),
        [
            ("0001-01-01T00:00Z", "0001-01-01T01:00Z", 200),
            ("9999-12-31T00:00Z", "9999-12-31T01:00Z", 200),
            ("0001-01-01T00:00Z", "9999-12-31T23:59Z", 400),
            ("0001-01-01T00:00+23:00", "0001-01-02T00:00Z", 400),
            ("9999-12-31T23:00Z", "9999-12-31T23:59-23:00", 400),
        ],
    )
    def test_the_first_and_the_last_time_there_is(self, caller, start, end, status):
        """Far from all that is known, and no error of ours."""
        told = caller.get("/v1/grid/xx/intensity", {"start": start, "end": end})
        assert told.status == status

    def test_nobody_is_sent_to_where_the_caller_says_we_are(self, caller):
        """A path that is nearly right is no redirect made of the Host that was sent."""
        answer = caller.raw(b"GET /v1/grid/xx/intensity/ HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert b"elsewhere" not in answer

    def test_each_answer_ends_its_connection(self, caller):
        """Nobody keeps one for later: the second question on it is not read."""
        question = b"GET /v1/grid/atlantis/intensity HTTP/1.1\r\nHost: x\r\n\r\n"
        assert caller.raw(question + question).count(b"HTTP/1.1") == 1


class TestCrowds:
    def test_who_asks_too_often_is_told_when_to_come_again(self, serve, region, monkeypatch):
        """429 with Retry-After, whatever was asked and with whatever token."""
        monkeypatch.setattr("chase.share.server.BURST", 3.0)
        monkeypatch.setattr("chase.share.server.RATE_PER_S", 0.01)
        caller = serve(region, token=TOKEN)
        seen = [caller.intensity(Authorization="Bearer wrong-wrong-wrong").status for _ in range(3)]
        told = caller.intensity(Authorization=f"Bearer {TOKEN}")
        assert (seen, told.status) == ([403] * 3, 429)
        assert 90 <= int(told.headers["retry-after"]) <= 100

    def test_a_connection_that_asks_nothing_is_closed(self, serve, region, monkeypatch):
        """It would hold the place of one that does."""
        monkeypatch.setattr("chase.protocol.FIRST_REQUEST_S", 0.2)
        with serve(region).idle() as idle:
            assert idle.recv(1) == b""

    def test_a_caller_who_does_not_read_is_cut(self, serve, region, monkeypatch):
        """After a while, also in the middle of an answer or of a question."""
        monkeypatch.setattr("chase.protocol.WHOLE_S", 0.3)
        with serve(region).idle() as slow:
            slow.sendall(b"GET /v1/grid/xx/intensity HTTP/1.1\r\n")
            began = time.monotonic()
            with suppress(ConnectionResetError):
                assert slow.recv(1) == b""
            assert time.monotonic() - began < 5

    def test_more_connections_than_places_are_refused_and_not_kept(self, serve, region, monkeypatch):
        """503 while all places are taken, and service as soon as one is free."""
        monkeypatch.setattr("chase.share.server._MOST_CONNECTIONS", 4)
        caller = serve(region)
        idle = [caller.idle() for _ in range(4)]
        assert until(lambda: caller.intensity().status == 503, "all places are taken")
        for one in idle:
            one.close()
        assert until(lambda: caller.intensity().status == 200, "a place is free")


class TestCallers:
    def test_a_burst_and_then_a_pace(self):
        """So many at once, and then one for each step of time."""
        now = [0.0]
        callers = Callers(lambda: now[0], rate_per_s=0.5, burst=3)
        assert [callers.wait_s("a") for _ in range(4)] == [0, 0, 0, 2.0]
        now[0] = 1.0
        assert callers.wait_s("a") == 1.0
        now[0] = 2.0
        assert [callers.wait_s("a"), callers.wait_s("a")] == [0, 2.0]

    def test_addresses_have_nothing_to_do_with_each_other(self):
        """One that asks too often costs no other its turn."""
        callers = Callers(lambda: 0.0, rate_per_s=1, burst=1)
        assert [callers.wait_s(address) for address in ("a", "a", "b")] == [0, 1.0, 0]

    @given(st.lists(st.integers(0, 50), max_size=200))
    def test_memory_is_bounded_whoever_asks(self, addresses):
        """A million addresses cost no more than the first few."""
        callers = Callers(lambda: 0.0, rate_per_s=1, burst=1, most=8)
        for address in addresses:
            callers.wait_s(str(address))
            assert len(callers) <= 8

    @given(st.lists(st.floats(0, 10), max_size=60))
    def test_no_pace_beats_the_rate(self, waits):
        """Over any time no more get through than the burst and what the rate has added."""
        now, passed = [0.0], 0
        callers = Callers(lambda: now[0], rate_per_s=0.5, burst=4)
        for wait in waits:
            now[0] += wait
            passed += callers.wait_s("a") == 0
            assert passed <= 4 + 0.5 * now[0] + 1e-6
