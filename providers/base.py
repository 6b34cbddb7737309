"""What every source of grid data gives: points that say what they are, and the few ways in which it can fail.

A point is never mixed silently with one of another signal, scope or boundary (reference: the same instant of one zone
was 75 g/kWh lifecycle and 20 direct). Missing is missing: never 0, never -1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, Protocol, Self, TypeVar


class ProviderError(Exception):
    """A source could not answer. The text never carries a secret."""


class AuthError(ProviderError):
    """The credential is missing or bad: do not retry, tell a person."""


class PlanError(ProviderError):
    """The credential is good, the zone or endpoint is not in its plan: do not retry, disable the feature."""


class NoData(ProviderError):
    """A valid request, and nothing is published: ask again at the next slot."""


class RateLimited(ProviderError):
    """Too many requests. ``retry_after_s`` is what the source asked for, None if it did not say."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Transient(ProviderError):
    """5xx, a timeout, TLS, a cut or oversized or HTML body: it may work again."""


class BadRequest(ProviderError):
    """Our configuration or our code is wrong, or the address is gone for good: disable and tell a person."""


class SchemaError(ProviderError):
    """A 200 whose body is not what the source promises."""


class Kind(StrEnum):
    """How a value came about, from the best to the least."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    FORECAST = "forecast"
    TYPICAL = "typical"


class Signal(StrEnum):
    AVERAGE = "average"
    MARGINAL = "marginal"


class Scope(StrEnum):
    LIFECYCLE = "lifecycle"
    DIRECT = "direct"
    UNSPECIFIED = "unspecified"


class Boundary(StrEnum):
    CONSUMPTION = "consumption"
    PRODUCTION = "production"
    UNSPECIFIED = "unspecified"


class Market(StrEnum):
    DAY_AHEAD = "day-ahead"
    REAL_TIME = "real-time"
    RETAIL = "retail"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntensityPoint:
    """Carbon intensity over ``[start, end)``, aware UTC, in gCO2eq/kWh.

    ``issued_at`` is when a forecast was made; ``updated_at`` what the source says of its last revision; ``fetched_at``
    when we read it. ``method`` is the source's own word for how it estimated; where we computed the intensity from a
    generation mix it names the table of emission factors and its version. Raises ``ValueError`` for a naive time, an
    empty interval, or a value that is not finite.
    """

    zone: str
    start: datetime
    end: datetime
    g_per_kwh: float
    kind: Kind
    signal: Signal
    scope: Scope
    boundary: Boundary
    source: str
    fetched_at: datetime
    issued_at: datetime | None = None
    updated_at: datetime | None = None
    method: str = ""

    def __post_init__(self) -> None:
        _check_times(self, ("start", "end", "fetched_at", "issued_at", "updated_at"))
        if not math.isfinite(self.g_per_kwh):
            raise ValueError(f"an intensity must be finite, not {self.g_per_kwh!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePoint:
    """Price of electricity over ``[start, end)``, aware UTC, in ``currency`` (ISO 4217) per kWh; it may be negative.

    ``market`` is what kind of price it is: wholesale and retail are never mixed. ``licence`` is the notice that came
    with it, where one came. Raises ``ValueError`` for a naive time, an empty interval, or a value that is not finite.
    """

    zone: str
    start: datetime
    end: datetime
    price_per_kwh: float
    currency: str
    market: Market
    source: str
    fetched_at: datetime
    updated_at: datetime | None = None
    licence: str = ""

    def __post_init__(self) -> None:
        _check_times(self, ("start", "end", "fetched_at", "updated_at"))
        if not math.isfinite(self.price_per_kwh):
            raise ValueError(f"a price must be finite, not {self.price_per_kwh!r}")


class Interval(Protocol):
    @property
    def start(self) -> datetime: ...
    @property
    def end(self) -> datetime: ...


P = TypeVar("P", bound=Interval)


@dataclass(frozen=True, slots=True)
class Ordered(Generic[P]):
    """Points in ascending order, at most one for each start; gaps are gaps."""

    points: tuple[P, ...] = ()

    @classmethod
    def of(cls, points: Iterable[P]) -> Self:
        """Sort, and of several points with one start keep the last given (duplicates in history: last wins)."""
        by_start = {point.start: point for point in points}
        return cls(tuple(by_start[start] for start in sorted(by_start)))

    def __iter__(self) -> Iterator[P]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def at(self, when: datetime) -> P | None:
        return next((point for point in reversed(self.points) if point.start <= when < point.end), None)


class Series(Ordered[IntensityPoint]):
    """Intensities of one source."""

    __slots__ = ()


class PriceSeries(Ordered[PricePoint]):
    """Prices of one source, of one currency and market."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a source can do. ``poll_s`` is how often it is worth asking, and ``revised_s`` how far back it may still say
    something else than it has said: most rewrite their history for days.
    """

    observed: bool
    forecast: bool
    step_s: float
    poll_s: float
    forecast_horizon_s: float = 0.0
    needs_key: bool = False
    revised_s: float = 72 * 3600.0


class Provider(Protocol):
    """One source for one zone. All methods raise ``ProviderError`` only, and return within their timeouts."""

    @property
    def name(self) -> str: ...
    @property
    def zone(self) -> str: ...
    @property
    def capabilities(self) -> Capabilities: ...
    def observe(self, start: datetime, end: datetime) -> Series:
        """What is published of ``[start, end)``: measured, estimated or typical points, never forecasts."""
        ...

    def forecast(self, start: datetime, end: datetime) -> Series:
        """What the source expects of ``[start, end)``; shorter than asked where it says no more."""
        ...

    def close(self) -> None: ...


class PriceProvider(Protocol):
    """One source of prices for one zone; failures and times as for ``Provider``.

    Of its ``capabilities`` ``observed`` and ``forecast`` say nothing: what is published of the future is the price.
    """

    @property
    def name(self) -> str: ...
    @property
    def zone(self) -> str: ...
    @property
    def capabilities(self) -> Capabilities: ...
    def prices(self, start: datetime, end: datetime) -> PriceSeries:
        """What is published of ``[start, end)``, past and future alike."""
        ...

    def close(self) -> None: ...


def _check_times(point: Interval, names: Iterable[str]) -> None:
    for name in names:
        at = getattr(point, name)
        if at is not None and at.utcoffset() != timedelta(0):
            raise ValueError(f"{name} must be an aware UTC time, not {at!r}")
    if point.end <= point.start:
        raise ValueError(f"the interval is empty: {point.start.isoformat()} to {point.end.isoformat()}")
