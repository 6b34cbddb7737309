"""Whose socket it is."""

from __future__ import annotations

import socket

import pytest

from chase.errors import ChaseError, TryLater
from chase.serving import listen


def test_a_socket_at_which_somebody_answers_is_not_taken_away(place):
    """Its owner goes on unharmed, and the error names the place and what to do."""
    path = place / "chase.sock"
    with listen(path, None) as owner:
        with pytest.raises(TryLater, match=r"chase\.sock; stop it, or set service\.socket"):
            listen(path, None)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))
            owner.accept()[0].close()


def test_a_socket_that_a_dead_service_left_is_replaced(place):
    """Nobody listens any more, so a new service may."""
    path = place / "chase.sock"
    listen(path, None).close()
    with listen(path, None), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))


def test_a_file_that_is_no_socket_stays(place):
    """Somebody else's file is not removed."""
    path = place / "chase.sock"
    path.write_text("mine")
    with pytest.raises(ChaseError, match="is no socket"):
        listen(path, None)
    assert path.read_text() == "mine"
