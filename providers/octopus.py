"""Octopus Energy (Great Britain): the half-hourly retail prices of Agile, keyless, in GBP.

Rates come newest first, in pages. Those of tomorrow appear at about 16:00 in London. A product may have a rate for
those who pay by direct debit and one for the others, and a rate without an end that is valid until further notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from providers.base import (
    BadRequest,
    Capabilities,
    Market,
    NoData,
    PricePoint,
    PriceSeries,
    ProviderError,
    SchemaError,
    Transient,
)
from providers.options import Options, web_address
from providers.price_reading import price, prices_within
from providers.reading import check_interval, gather, instant, record, records, shown

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.reply import Reply
    from providers.session import Session

BASE_URL = "https://api.octopus.energy"
_PENCE = 100.0
_HALF_HOUR = timedelta(minutes=30)
_AHEAD = timedelta(days=7)
_LONGEST = timedelta(days=100)
_MOST_PAGES = 20
_ROWS_A_PAGE = "1500"
_PRODUCT_KEPT_S = 24 * 3600.0
_CODE = re.compile(r"[A-Z0-9][A-Z0-9-]{0,59}")
_REGIONS = "ABCDEFGHJKLMNP"
_PAYMENTS = ("DIRECT_DEBIT", "NON_DIRECT_DEBIT")


@dataclass(frozen=True, slots=True)
class _Rate:
    """What a kWh costs over ``[start, end)``."""

    start: datetime
    end: datetime
    price_per_kwh: float


class Octopus:
    """Options: ``gsp`` (the letter of the grid supply point), ``product`` (by default the Agile that is open now),
    ``payment`` and ``vat``.
    """

    name = "octopus"
    capabilities = Capabilities(observed=True, forecast=False, step_s=1800.0, poll_s=1800.0)

    def __init__(
        self,
        *,
        zone: str,
        options: Mapping[str, object],
        token: Secret | None = None,  # noqa: ARG002 - the signature that all providers share
        base_url: str | None,
        session: Session,
        now: Callable[[], datetime],
    ) -> None:
        if not re.match(r"GB\b", zone):
            raise BadRequest(f"octopus knows Great Britain alone; zone {zone!r} must be GB or start with GB-")
        self.zone = zone
        self._session, self._now = session, now
        self._products = f"{web_address(self.name, base_url, BASE_URL)}/v1/products/"
        given = Options(self.name, options)
        self._region = _region(given.text("gsp"))
        self._given = _product(given.text("product"))
        self._payment = given.text("payment", _PAYMENTS[0], choices=_PAYMENTS)
        self._column = "value_inc_vat" if given.flag("vat", default=True) else "value_exc_vat"
        given.finish()
        self._found: tuple[str, float] | None = None

    def prices(self, start: datetime, end: datetime) -> PriceSeries:
        """Half hours, also of a rate that is valid for longer; of a long range the newest hundred days."""
        check_interval(start, end)
        end = min(end, self._now() + _AHEAD)
        if end < start:
            return PriceSeries()
        first, last = _floor(max(start, end - _LONGEST)), _floor(end) + _HALF_HOUR
        rates = gather(self._rows(first, last), lambda row: self._rate(record(row, "a rate"), last), where=self.name)
        if not rates:
            raise NoData(f"{self.name} has published no rate of {self._payment} for this time")
        return prices_within((self._point(rate) for rate in _half_hours(rates, first, last)), start, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _rows(self, first: datetime, last: datetime) -> list[Any]:
        product = self._given or self._discovered()
        url = f"{self._products}{product}/electricity-tariffs/E-1R-{product}-{self._region}/standard-unit-rates/"
        params = {"period_from": _stamp(first), "period_to": _stamp(last), "page_size": _ROWS_A_PAGE}
        try:
            return list(self._pages(url, params))
        except BadRequest:
            self._found = None  # products come and go
            raise

    def _discovered(self) -> str:
        """The product that somebody who signs up now gets; looked for once a day."""
        now_s = self._session.monotonic()
        if self._found is None or now_s - self._found[1] > _PRODUCT_KEPT_S:
            self._found = (_newest_agile(self._pages(self._products, {}), self._now()), now_s)
        return self._found[0]

    def _pages(self, url: str, params: Mapping[str, str]) -> Iterator[Any]:
        """``next`` is not followed, wherever it points: its page is asked of our own address."""
        for page in range(1, _MOST_PAGES + 1):
            asked = {**params, "page": str(page)} if page > 1 else params
            reply = record(self._session.get_json(url, params=asked, judge=_judge), f"{self.name}: the reply")
            yield from records(reply.get("results"), f"{self.name}: results")
            if reply.get("next") is None:
                return
            _check_next(reply["next"], page + 1)
        raise SchemaError(f"{self.name} has more than {_MOST_PAGES} pages for one question")

    def _rate(self, row: Mapping[str, Any], last: datetime) -> _Rate | None:
        """None where it is for those who pay in another way, or begins after ``last``."""
        start = instant(row.get("valid_from"), "valid_from")
        missing = [name for name in ("valid_to", self._column) if name not in row]
        if missing:
            raise SchemaError(f"{missing[0]} is missing at {start.isoformat()}")
        # No set: what stands there need not be hashable.
        if row.get("payment_method") not in (None, self._payment) or start >= last:
            return None
        end = last if row["valid_to"] is None else instant(row["valid_to"], "valid_to")
        if end <= start:
            raise SchemaError(f"a rate ends {end.isoformat()}, but begins {start.isoformat()}")
        per_kwh = price(row[self._column], f"{self._column} at {start.isoformat()}", per=_PENCE)
        return None if per_kwh is None else _Rate(start, end, per_kwh)

    def _point(self, rate: _Rate) -> PricePoint:
        return PricePoint(
            zone=self.zone,
            start=rate.start,
            end=rate.end,
            price_per_kwh=rate.price_per_kwh,
            currency="GBP",
            market=Market.RETAIL,
            source=self.name,
            fetched_at=self._now(),
        )


def _half_hours(rates: Iterable[_Rate], first: datetime, last: datetime) -> Iterator[_Rate]:
    """The rates between ``first`` and ``last``, cut at each half hour. A rate ends where a later one begins."""
    by_start = {rate.start: rate for rate in rates}
    ordered = [by_start[start] for start in sorted(by_start)]
    ends = [*(min(rate.end, after.start) for rate, after in pairwise(ordered)), ordered[-1].end]
    for rate, end in zip(ordered, ends, strict=True):
        at = max(rate.start, first)
        while at < min(end, last):
            edge = min(_floor(at) + _HALF_HOUR, end, last)
            yield replace(rate, start=at, end=edge)
            at = edge


def _newest_agile(products: Iterable[Any], now: datetime) -> str:
    """Code of the Agile for import that is open now. ``AGILE-OUTGOING-`` is what Octopus pays for power."""
    found = [(since, str(product["code"])) for product in products if (since := _open_since(product, now)) is not None]
    if not found:
        raise NoData("octopus offers no product AGILE- now: set the option product")
    return max(found)[1]


def _open_since(product: Any, now: datetime) -> datetime | None:
    """None for what is no Agile for import, is not open, or cannot be read."""
    code = product.get("code") if isinstance(product, dict) else None
    if not isinstance(code, str) or not code.startswith("AGILE-") or not _CODE.fullmatch(code):
        return None
    if "OUTGOING" in code or product.get("direction", "IMPORT") != "IMPORT":
        return None
    try:
        since = instant(product.get("available_from"), "available_from")
        until = product.get("available_to")
        is_open = since <= now and (until is None or instant(until, "available_to") > now)
    except SchemaError:
        return None
    return since if is_open else None


def _check_next(following: object, page: int) -> None:
    """That it leads to ``page``, so that paging ends and leaves none out."""
    try:
        named = parse_qs(urlsplit(following).query).get("page") if isinstance(following, str) else None
    except ValueError:
        named = None
    if named != [str(page)]:
        raise SchemaError(f"octopus: next is {shown(following)}, which is not page {page}")


def _judge(reply: Reply) -> ProviderError | None:
    """These questions need no key, so what refuses is a gateway."""
    said = f"octopus: {reply.status} {reply.message}".rstrip()
    if reply.status in {401, 403}:
        return Transient(said)
    if reply.status == 404 and "invalid page" in reply.message.lower():  # noqa: PLR2004 - HTTP's own numbers
        return Transient(said)
    if reply.status == 404:  # noqa: PLR2004
        return BadRequest(f"{said}: check the options product and gsp")
    return None


def _region(given: str) -> str:
    letter = given.strip(" _").upper()
    if len(letter) != 1 or letter not in _REGIONS:
        raise BadRequest(
            f"octopus: option gsp is {given!r}, but must be the letter of your grid supply point, one of {_REGIONS}"
        )
    return letter


def _product(given: str) -> str:
    if given and not _CODE.fullmatch(given):
        raise BadRequest(f"octopus: option product is {given!r}, but must be a code like AGILE-24-10-01")
    return given


def _floor(at: datetime) -> datetime:
    return at.replace(minute=at.minute // 30 * 30, second=0, microsecond=0)


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%MZ}"
