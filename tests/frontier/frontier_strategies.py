"""What hypothesis draws frontiers from."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from zeus_core.frontier import OperatingPoint, Setting, Window

SECONDS = st.floats(1e-3, 1e3)
JOULES = st.floats(1e-1, 1e6)
LIMITS = st.integers(50, 700).map(float)
SETTINGS = st.builds(
    Setting,
    power_limit_w=st.none() | LIMITS,
    sm_clock_mhz=st.none() | st.integers(200, 2000),
    batch_size=st.none() | st.integers(1, 4096),
    plan=st.none() | st.text("abc", min_size=1, max_size=3),
)
"""Nearly equal times, one unit in the last place apart, as well as far ones."""
CLOSE_SECONDS = st.integers(0, 5).map(lambda ulps: 1.9 + ulps * math.ulp(1.9)) | SECONDS


def points(
    *,
    seconds: st.SearchStrategy[float] = CLOSE_SECONDS,
    joules: st.SearchStrategy[float] = JOULES,
    settings: st.SearchStrategy[Setting] = SETTINGS,
) -> st.SearchStrategy[list[OperatingPoint]]:
    """One to a dozen operating points, each of another setting."""
    point = st.builds(OperatingPoint, settings, seconds, joules)
    return st.lists(point, min_size=1, max_size=12, unique_by=lambda drawn: drawn.setting)


def windows(limits: st.SearchStrategy[float] = LIMITS) -> st.SearchStrategy[list[Window]]:
    settings = st.builds(Setting, power_limit_w=limits)
    window = st.builds(Window, settings, units=st.floats(0.5, 1e4), seconds=SECONDS, joules=JOULES)
    return st.lists(window, min_size=1, max_size=20)
