"""How we ask: tries, waits, bounds, and what each misbehaving server becomes."""

from __future__ import annotations

import threading
import time
import tracemalloc
from email.utils import format_datetime
from urllib.parse import urlsplit

import pytest
from grid_server import NOW, Answer, as_json, bomb, cut, dripping, html, overlong, silent, zipped

from providers.base import AuthError, BadRequest, NoData, ProviderError, RateLimited, SchemaError, Transient
from providers.session import Session
from providers.transport import _same_place

GOOD = as_json({"data": [{"value": 148}]})


def test_json_is_handed_over_parsed(server, session):
    """A good answer arrives as it was meant, whatever content type it claims."""
    server.answer_with(GOOD, Answer(GOOD.body, content_type="text/plain"), zipped(GOOD))
    assert [session.get_json(server.url) for _ in range(3)] == [{"data": [{"value": 148}]}] * 3


def test_its_clock_is_the_one_it_waits_by(session, clock):
    """What expires by it is not kept alive by a step of the wall clock."""
    before = session.monotonic()
    clock.advance(90.0)
    assert session.monotonic() - before == 90.0


def test_what_is_shared_is_made_once(session, make_session):
    """Two providers of one session have the same login or dataset, those of another session their own."""
    made = []
    assert session.shared(("grid", 1), lambda: made.append(1) or object()) is session.shared(("grid", 1), object)
    assert session.shared(("grid", 2), object) is not make_session().shared(("grid", 2), object)
    assert made == [1]


def test_the_request_carries_what_was_given(server, session):
    """Parameters, headers and a polite introduction go out; nothing asks for encodings we cannot bound."""
    session.get_json(f"{server.url}/v4/latest", params={"zone": "GB"}, headers={"auth-token": "t"})
    sent = server.requests[0]
    assert (sent.path, sent.query) == ("/v4/latest", {"zone": "GB"})
    assert sent.headers["auth-token"] == "t"
    assert sent.headers["accept"] == "application/json"
    assert sent.headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (as_json({"error": "bad horizon"}, 400), BadRequest, "bad horizon"),
        (as_json({"error": "no"}, 401), AuthError, "401: no"),
        (as_json({"error": "no"}, 403), AuthError, "403"),
        (html(403), Transient, "HTML"),
        (as_json({"message": "nothing here"}, 404), BadRequest, "nothing here"),
        (Answer(status=410), BadRequest, "410"),
        (as_json({}, 408), Transient, "408"),
        (as_json({}, 500), Transient, "500"),
        (html(502), Transient, "HTML"),
        (as_json({}, 503), Transient, "503"),
        (Answer(status=204), NoData, "204"),
        (Answer(), Transient, "empty"),
        (Answer(b"  \n"), Transient, "empty"),
        (html(200), Transient, "HTML"),
        (Answer(b"value,148"), Transient, "no JSON"),
        (Answer(b'{"a": ' * 100_000), Transient, "no JSON"),
        (Answer(b'{"a": ' + b"9" * 5000 + b"}"), Transient, "no JSON"),
        (Answer(b'{"a": "\xff"}'), Transient, "no JSON"),
        (cut(GOOD), Transient, "cut"),
        (overlong(GOOD), Transient, "no JSON"),
        (
            as_json({"error": {"code": "500 Internal Server Error", "message": "not found"}}),
            Transient,
            "500: not found",
        ),
        (as_json({"error": {"code": "400 Bad Request", "message": "a date"}}), BadRequest, "400: a date"),
        (as_json({"status": "error", "message": "odd"}), Transient, "odd"),
        (Answer(b"{}", headers={"Content-Encoding": "br"}), Transient, "encoding 'br'"),
        (Answer(b"{}", headers={"Content-Encoding": "gzip"}), Transient, "unpacked"),
        (Answer(zipped(GOOD).body[:-9], headers={"Content-Encoding": "gzip"}), Transient, "cut"),
    ],
)
def test_each_bad_answer_has_its_class(server, make_session, answer, error, text):
    """Status, content type and body together decide, and the text says what came."""
    server.answer_with(answer)
    session = make_session(attempts=1)
    with pytest.raises(error, match=text) as caught:
        session.get_json(f"{server.url}/v4/latest")
    assert server.host in str(caught.value) or "encoding" in str(caught.value)
    assert not isinstance(caught.value, SchemaError)


def test_a_silent_server_is_left_at_its_timeout(server, make_session):
    """Nothing within the read timeout is told as silence."""
    server.answer_with(silent())
    with pytest.raises(Transient, match="silent"):
        make_session(attempts=1, timeout=(0.5, 0.1)).get_json(server.url)


def test_a_closed_door_is_transient(server, make_session):
    """Connection refused is told in the system's own words."""
    server.close()
    with pytest.raises(Transient, match="refused"):
        make_session(attempts=1).get_json(server.url)


def test_a_name_that_does_not_resolve_is_transient(make_session):
    """The name service may be back in a minute."""
    with pytest.raises(Transient, match=r"grid\.invalid"):
        make_session(attempts=1).get_json("http://grid.invalid/")


