"""XML and text from a real server: read as it is meant, and refused where it could hurt."""

from __future__ import annotations

import pytest
from grid_server import Answer, as_json, cut, html

from providers.base import BadRequest, NoData, RateLimited, SchemaError, Transient
from providers.session import Lane
from providers.xml import text_of

DOCUMENT = b'<?xml version="1.0"?><m:Doc xmlns:m="urn:x:1"><m:Point><m:position> 3 </m:position></m:Point></m:Doc>'
BOMB = b'<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><d>&b;</d>'
OUTSIDE = b'<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/passwd">]><d>&a;</d>'


def xml(body):
    return Answer(body, content_type="application/xml")


def test_tags_lose_their_namespace(server, session):
    """Namespaces change with the version of a document; names do not."""
    server.answer_with(xml(DOCUMENT))
    root = session.get_xml(f"{server.url}/x")
    assert root.tag == "Doc"
    assert text_of(root, "Point/position") == "3"
    assert text_of(root, "Point/quantity") == ""


@pytest.mark.parametrize("body", [BOMB, OUTSIDE])
def test_entities_are_refused(server, session, body):
    """Neither a thousand laughs nor a file of this machine."""
    server.answer_with(xml(body))
    with pytest.raises(SchemaError, match="refused"):
        session.get_xml(f"{server.url}/x")


@pytest.mark.parametrize("answer", [xml(DOCUMENT[:-9]), cut(xml(DOCUMENT)), html(), xml(b""), xml(b"plain words")])
def test_what_is_no_xml_may_work_again(server, make_session, answer):
    """A cut body, a sign-in page, nothing, and words."""
    server.answer_with(answer)
    with pytest.raises(Transient):
        make_session(attempts=1).get_xml(f"{server.url}/x")


def test_text_comes_without_its_byte_order_mark(server, session):
    """CSV is text, whatever the server calls it."""
    server.answer_with(Answer(b"\xef\xbb\xbfTime,Gas\n00:00,1\n", content_type="application/octet-stream"))
    assert session.get_text(f"{server.url}/a.csv").startswith("Time,")


@pytest.mark.parametrize("answer", [html(), Answer(), as_json({"message": "no"}, 503)])
def test_a_page_instead_of_text_is_an_error(server, make_session, answer):
    """A proxy's page is no data."""
    server.answer_with(answer)
    with pytest.raises(Transient):
        make_session(attempts=1).get_text(f"{server.url}/a.csv")


def test_unchanged_is_said_by_304(server, session):
    """With the tag of before, the server need not send it again."""
    server.answer_with(as_json({"n": 1}, ETag='"a"'), Answer(status=304))
    first = session.get(f"{server.url}/x")
    again = session.get(f"{server.url}/x", headers={"If-None-Match": first.etag})
    assert (first.etag, first.status, again.status, again.data) == ('"a"', 200, 304, None)


def test_a_lane_is_asked_once_in_its_time(server, make_session, clock):
    """Two datasets of one host do not wait for each other; the second request for one waits, or is refused."""
    server.answer_with(as_json({"n": 1}))
    session = make_session(deadline_s=90.0)
    began = clock.monotonic()
    session.get_json(f"{server.url}/a", lane=Lane("grid/a", 60.0))
    session.get_json(f"{server.url}/b", lane=Lane("grid/b", 60.0))
    assert clock.monotonic() == began
    session.get_json(f"{server.url}/a", lane=Lane("grid/a", 60.0))
    assert clock.monotonic() - began == pytest.approx(60.0)
    hasty = make_session(deadline_s=30.0)
    hasty.get_json(f"{server.url}/a", lane=Lane("grid/a", 60.0))
    with pytest.raises(RateLimited):
        hasty.get_json(f"{server.url}/a", lane=Lane("grid/a", 60.0))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"no content\r\nfound", "404: no content found"),
        (b'"no content found"', "404: no content found"),
        (b"[1, 2]", "404$"),
        (b"x" * 5000, "404$"),
    ],
)
def test_what_is_wrong_may_be_said_in_plain_text(server, make_session, body, said):
    """A line of text, or a JSON text, is the source's own words like the message of an object."""
    server.answer_with(Answer(body, 404))
    with pytest.raises(BadRequest, match=said):
        make_session(attempts=1).get_json(server.url)


@pytest.mark.parametrize(("every_s", "requests"), [(60.0, 1), (10.0, 3)])
def test_a_failure_in_a_lane_is_told_as_itself(server, session, every_s, requests):
    """Where the lane leaves no time for another try the server's fault is what is told, not our own waiting."""
    server.answer_with(html(503))
    with pytest.raises(Transient, match="503"):
        session.get_json(server.url, lane=Lane("grid", every_s))
    assert len(server.requests) == requests


def test_a_judge_sees_the_text(server, session):
    """An acknowledgement under a 200 may mean that there is nothing."""
    server.answer_with(xml(b"<Acknowledgement/>"))
    with pytest.raises(NoData):
        session.get_xml(f"{server.url}/x", judge=lambda reply: NoData("none") if "Ackn" in reply.text else None)
