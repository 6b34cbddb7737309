"""Mixes with anything in them: intensities between those of their fuels, gaps, or one of our errors."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import timedelta
from xml.sax.saxutils import escape

import mix_fakes
import pytest
from grid_server import NOW, Request
from hypothesis import given, settings
from hypothesis import strategies as st
from mix_fakes import EST
from mutating import mutated, mutated_text, outcome

from providers.eia import Eia
from providers.ieso import Ieso
from providers.redact import Secret
from providers.session import Session
from providers.smard import Smard
from providers.transport import RawReply
from providers.xml import parse

HOUR = timedelta(hours=1)
NINE = NOW.replace(minute=0)
TODAY = NOW.astimezone(EST).date()
SPAN = (NOW - 5 * HOUR, NOW)
STATUSES = st.sampled_from([200, 200, 200, 200, 400, 403, 404, 500])


class Wired(Session):
    """A session whose wire is a function of the address: all but the socket is as in production."""

    def __init__(self, body_of, status=200):
        super().__init__(attempts=1, rate_per_s=1e6, burst=1000)
        self._body_of, self._status = body_of, status

    def _fetch(self, url, *_):
        return RawReply(url, self._status, "", None, "", "", self._body_of(url))


def plausible(provider, start, end, lowest, highest):
    """Each point lies between the factors of what there is, is labelled, and is an hour that has begun."""
    series = outcome(provider.observe, start, end)
    for point in series:
        assert lowest - 1e-6 <= point.g_per_kwh <= highest + 1e-6
        assert (point.zone, point.source) == (provider.zone, provider.name)
        assert point.method.startswith("ipcc-ar5.1")
        assert point.start < end
        assert point.end > start
        assert point.start <= NOW
        assert point.end - point.start == HOUR
        assert point.start.timestamp() % 3600 == 0
    return series


def asked(fake, path, query=None):
    return fake(lambda: NOW)(Request(path, query or {}, {})).body


def eia(session):
    return Eia(zone="CISO", options={}, token=Secret("k"), base_url=None, session=session, now=lambda: NOW)


def hours_of(document):
    """The rows of each period, as texts, of whatever still looks like rows."""
    try:
        rows = list(document["response"]["data"])
    except (TypeError, KeyError, IndexError):
        return {}
    found = defaultdict(list)
    for row in rows:
        if isinstance(row, dict):
            found[str(row.get("period"))].append(json.dumps(row, sort_keys=True))
    return found


EIA_DOCUMENT = mix_fakes.eia_reply([row for back in range(28, 0, -1) for row in mix_fakes.eia_hour(NINE - back * HOUR)])
EIA_HOURS = hours_of(EIA_DOCUMENT)
_SOUND = Wired(lambda _: json.dumps(EIA_DOCUMENT).encode())
EIA_TRUE = {point.start: point.g_per_kwh for point in eia(_SOUND).observe(*SPAN)}
_SOUND.close()


@settings(deadline=None)
@given(data=st.data())
def test_eia_survives_any_reply(data):
    """And an hour whose rows are as they were has its value, or is a gap because another fuel was seen elsewhere."""
    document = data.draw(mutated(EIA_DOCUMENT))
    session = Wired(lambda _: json.dumps(document).encode(), data.draw(STATUSES))
    rows = hours_of(document)
    for point in plausible(eia(session), *SPAN, 11, 820):
        period = f"{point.end:%Y-%m-%dT%H}"
        assert rows[period] != EIA_HOURS[period] or point.g_per_kwh == pytest.approx(EIA_TRUE[point.start])
    session.close()


@settings(deadline=None)
@given(data=st.data())
def test_smard_survives_any_reply(data):
    """An index and a week of one fuel that are broken."""
    broken = data.draw(st.sampled_from(["4071/", "4067/", "1223/", "index"]))
    drawn = {}

    def body_of(url):
        body = asked(mix_fakes.smard, url.removeprefix("https://www.smard.de/app/chart_data"))
        if broken not in url:
            return body
        if url not in drawn:
            drawn[url] = json.dumps(data.draw(mutated(_short(json.loads(body))))).encode()
        return drawn[url]

    session = Wired(body_of, data.draw(STATUSES))
    provider = Smard(zone="DE", options={}, base_url=None, session=session, now=lambda: NOW)
    plausible(provider, *SPAN, 10.7, 1113)
    session.close()


def _short(document):
    """The days that matter, since each of a week's places is drawn with the same chance."""
    if "series" not in document:
        return {"timestamps": document["timestamps"][-3:]}
    first = mix_fakes.milliseconds(NOW - 30 * HOUR)
    return {**document, "series": [pair for pair in document["series"] if first <= pair[0] <= first + 33 * 3_600_000]}


def edited(data, text):
    """Bytes of it cut out, put in and swapped, or a few of its elements dropped, doubled, or with other content."""
    if data.draw(st.booleans()):
        return data.draw(mutated_text(text))
    root = parse(text, "the fixture")
    return "".join(rendered(data.draw(mutated({root.tag: tree(root)})))).encode()


def tree(element):
    """Texts, or lists of the children of a name."""
    found = {}
    for child in element:
        found.setdefault(child.tag, []).append(tree(child))
    return found or element.text


def rendered(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            for one in inner if isinstance(inner, list) else [inner]:
                if name.isascii() and name.isidentifier():
                    yield from (f"<{name}>", *rendered(one), f"</{name}>")
    elif isinstance(value, list):
        for one in value:
            yield from rendered(one)
    elif value is not None:
        yield "".join(sign for sign in escape(shown(value)) if sign.isprintable())


def shown(value):
    return value if isinstance(value, str) else f"{value:e}" if isinstance(value, float) else repr(value)[:400]


@settings(deadline=None)
@given(data=st.data())
def test_ieso_survives_any_edit_of_its_plants(data):
    """Of today's file, while yesterday's is as it should be."""
    today = edited(data, mix_fakes.ieso_plants(TODAY, 4))
    yesterday = mix_fakes.ieso_plants(TODAY - timedelta(days=1), 24).encode()
    session = Wired(lambda url: today if f"{TODAY:%Y%m%d}" in url else yesterday, data.draw(STATUSES))
    provider = Ieso(zone="CA-ON", options={}, base_url=None, session=session, now=lambda: NOW)
    plausible(provider, *SPAN, 11, 700)
    session.close()


@settings(deadline=None)
@given(data=st.data())
def test_ieso_survives_any_edit_of_its_year(data):
    """The same of the part of a year's file."""
    days = [TODAY - timedelta(days=back) for back in (5, 4, 3)]
    part = edited(data, f"<DocBody>{''.join(mix_fakes.ieso_daily(day, [1, 2, 23, 24]) for day in days)}</DocBody>")
    session = Wired(lambda _: part, data.draw(STATUSES))
    provider = Ieso(zone="CA-ON", options={}, base_url=None, session=session, now=lambda: NOW)
    plausible(provider, NOW - 96 * HOUR, NOW - 72 * HOUR, 11, 700)
    session.close()