def test_tls_trouble_is_transient(server, make_session):
    """A server that does not speak TLS is named as such."""
    with pytest.raises(Transient, match="TLS failed"):
        make_session(attempts=1).get_json(f"https://{server.host}/")


@pytest.mark.parametrize(
    "url", ["http://", "ftp://grid.example/x", "grid.example", "http://[::1", "http://a" + "b" * 80]
)
def test_an_address_that_cannot_be_used_is_our_fault(make_session, url):
    """A broken base_url never looks like a server that is down for the moment, unless only its name is unknown."""
    with pytest.raises((BadRequest, Transient)):
        make_session(attempts=1).get_json(url)


def test_a_passing_fault_is_tried_again_with_growing_waits(server, session, clock):
    """Two failures and a success are a success, half a second and a second later."""
    server.answer_with(as_json({}, 500), Answer(), GOOD)
    assert session.get_json(server.url)
    assert clock.monotonic() == pytest.approx(0.5 + 1.0)


def test_waits_are_spread(server, make_session, clock):
    """Jitter takes up to half of each wait, so that a thousand nodes do not come back at once."""
    server.answer_with(as_json({}, 500), GOOD)
    make_session(jitter=lambda: 0.0).get_json(server.url)
    assert clock.monotonic() == pytest.approx(0.25)


@pytest.mark.parametrize(
    "answer", [as_json({}, 400), as_json({}, 401), as_json({}, 404), as_json({}, 410), as_json({}, 429)]
)
def test_what_a_retry_cannot_mend_is_asked_once(server, session, answer):
    """Bad requests, bad credentials, and a limit without a time get no second request."""
    server.answer_with(answer)
    with pytest.raises(ProviderError):
        session.get_json(server.url)
    assert len(server.requests) == 1


def test_it_gives_up_after_its_attempts(server, session):
    """The last error is the one that is told."""
    server.answer_with(as_json({}, 500), as_json({}, 502), as_json({}, 503), GOOD)
    with pytest.raises(Transient, match="503"):
        session.get_json(server.url)
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured_in_both_forms(server, session, clock, status, form):
    """A short wait is waited, then the answer is taken."""
    when = "7" if form == "seconds" else format_datetime(NOW.replace(second=7), usegmt=True)
    server.answer_with(as_json({}, status, Retry_After=when), GOOD)
    assert session.get_json(server.url)
    assert clock.monotonic() == pytest.approx(7.0)


def test_a_long_retry_after_is_reported_and_kept(server, session, clock):
    """Nobody waits ten minutes in a call; until then the host is not asked at all."""
    server.answer_with(as_json({}, 429, Retry_After="600"), GOOD)
    with pytest.raises(RateLimited) as first:
        session.get_json(server.url)
    clock.advance(300)
    with pytest.raises(RateLimited) as second:
        session.get_json(server.url)
    assert (first.value.retry_after_s, second.value.retry_after_s) == (600.0, pytest.approx(300.0))
    assert len(server.requests) == 1
    clock.advance(301)
    assert session.get_json(server.url)


def test_one_host_that_limits_us_does_not_slow_another(server, elsewhere, session, clock):
    """Hold-offs and buckets are kept for each host."""
    server.answer_with(as_json({}, 429, Retry_After="600"))
    elsewhere.answer_with(GOOD)
    with pytest.raises(RateLimited):
        session.get_json(server.url)
    assert session.get_json(elsewhere.url)
    assert clock.monotonic() == 0.0


def test_a_host_is_asked_at_its_pace(server, make_session, clock):
    """After the burst each request waits its turn."""
    server.answer_with(GOOD)
    session = make_session(rate_per_s=0.5, burst=2)
    for _ in range(4):
        session.get_json(server.url)
    assert clock.monotonic() == pytest.approx(4.0)


@pytest.mark.parametrize(
    "answer",
    [
        dripping(Answer(b" " * 400 + GOOD.body)),
        dripping(Answer(b" " * 400 + GOOD.body), chunked=True),
        Answer(drip_headers=True, each_s=0.05),
    ],
    ids=["body", "chunk", "headers"],
)
def test_a_dripping_answer_cannot_hold_us(server, answer):
    """Each byte comes in time, and still the call ends at its deadline."""
    server.answer_with(answer)
    session = Session(timeout=(0.5, 0.5), deadline_s=0.4, attempts=1)
    began = time.monotonic()
    with pytest.raises(Transient, match=r"within 0\.\d+ s|drips"):
        session.get_json(server.url)
    assert time.monotonic() - began < 1.5
    session.close()


def test_requests_left_hanging_do_not_pile_up(server):
    """When all threads hang, a new call ends at its deadline instead of starting one more."""
    server.answer_with(Answer(drip_headers=True, each_s=0.05))
    session = Session(timeout=(0.5, 0.5), deadline_s=0.05, attempts=1, burst=100)
    before = threading.active_count()
    for _ in range(12):
        with pytest.raises(Transient):
            session.get_json(server.url)
    assert sum(thread.name == "deadline" for thread in threading.enumerate()) <= 8
    assert threading.active_count() < before + 8 + 12 + 2  # ours, the server's, and a margin
    session.close()


