"""A credential goes to its server and nowhere else: no error, context, log line or repr ever shows it."""

from __future__ import annotations

import logging
import pickle
import re
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
from grid_server import NOW, Answer, as_json, html, silent

from providers import registry
from providers.base import AuthError, BadRequest, ProviderError, Transient
from providers.redact import MASK, Redactor, Secret, bare

TOKEN = "tök/en+Abc 123=="  # needs escaping in a query, in both ways
PLAIN = "PlainToken98765"
KEYED = [
    (registry.create, "watttime", "CAISO_NORTH"),
    (registry.create, "eia", "CISO"),
    (registry.create, "entsoe", "FR"),
    (registry.create, "electricity_maps", "DE"),
    (registry.create, "open_electricity", "SA1"),
    (registry.create_prices, "entsoe", "FR"),
]


def _everything_said(error: BaseException) -> str:
    """The text, the repr, the traceback with our locals, and those of whatever hangs on as cause or context."""
    said = ["".join(traceback.format_exception(error))]
    pending: BaseException | None = error
    while pending is not None:
        said += [str(pending), repr(pending), repr(vars(pending)), repr(pending.args), *_locals(pending)]
        pending = pending.__cause__ or pending.__context__
    return "\n".join(said)


def _locals(error: BaseException) -> list[str]:
    """What a log with local variables in its tracebacks would show of our code."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = [frame for frame in frames if frame.f_globals["__name__"].startswith("providers.")]
    assert ours
    return [repr(value) for frame in ours for value in frame.f_locals.values()]


@pytest.mark.parametrize("token", [TOKEN, PLAIN])
@pytest.mark.parametrize(
    "answer",
    [
        lambda request: as_json({"error": f"bad key {request.query.get('securityToken')}"}, 401),
        lambda request: as_json({"message": f"{request.query.get('securityToken')}"}, 500),
        lambda request: html(403, f"<html>{request.query}</html>"),
        lambda _: Answer(b"{", declared=10),
        lambda _: silent(),
        lambda request: Answer(status=302, headers={"Location": "http://other.example/?securityToken=" + PLAIN}),
        lambda request: Answer(status=302, headers={"Location": f"/?{urlencode(request.query)}"}),
        lambda _: as_json({"data": []}),
    ],
    ids=["echo", "500", "html", "cut", "silent", "redirect", "ring", "fine"],
)
def test_a_token_in_the_query_is_never_told(server, make_session, caplog, token, answer):
    """Some sources want their key in the address; echoes, failures and debug logs keep it to themselves."""
    server.answer_with(answer)
    said = ""
    with caplog.at_level(logging.DEBUG):
        try:
            make_session(attempts=2, timeout=(5.0, 0.1)).get_json(
                server.url, params={"securityToken": Secret(token), "zone": "DE"}
            )
        except ProviderError as error:
            said = _everything_said(error)
    assert server.requests[0].query["securityToken"] == token
    for form in (token, "t%C3%B6k%2Fen%2BAbc", "t%C3%B6k/en%2BAbc", "Abc 123", PLAIN):
        assert form not in said
        assert form not in caplog.text
    assert "GET /" in caplog.text or "302" in caplog.text or "silent" in said


def test_a_token_in_a_header_is_never_told(server, make_session, caplog):
    """A server that echoes the header in its error gets its words masked."""
    server.answer_with(lambda request: as_json({"error": f"who is {request.headers['auth-token']}?"}, 401))
    with caplog.at_level(logging.DEBUG), pytest.raises(ProviderError) as caught:
        make_session().get_json(server.url, headers={"auth-token": Secret(PLAIN)})
    assert server.requests[0].headers["auth-token"] == PLAIN
    assert f"who is {MASK}?" in str(caught.value)
    assert PLAIN not in _everything_said(caught.value) + caplog.text


@pytest.mark.parametrize("token", [f"{PLAIN}\nX-Evil: yes", f"{PLAIN}\r", f"{PLAIN}\u2192\u2192"])
def test_a_token_that_cannot_be_sent_is_not_quoted(server, make_session, token):
    """A line break within a token injects no header, and the complaint about it names no part of it."""
    session = make_session(attempts=1)
    with pytest.raises(ProviderError) as caught:
        session.get_json(server.url, headers={"auth-token": Secret(token + "x")})
    assert isinstance(caught.value, BadRequest)
    assert PLAIN not in _everything_said(caught.value)
    assert not any("x-evil" in sent.headers for sent in server.requests)


@pytest.mark.parametrize(("create", "name", "zone"), KEYED)
def test_a_token_that_is_no_text_is_told_as_that(make_session, create, name, zone):
    """A password in Latin-1 in the environment: an error of ours, at once, that does not hold the password."""
    token = f"user:{PLAIN}\udce4"
    given = {"zone": zone, "options": {}, "base_url": None, "session": make_session(), "now": lambda: NOW}
    with pytest.raises(AuthError, match=f"{name}: the token is no UTF-8 text") as caught:
        create(name, token=token, **given)
    assert PLAIN not in f"{caught.value!r} {caught.value.__context__!r}"


def test_blanks_around_a_token_are_dropped(server, make_session):
    """A trailing newline from a secrets file is not part of the token."""
    make_session().get_json(server.url, headers={"auth-token": Secret(f" {PLAIN}\n")})
    assert server.requests[0].headers["auth-token"] == PLAIN


def test_passwords_of_a_proxy_are_not_told(server, make_session, monkeypatch, caplog):
    """A proxy that refuses is named as the reason, not its credentials."""
    monkeypatch.setenv("http_proxy", f"http://user:{PLAIN}@127.0.0.1:9")
    with caplog.at_level(logging.DEBUG), pytest.raises(Transient, match="proxy") as caught:
        make_session(attempts=1).get_json("http://grid.invalid/x")
    assert PLAIN not in _everything_said(caught.value) + caplog.text


def test_netrc_is_not_sent(server, make_session, monkeypatch, tmp_path):
    """Credentials that lie about for other programs stay there."""
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login someone password {PLAIN}\n")
    monkeypatch.setenv("NETRC", str(netrc))
    make_session().get_json(server.url)
    assert "authorization" not in server.requests[0].headers


def test_a_secret_shows_itself_on_request_only():
    """Neither repr, str, format nor pickle gives it away."""
    secret = Secret(PLAIN)
    assert secret.reveal() == PLAIN
    assert PLAIN not in f"{secret} {secret!r} {[secret]} {(secret,)!s}"
    assert bool(secret)
    assert not Secret("  ")
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("https://x/?securityToken=abc&zone=DE", "https://x/?securityToken=***&zone=DE"),
        ("api_key=abc", "api_key=***"),
        ("?a=1&X-Auth-Key=abc%20d&b=2", "?a=1&X-Auth-Key=***&b=2"),
        ("password=abc passwd=def secret=ghi", "password=*** passwd=*** secret=***"),
        ("the key zone=DE is fine", "the key zone=DE is fine"),
    ],
)
def test_telling_parameters_are_masked_by_name(text, cleaned):
    """Even a secret that nobody declared is masked where its name gives it away."""
    assert Redactor().clean(text) == cleaned


def test_a_secret_within_a_secret_is_masked_whole():
    """The longer form goes first, so that no tail of it is left."""
    redactor = Redactor()
    for value in ("abc", "abcdef"):
        redactor.protect(Secret(value))
    assert redactor.clean("abcdef abc") == f"{MASK} {MASK}"


def test_tokens_that_come_and_go_do_not_pile_up():
    """A year of them costs what a day costs, and those in use are masked however many came since they were first."""
    redactor = Redactor()
    lasting, newest = Secret(PLAIN), Secret("")
    sizes = []
    for number in range(3000):
        redactor.protect(lasting)
        newest = Secret(f"Bearer token-{number}-of-half-an-hour")
        redactor.protect(newest)
        sizes.append(sys.getsizeof(redactor._forms) + sum(map(sys.getsizeof, redactor._forms)))
    assert max(sizes) <= 1.1 * max(sizes[:300])
    assert redactor.clean(f"{PLAIN} {newest.reveal()} {newest.reveal().split()[1]}") == f"{MASK} {MASK} {MASK}"


def test_secrets_are_told_of_by_many_at_once():
    """None of them is lost between two threads."""
    redactor = Redactor()
    told = [[Secret(f"of {thread}, no {number}") for number in range(10)] for thread in range(20)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda secrets: [redactor.protect(secret) for secret in secrets], told))
    assert {redactor.clean(secret.reveal()) for secrets in told for secret in secrets} == {MASK}


@pytest.mark.parametrize("scheme", ["Bearer", "Basic"])
def test_a_secret_is_masked_without_its_scheme_too(server, make_session, scheme):
    """A server that echoes the token alone gives it away as much as one that echoes the whole header."""
    server.answer_with(lambda sent: as_json({"error": sent.headers["authorization"].split()[1]}, 401))
    with pytest.raises(ProviderError, match=re.escape(MASK)) as caught:
        make_session().get_json(server.url, headers={"Authorization": Secret(f"{scheme} {PLAIN}")})
    assert PLAIN not in _everything_said(caught.value)


def test_log_lines_without_secrets_stay_as_they_are():
    """Arguments are left for lazy formatting and for handlers that use them."""
    record = logging.LogRecord("x", logging.DEBUG, "", 0, "%s is %d", ("a", 1), None)
    redactor = Redactor()
    redactor.protect(Secret(PLAIN))
    assert redactor.filter(record)
    assert record.args == ("a", 1)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pw@grid.example:8443/v4/x?token=abc#frag", "https://grid.example:8443/v4/x"),
        ("http://[::1", "an address that cannot be read"),
        ("http://grid.example:99999/", "an address that cannot be read"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url, shown):
    """User, password and query are left out."""
    assert bare(url) == shown


def test_a_closed_session_leaves_no_filter_behind(make_session):
    """Sessions come and go on SIGHUP; the logging of others is left as it was."""
    logger = logging.getLogger("urllib3.connectionpool")
    before = list(logger.filters)
    session = make_session()
    assert len(logger.filters) == len(before) + 1
    session.close()
    assert logger.filters == before
