"""The API over its real socket: who may do what, and what bad input gets."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chase.errors import ChaseError

ALICE, BOB = 4001, 4002
ID = "a" * 16


def new_job(bench, **more) -> dict:
    return {"id": ID, "name": "train", "gpus": [bench.gpus[0].uuid], "profile": "a40-resnet50", **more}


class TestLifeOfAJob:
    def test_register_report_end(self, served, bench):
        """The whole conversation of a client, with the account at its end."""
        told = served.ask("POST", "/v1/jobs", new_job(bench))
        assert (told["id"], told["control"], told["clock_rate"]) == (ID, "control", 1.0)
        bench.grid.g_per_kwh = 500.0
        bench.signal.poll()
        bench.clock.advance(5)
        bench.controller.tick()
        told = served.ask("POST", f"/v1/jobs/{ID}/report", {"units_done": 100})
        assert told["mode"] == "efficiency-first"
        assert told["setting"] == {"power_limit_w": 200.0}
        assert told["intensity_g_per_kwh"] == 500.0
        bench.clock.advance(5)
        summary = served.ask("POST", f"/v1/jobs/{ID}/end", {"units_done": 200, "reason": "done"})["summary"]
        assert summary["units"] == 200
        assert (summary["decisions"], summary["counted_in"]) == (1, "steps")
        assert bench.store.jobs()[0].end_reason == "done"

    def test_status_says_that_the_gpus_are_simulated(self, served, bench):
        """Simulated hardware is named so everywhere it shows."""
        status = served.ask("GET", "/v1/status")
        assert status["service"]["simulated"] is True
        assert all("Simulated" in gpu["name"] for gpu in status["gpus"])

    def test_a_report_of_an_unknown_job_is_404(self, served):
        """On which a client registers again."""
        with pytest.raises(ChaseError) as caught:
            served.ask("POST", f"/v1/jobs/{ID}/report", {"units_done": 1})
        assert caught.value.status == 404


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
class TestWhoCalls:
    def test_the_kernel_says_who_calls(self, served, bench):
        """A job belongs to the uid of the socket's peer, whatever the body or a header claims."""
        status, _ = served.as_user(ALICE, "POST", "/v1/jobs", new_job(bench, pid=1))
        assert status == 200
        job = served.ask("GET", "/v1/status")["jobs"][0]
        assert job["uid"] == ALICE
        assert job["pid"] != 1

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("POST", f"/v1/jobs/{ID}/report", {"units_done": 5}),
            ("POST", f"/v1/jobs/{ID}/end", {"units_done": 5}),
            ("POST", "/v1/holds", {"mode": "off", "job": ID}),
            ("DELETE", "/v1/holds", {"job": ID}),
        ],
    )
    def test_nobody_touches_anothers_job(self, served, bench, method, path, body):
        """Report, end, hold and unhold: the owner's and root's alone."""
        served.as_user(ALICE, "POST", "/v1/jobs", new_job(bench))
        status, answer = served.as_user(BOB, method, path, body)
        assert (status, answer["error"]["code"]) == (403, "not-yours")
        assert served.as_user(ALICE, method, path, body)[0] == 200

    def test_a_gpu_of_anothers_job_is_taken(self, served, bench):
        """A second user cannot register on it; root can."""
        served.as_user(ALICE, "POST", "/v1/jobs", new_job(bench))
        status, answer = served.as_user(BOB, "POST", "/v1/jobs", new_job(bench, id="b" * 16))
        assert (status, answer["error"]["code"]) == (403, "gpu-taken")
        assert served.ask("POST", "/v1/jobs", new_job(bench, id="c" * 16))["id"] == "c" * 16

    def test_forwarded_headers_change_nothing(self, served, bench):
        """X-Forwarded-For is not the kernel's word."""
        body = json.dumps(new_job(bench)).encode()
        served.post("/v1/jobs", body, headers=b"X-Forwarded-For: 4001\r\nForwarded: for=4001\r\n")
        assert served.ask("GET", "/v1/status")["jobs"][0]["uid"] == os.geteuid()


