"""Who says what is expected can be told from the name."""

from __future__ import annotations

from importlib import import_module

import pytest

from chase.forecast.expected import OWN, PERSISTENCE, TYPICAL
from providers import registry


@pytest.mark.parametrize("place", registry._BUILT_IN.values())
def test_no_source_has_a_name_that_is_ours(place):
    """Else a source's forecast would be taken for our own, and its age for that of what was observed."""
    module, _, made = place.partition(":")
    name = getattr(import_module(module), made).name
    assert name not in {OWN, PERSISTENCE, TYPICAL}
    assert "+" not in name
