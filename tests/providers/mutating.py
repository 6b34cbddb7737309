"""Replies with a few places broken, and what may come of them: values that were sent, gaps, or one of our errors."""

from __future__ import annotations

import copy
import math
from datetime import timedelta

from hypothesis import strategies as st

from providers.base import ProviderError, Series
from providers.reading import MOST_G_PER_KWH
from providers.session import Session
from providers.transport import RawReply

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        [
            "2026-03-04T08:00Z",
            "2026-03-04",
            "0001-01-01T00:00+14:00",
            "9999-12-31T23:59-14:00",
            "9999-12-31T23:30Z",
            "GB",
            "hourly",
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=6,
)


class Replayed(Session):
    """A session whose wire is one prepared reply: all but the socket is as in production."""

    def __init__(self, body: bytes, status: int, content_type: str = "application/json") -> None:
        super().__init__(attempts=1, rate_per_s=1e6, burst=1000)
        self._raw = RawReply("http://grid/x", status, content_type, None, "", "", body)

    def _fetch(self, *_):
        return self._raw


def _paths(document: object, path: tuple = ()) -> list[tuple]:
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path, *(found for key, value in inner for found in _paths(value, (*path, key)))]


@st.composite
def mutated(draw, document: object) -> object:
    """A few places dropped, replaced, or doubled."""
    result = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 4))):
        path = draw(st.sampled_from(_paths(result)))
        if not path:
            if draw(st.booleans()):
                return draw(VALUES)
            continue
        holder = result
        for key in path[:-1]:
            holder = holder[key]
        how = draw(st.sampled_from(["drop", "replace", "double"]))
        if how == "drop":
            del holder[path[-1]]
        elif how == "replace":
            holder[path[-1]] = draw(VALUES)
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[path[-1]]))
    return result


@st.composite
def mutated_text(draw, text: str) -> bytes:
    """A few stretches of CSV or XML cut out, put in, or exchanged."""
    content = bytearray(text.encode())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        content[at : at + draw(st.integers(0, 8))] = draw(
            st.binary(max_size=6) | st.sampled_from([b"-", b"nan", b"1e9"])
        )
    return bytes(content)


def _numbers(document: object) -> set[float]:
    if isinstance(document, dict):
        return set().union(*map(_numbers, document.values()))
    if isinstance(document, list):
        return set().union(*map(_numbers, document))
    real = isinstance(document, int | float) and not isinstance(document, bool)
    return {float(document)} if real and abs(document) < 1e300 and not math.isnan(document) else set()


def outcome(ask, start, end) -> Series:
    """The points; none where it was refused, and then in one line."""
    failure = ""
    try:
        return ask(start, end)
    except ProviderError as error:
        failure = str(error)
    assert failure
    assert "\n" not in failure
    assert len(failure) < 600
    return Series()


def check(ask, start, end, document) -> None:
    series = outcome(ask, start, end)
    written = _numbers(document)
    for point in series:
        assert point.g_per_kwh in written
        assert 0 <= point.g_per_kwh <= MOST_G_PER_KWH
        assert point.start < end
        assert point.end > start
        assert point.end - point.start <= timedelta(hours=1)