class TestBadInput:
    def test_the_socket_is_never_open_to_all(self, served):
        """0660 from its first moment."""
        assert served.mode == 0o660

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"surprise": 1}, "surprise"),
            ({"total_units": "many"}, "total_units"),
            ({"gpus": "GPU-1"}, "gpus"),
            ({"gpus": []}, "GPUs"),
            ({"name": ""}, "name"),
            ({"name": "x" * 201}, "name"),
            ({"id": "../.."}, "id"),
            ({"units_done": -1}, "units_done"),
            ({"policy": {"eta": 7}}, "eta"),
            ({"policy": {"nmae": "off"}}, "nmae"),
            ({"region": "atlantis"}, "atlantis"),
        ],
    )
    def test_a_wrong_field_is_named(self, served, bench, change, told):
        """422 with the field in the text, and nothing is registered."""
        status, answer = served.post("/v1/jobs", json.dumps(new_job(bench) | change).encode())
        assert status == 422
        assert told in answer["error"]["message"]
        assert len(bench.controller.jobs) == 0

    @pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999"])
    def test_numbers_that_are_none(self, served, bench, number):
        """Non-finite numbers are refused at the edge."""
        served.ask("POST", "/v1/jobs", new_job(bench))
        status, _ = served.post(f"/v1/jobs/{ID}/report", b'{"units_done": %s}' % number)
        assert status == 422

    def test_a_body_that_is_too_large(self, served):
        """Refused by its announced length, before it is read."""
        assert served.post("/v1/jobs", b"x", length=10_000_000)[0] == 413

    def test_a_body_without_a_length(self, served):
        """Chunked bodies have no bound, so they are refused."""
        head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert served.raw(head + b"1\r\nx\r\n0\r\n\r\n")[0] == 413

    def test_a_naive_time_is_refused(self, served):
        """A hold's end needs an offset: guessing a time zone would be wrong for somebody."""
        status, answer = served.post("/v1/holds", b'{"mode": "off", "until": "2026-03-02T10:00:00"}')
        assert (status, answer["error"]["code"]) == (422, "naive-time")

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(
        data=st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
        )
    )
    def test_any_json_is_answered_and_never_with_500(self, served, data):
        """Whatever a caller sends, the answer is an error of ours."""
        for path in ("/v1/jobs", f"/v1/jobs/{ID}/report", "/v1/holds"):
            status, answer = served.post(path, json.dumps(data).encode())
            assert status in {404, 422}
            assert answer["error"]["message"]


class TestCrowds:
    def test_a_connection_that_asks_nothing_is_closed(self, served, monkeypatch):
        """Idle connections must not hold the places of those who have something to say."""
        import socket

        monkeypatch.setattr("chase.protocol.FIRST_REQUEST_S", 0.2)
        with socket.socket(socket.AF_UNIX) as idle:
            idle.settimeout(5)
            idle.connect(str(served.path))
            assert idle.recv(1) == b""

    def test_a_slow_half_request_is_closed_too(self, served, monkeypatch):
        """Half a header is not a request."""
        import socket

        monkeypatch.setattr("chase.protocol.FIRST_REQUEST_S", 0.2)
        with socket.socket(socket.AF_UNIX) as slow:
            slow.settimeout(5)
            slow.connect(str(served.path))
            slow.sendall(b"GET /v1/status HTTP/1.1\r\nHost")
            assert slow.recv(1) == b""

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/v1/holds", b'{"mode": "off", "job": "\\ud800"}'),
            ("/v1/jobs", b'{"id": "aaaaaaaaaaaaaaaa", "name": "x", "gpus": ["g"], "policy": {"\\ud800": 1}}'),
            ("/v1/holds", b'{"mode": "off", "until": "9999-12-31T23:59:59-14:00"}'),
            ("/v1/holds", b'{"mode": "off", "until": "2020-01-01T00:00:00Z"}'),
        ],
    )
    def test_odd_text_and_times_are_answered(self, served, path, body):
        """Half a surrogate pair, a time beyond the calendar, a time that is over: an error of ours."""
        status, answer = served.post(path, body)
        assert status in {404, 422}
        assert answer["error"]["message"]
