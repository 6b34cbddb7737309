"""A job's link to the service: register, report, end, over the service's Unix socket.

The job's id is made here, and what is reported is cumulative, so that every call may be repeated and a service that
was started anew takes the job up where it was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from chase import unixhttp
from chase.client.messages import MAX_BYTES, Advice, Answer, Said, Terms, number
from chase.client.placement import Placement, place
from chase.client.reporter import logger
from chase.client.summary import Summary
from chase.errors import ChaseError

_SHORTEST_S, _LONGEST_S = 0.02, 60.0
_TIMEOUT_S = 5.0


class DaemonLink:
    """``units_done`` is asked at every exchange. ``pid`` is the process that trains.

    ``socket`` None looks each time where a service may be by now; ``gpus`` None means those that ``env`` makes
    visible, as CUDA would count them.
    """

    patience_s = 30.0

    def __init__(
        self,
        *,
        job_id: str,
        name: str,
        pid: int,
        units_done: Callable[[], float],
        terms: Terms,
        said: Callable[[], Said] = Said,
        gpus: Sequence[str | int] | None = None,
        socket: Path | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self.job_id = job_id
        self.registered_once = False
        self._name = name
        self._pid = pid
        self._units_done = units_done
        self._terms = terms
        self._said = said
        self._gpus = gpus
        self._placed: Placement | None = None
        self._warned: set[str] = set()
        self._socket = socket
        self._env = env
        self._registered = False
        self._simulated: bool | None = None
        self._every_s = _TIMEOUT_S

    @property
    def simulated(self) -> bool:
        """Whether the service says that its GPUs are simulated; asks it if it has not said yet."""
        if self._simulated is None:
            with contextlib.suppress(ChaseError):
                self._status()
        return self._simulated is True

    def amend(self, terms: Terms, name: str) -> None:
        """Say other terms or another name from now on; registers again, under the same id, when they differ."""
        if (terms, name) != (self._terms, self._name):
            self._terms, self._name = terms, name
            self._registered = False

    def exchange(self) -> Answer:
        if self._registered:
            try:
                report = {"units_done": self._units_done(), **self._said().to_dict()}
                answer = self._post(f"/v1/jobs/{self.job_id}/report", report)
                return Answer(Advice.from_dict(answer), self._every_s, connected=True)
            except unixhttp.ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                self._registered = False  # the lease ran out, or the service was started anew
        return self._register()

    def end(self, reason: str) -> Summary | None:
        if not self.registered_once:
            return None
        if not self._registered:  # the terms changed since
            self._register()
        try:
            answer = self._end(reason)
        except unixhttp.ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self._register()
            answer = self._end(reason)
        summary = answer.get("summary")
        return Summary.from_dict(summary) if isinstance(summary, dict) else None

    def _end(self, reason: str) -> dict[str, Any]:
        end = {"reason": reason, "units_done": self._units_done(), **self._said().to_dict()}
        return self._post(f"/v1/jobs/{self.job_id}/end", end)

    def _register(self) -> Answer:
        self._placed = self._placed or self._place()
        try:
            answer = self._post("/v1/jobs", self._registration(self._placed.uuids))
        except unixhttp.ApiError:
            self._placed = None  # the node's GPUs may be others by the next try
            raise
        advice = Advice.from_dict(answer)
        self._every_s = _interval_s(answer)
        self._registered = self.registered_once = True
        return Answer(advice, self._every_s, connected=True)

    def _place(self) -> Placement:
        placed = place(self._gpus, self._env, self._status)
        for warning in placed.warnings:
            if warning not in self._warned:
                logger.warning("%s", warning)
        self._warned.update(placed.warnings)
        return placed

    def _registration(self, uuids: Sequence[str]) -> dict[str, Any]:
        said = self._terms.to_dict()
        for key in ("batch_size", "batch_sizes", "recurring", "joint"):
            if said[key] is None:  # an older service knows nothing of it
                del said[key]
        return {
            **said,
            "id": self.job_id,
            "name": self._name,
            "pid": self._pid,
            "gpus": list(uuids),
            "units": said["units"] or "steps",
            "units_done": self._units_done(),
            "policy": dict(said["policy"] or {}),
        }

    def _status(self) -> dict[str, Any]:
        status = unixhttp.request(self._where(), "GET", "/v1/status", timeout_s=_TIMEOUT_S)  # grows with the jobs
        service = status.get("service")
        self._simulated = isinstance(service, dict) and service.get("simulated") is True
        return status

    def _where(self) -> Path:
        return self._socket or unixhttp.default_socket(self._env)

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return unixhttp.request(self._where(), "POST", path, body, timeout_s=_TIMEOUT_S, max_bytes=MAX_BYTES)


def _interval_s(answer: Mapping[str, Any]) -> float:
    """As often as asked, but thrice in a lease; in this machine's seconds (a simulated clock runs faster)."""
    report_s = number(answer, "report_s")
    lease_s = number(answer, "lease_s")
    rate = number(answer, "clock_rate", low=1e-6) or 1.0
    if report_s is None or lease_s is None:
        raise ChaseError("the service's answer to a registration lacks report_s or lease_s; is it another program?")
    return min(max(min(report_s, lease_s / 3.0) / rate, _SHORTEST_S), _LONGEST_S)
