"""What the grid is likely to do: our own forecast, a source's where it is good, and how sure each is."""

from __future__ import annotations

from chase.forecast.expected import Expected
from chase.forecast.forecaster import Forecaster

__all__ = ["Expected", "Forecaster"]
