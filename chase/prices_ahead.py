"""From what the grid and the market look like to the prices ahead that a plan goes by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from chase.horizon import GRAMS, Floats, Horizon, spread
from chase.outlook import Outlook
from chase.prices import PriceOutlook

if TYPE_CHECKING:
    from providers.base import PricePoint

CARBON, MONEY, BOTH = "carbon", "money", "both"
_DAY_S = 86400.0
_HOUR_S, _FINE_S = 3600.0, 6 * 3600.0
_FEW = 2
_LEAST_S = 1e-3


def horizon_of(
    outlook: Outlook,
    prices: PriceOutlook | None = None,
    *,
    minimise: str = CARBON,
    carbon_price_per_kg: float = 0.0,
    pue: float = 1.0,
    seconds: float | None = None,
) -> Horizon | None:
    """The prices from now on, ``seconds`` of them where that is all that is needed; None where nothing is known.

    ``both`` is money and ``carbon_price_per_kg``, in the prices' currency, for each kilogram; while one of the two is
    not known it is the other alone, since a price that is missing is not 0.
    """
    at_s = outlook.at.timestamp()
    carbon = _carbon(outlook, at_s)
    money = _money(prices, at_s, len_s=_length(carbon)) if minimise != CARBON and prices is not None else None
    found = _together(carbon, money, minimise, carbon_price_per_kg)
    if found is None:
        return None
    length, price, low, high = _coarser(_whole(found), at_s)
    tail = np.empty(0)
    if seconds is None or seconds > length.sum():
        tail = _tail(outlook, price, minimise)
    elif seconds < length.sum():
        count = int(np.searchsorted(np.cumsum(length), seconds)) + 1
        length, price, low, high = length[:count], price[:count], low[:count], high[:count]
    unit = GRAMS if money is None or prices is None else _currency(prices)
    return Horizon.of(length, price, low, high, tail=tail, unit=unit, pue=pue)


Columns = tuple[Floats, Floats, Floats, Floats]  # length in seconds, price, low and high


def _whole(columns: Columns) -> Columns:
    """Without what is over within the millisecond that a length is rounded to."""
    kept = columns[0] > _LEAST_S
    return columns if kept.all() else tuple(column[kept] for column in columns)  # type: ignore[return-value]  # four


def _coarser(columns: Columns, at_s: float) -> Columns:
    """By the hour from a few hours on: nobody knows which of its minutes will be dirty, and each decision keeps
    what it was planned on.
    """
    ends = np.cumsum(columns[0])
    near = int(np.searchsorted(ends, _FINE_S))
    length = columns[0][near:]
    if len(length) < _FEW or 2 * np.count_nonzero(length < _HOUR_S - _LEAST_S) <= len(length):
        return columns
    hour = np.floor((at_s + ends[near:] - length + _LEAST_S) / _HOUR_S)
    first = np.flatnonzero(np.diff(hour, prepend=hour[0] - 1.0))
    hours = np.add.reduceat(length, first)
    means = (np.add.reduceat(length * column[near:], first) / hours for column in columns[1:])
    later = (hours, *means)
    return tuple(np.concatenate([c[:near], more]) for c, more in zip(columns, later, strict=True))  # type: ignore[return-value]  # four


def _currency(prices: PriceOutlook) -> str:
    return (prices.now or prices.ahead[0]).currency


def _carbon(outlook: Outlook, at_s: float) -> Columns | None:
    """From now on; where nobody says anything of what is left of the running interval, as it was last."""
    curve = outlook.curve
    if not len(curve):
        return None
    if curve.start_s[0] <= at_s:
        return curve.end_s - np.maximum(curve.start_s, at_s), curve.g, curve.low, curve.high
    first = outlook.now.g_per_kwh if outlook.now is not None else float(curve.g[0])
    before = np.concatenate([[curve.start_s[0] - at_s], curve.end_s - curve.start_s])
    columns = (np.concatenate([[first], column]) for column in (curve.g, curve.low, curve.high))
    return before, *columns  # type: ignore[return-value]  # three columns


def _length(carbon: Columns | None) -> float:
    return 2 * _DAY_S if carbon is None else float(carbon[0].sum())


def _money(prices: PriceOutlook, at_s: float, *, len_s: float) -> Columns | None:
    """What is published, and after that the last day of it again and again."""
    rows = list(_from_now_on(prices, at_s))
    if not rows:
        return None
    end_s = rows[-1][1]
    last_day = [(a, b, value) for a, b, value in rows if b > end_s - _DAY_S]
    days = 0
    while rows[-1][1] < at_s + len_s and end_s - rows[0][0] >= _DAY_S:
        days += 1
        rows += [(max(a, end_s - _DAY_S) + days * _DAY_S, b + days * _DAY_S, value) for a, b, value in last_day]
    starts, ends, values = np.array(rows).T
    return ends - np.maximum(starts, at_s), values, values, values


def _from_now_on(prices: PriceOutlook, at_s: float) -> Iterable[tuple[float, float, float]]:
    """Without a gap: what is in force or last known until the next one begins."""
    points: list[PricePoint] = [*([prices.now] if prices.now else []), *prices.ahead]
    points = sorted({point.start: point for point in points}.values(), key=lambda point: point.start)
    for i, point in enumerate(points):
        following = points[i + 1].start if i + 1 < len(points) else point.end
        end_s = max(following.timestamp(), at_s + 1.0) if i + 1 == len(points) == 1 else following.timestamp()
        if end_s > at_s:
            yield point.start.timestamp(), end_s, point.price_per_kwh


def _together(carbon: Columns | None, money: Columns | None, minimise: str, per_kg: float) -> Columns | None:
    if minimise == MONEY:
        return money
    if minimise == CARBON or money is None:
        return carbon
    if carbon is None:
        return money
    money = _lengthened(money, float(carbon[0].sum()))
    edges = np.unique(np.concatenate([np.cumsum(carbon[0]), np.cumsum(money[0])]))
    edges = edges[edges <= min(carbon[0].sum(), money[0].sum()) + 1e-6]
    starts = np.concatenate([[0.0], edges[:-1]])
    middles = (starts + edges) / 2
    at = [np.searchsorted(np.cumsum(columns[0]), middles) for columns in (carbon, money)]
    both = [money[k][at[1]] + per_kg / 1000.0 * carbon[k][at[0]] for k in (1, 2, 3)]
    return edges - starts, both[0], both[1], both[2]


def _lengthened(money: Columns, seconds: float) -> Columns:
    """Less than a day of prices tells nothing of later hours but what one costs in the mean."""
    missing_s = seconds - float(money[0].sum())
    if missing_s <= 0:
        return money
    mean = float(money[0] @ money[1] / money[0].sum())
    length, *values = (np.append(column, end) for column, end in zip(money, (missing_s, mean, mean, mean), strict=True))
    return length, *values  # type: ignore[return-value]  # three columns


def _tail(outlook: Outlook, price: Floats, minimise: str) -> Floats:
    """Of carbon: what was seen in the last weeks and is expected of the next one; of money what is expected."""
    if minimise != CARBON:
        return spread(price)
    return spread(np.concatenate([outlook.remembered, price]))
