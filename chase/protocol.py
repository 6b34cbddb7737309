"""uvicorn's HTTP/1.1 without patience: a connection that asks nothing, or never ends, holds somebody else's place."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

FIRST_REQUEST_S = 5.0
WHOLE_S = 30.0


class Impatient(H11Protocol):
    """Closed when no request is complete soon after it was made."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._deadline = self.loop.call_later(FIRST_REQUEST_S, self._too_late)

    def _too_late(self) -> None:
        asked = getattr(self, "cycle", None) is not None
        if not asked and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)


class OneRequest(Impatient):
    """And ended after a while, whatever it does: a caller who does not read must not keep what was written for it."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._end = self.loop.call_later(WHOLE_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        super().connection_lost(exc)