def test_a_gzip_bomb_stays_packed(server, make_session):
    """64 MiB in 64 KiB are refused at the cap, and never held."""
    server.answer_with(bomb(64))
    session = make_session(max_bytes=1024 * 1024, attempts=1)
    tracemalloc.start()
    with pytest.raises(Transient, match="more than 1048576 bytes"):
        session.get_json(server.url)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 1024 * 1024


def test_a_huge_plain_body_is_refused(server, make_session):
    """The cap holds without compression too."""
    server.answer_with(Answer(b" " * 200_000 + b"{}"))
    with pytest.raises(Transient, match="more than 100000 bytes"):
        make_session(max_bytes=100_000, attempts=1).get_json(server.url)


def test_a_redirect_on_the_same_server_is_followed(server, session):
    """A moved path costs one more request and keeps its header."""
    server.answer_with(Answer(status=301, headers={"Location": "/v4/latest"}), GOOD)
    assert session.get_json(server.url, headers={"auth-token": "t"})
    assert [sent.headers["auth-token"] for sent in server.requests] == ["t", "t"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_elsewhere_is_not_followed(server, elsewhere, session, status):
    """The other host gets no request at all, hence no token; the error says where it pointed."""
    server.answer_with(Answer(status=status, headers={"Location": f"{elsewhere.url}/v4?auth-token=abcdef"}))
    with pytest.raises(BadRequest, match=f"moved to {elsewhere.url}/v4") as caught:
        session.get_json(server.url, headers={"auth-token": "t"})
    assert elsewhere.requests == []
    assert "abcdef" not in str(caught.value)


@pytest.mark.parametrize(
    ("here", "there", "same"),
    [
        ("https://grid.example/a", "https://grid.example/b", True),
        ("https://grid.example/a", "https://grid.example:443/b", True),
        ("https://GRID.example/a", "https://grid.example/b", True),
        ("http://grid.example/a", "https://grid.example/b", True),
        ("https://grid.example/a", "http://grid.example/b", False),
        ("https://grid.example/a", "https://grid.example:8443/b", False),
        ("http://grid.example:8080/a", "https://grid.example/b", False),
        ("https://grid.example/a", "https://evil.example/b", False),
        ("https://grid.example/a", "https://grid.example.evil.example/b", False),
        ("https://grid.example/a", "https://grid.example@evil.example/b", False),
        ("https://grid.example/a", "ftp://grid.example/b", False),
        ("https://grid.example/a", "file:///etc/passwd", False),
    ],
)
def test_what_counts_as_the_same_server(here, there, same):
    """One origin, or its encrypted door; never another name, another port, or back to plain text."""
    assert _same_place(urlsplit(here), urlsplit(there)) is same


def test_a_redirect_to_nonsense_is_ours_to_report(server, make_session):
    """An address that cannot even be read ends as a ProviderError."""
    for location in ("http://[::1", "http://127.0.0.1:99999/", "//", "http:///x"):
        server.answer_with(Answer(status=302, headers={"Location": location}))
        with pytest.raises(ProviderError):
            make_session(attempts=1).get_json(server.url)


def test_redirects_in_a_ring_end(server, make_session):
    """A server that sends us round is left after a few turns."""
    server.answer_with(Answer(status=302, headers={"Location": "/again"}))
    with pytest.raises(Transient, match="redirects without end"):
        make_session(attempts=1).get_json(server.url)
    assert len(server.requests) == 4


def test_the_judge_of_a_source_comes_first(server, session):
    """A source's own meaning of a reply wins over what its status usually means."""
    server.answer_with(as_json({"message": "no content found"}, 404))
    with pytest.raises(NoData, match="no content found"):
        session.get_json(server.url, judge=lambda reply: NoData(reply.message) if reply.status == 404 else None)


def test_closing_wakes_whoever_waits(server):
    """A service that stops does not wait for a silent server, nor for a back-off."""
    server.answer_with(silent(30.0))
    session = Session(timeout=(5.0, 30.0))
    failures: list[ProviderError] = []

    def ask() -> None:
        try:
            session.get_json(server.url)
        except ProviderError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while not server.requests:
        time.sleep(0.005)
    session.close()
    thread.join(timeout=5.0)
    assert not thread.is_alive()
    assert [str(failure).split(": ")[-1] for failure in failures] == ["closed"]
    with pytest.raises(Transient, match="closed"):
        session.get_json(server.url)


def test_an_unforeseen_fault_below_is_still_ours(server, session, monkeypatch):
    """A bug in a library ends as ProviderError without its text, which may quote anything."""
    monkeypatch.setattr("providers.transport.Transport.get", lambda *_, **__: 1 / 0)
    with pytest.raises(Transient, match="ZeroDivisionError") as caught:
        session.get_json(server.url)
    assert caught.value.__context__ is None
