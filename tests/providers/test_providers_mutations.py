"""Replies and files with anything in them: points, gaps or a ProviderError, and no number that was not there."""

from __future__ import annotations

import json
from datetime import timedelta

import grid_fakes
import pytest
from grid_server import NOW, Request
from hypothesis import given, settings
from hypothesis import strategies as st
from mutating import Replayed, check, mutated, outcome

from providers.base import ProviderError
from providers.electricity_maps import ElectricityMaps
from providers.file import FileProvider
from providers.neso import Neso
from providers.reading import MOST_G_PER_KWH
from providers.redact import Secret
from providers.reply import judge_by_status, read
from providers.transport import RawReply

SPAN = timedelta(hours=24)


def _recorded(source: str, endpoint: str, zone: str = "GB") -> object:
    """A healthy document of the source, parsed."""
    if source == "neso":
        return json.loads(grid_fakes.neso(lambda: NOW)(Request(f"/intensity/{endpoint}", {}, {})).body)
    query = {"zone": zone, "horizonHours": "6"}
    return json.loads(grid_fakes.electricity_maps(lambda: NOW)(Request(f"/v4/{endpoint}", query, {})).body)


@pytest.mark.parametrize("options", [{}, {"regionid": 13}])
@settings(deadline=None)
@given(data=st.data())
def test_neso_survives_any_reply(options, data):
    """Both endpoints, national and regional."""
    path = "2026-03-04T00:00Z/2026-03-04T09:30Z"
    document = _recorded("neso", path)
    if options:
        rows = [{**row, "intensity": {"forecast": 90 + n}} for n, row in enumerate(document["data"])]
        document = {"data": {"regionid": 13, "data": rows}}
    document = data.draw(mutated(document))
    session = Replayed(json.dumps(document).encode(), data.draw(st.sampled_from([200, 200, 200, 400, 404, 500])))
    provider = Neso(zone="GB", options=options, base_url=None, session=session, now=lambda: NOW)
    check(provider.observe, NOW - SPAN, NOW, document)
    check(provider.forecast, NOW, NOW + SPAN, document)
    session.close()


@pytest.mark.parametrize("endpoint", ["latest", "history", "forecast"])
@settings(deadline=None)
@given(data=st.data())
def test_electricity_maps_survives_any_reply(endpoint, data):
    """Each endpoint's reply given to each question."""
    document = data.draw(mutated(_recorded("electricity_maps", endpoint)))
    status = data.draw(st.sampled_from([200, 200, 200, 400, 401, 403, 404, 500]))
    session = Replayed(json.dumps(document).encode(), status)
    given_ = {"zone": "GB", "options": {}, "token": Secret("t"), "base_url": None}
    provider = ElectricityMaps(**given_, session=session, now=lambda: NOW)
    for ask, start, end in (
        (provider.observe, NOW - SPAN, NOW),
        (provider.observe, NOW, NOW),
        (provider.forecast, NOW, NOW + SPAN),
    ):
        check(ask, start, end + timedelta(seconds=1), document)
    session.close()


@settings(deadline=None)
@given(st.data())
def test_a_table_survives_any_edit(tmp_path_factory, data):
    """Bytes cut out, put in and swapped: rows that still read as rows, or an error of one line."""
    form = data.draw(st.sampled_from(["csv", "json", "jsonl"]))
    rows = [{"start": f"2026-03-04T{hour:02}:00Z", "g_per_kwh": 100 + hour, "kind": "measured"} for hour in range(6)]
    text = {
        "csv": "start,g_per_kwh,kind\n" + "".join(f"{row['start']},{row['g_per_kwh']},measured\n" for row in rows),
        "json": json.dumps(rows),
        "jsonl": "".join(f"{json.dumps(row)}\n" for row in rows),
    }[form]
    content = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=6))
    path = tmp_path_factory.mktemp("edit") / "grid"
    path.write_bytes(content)
    provider = FileProvider(zone="GB", options={"path": str(path), "format": form}, now=lambda: NOW)
    points = outcome(provider.observe, NOW - SPAN, NOW)
    assert all(0 <= point.g_per_kwh <= MOST_G_PER_KWH for point in points)


@given(st.binary(max_size=200), st.sampled_from([200, 204, 302, 401, 429, 500]), st.text(max_size=20))
def test_any_body_is_judged(body, status, content_type):
    """Whatever comes is data or one of our errors, and its message is one short line."""
    raw = RawReply("http://grid/x", status, content_type, None, "", "", body)
    reply = read(raw, now=NOW, clean=str)
    error = judge_by_status(reply)
    assert error is None or isinstance(error, ProviderError)
    assert "\n" not in reply.message
    assert len(reply.message) <= 200
