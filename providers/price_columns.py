"""Which column of somebody's table is the price, of how much, and in which currency."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from providers.base import BadRequest, SchemaError
from providers.columns import Times, columns_of, missing, named, number_of
from providers.price_reading import KWH_PER_MWH, currency, price
from providers.reading import shown
from providers.table import Row

KWH = {"kWh": 1.0, "MWh": KWH_PER_MWH}
_SPELT_OUT = re.compile(r"(?:price_)?(?:([a-z]{3})_)?(?:price_)?per_(kwh|mwh)|price[ _]\(?([a-z]{3})[/ ](kwh|mwh)\)?")
_PLAIN = ("price", "value")
_EXAMPLES = ("price_per_kwh", "price_eur_per_mwh", "price")


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """One row; ``per_kwh`` None is a gap."""

    start: datetime
    end: datetime
    per_kwh: float | None
    currency: str


@dataclass(frozen=True, slots=True)
class PriceColumns:
    """``per`` is how many kWh a price is for; ``currency`` that of rows which name none, empty where nothing says."""

    times: Times
    value: str
    per: float
    currency: str

    @classmethod
    def of(cls, rows: Sequence[Row], name: str, *, value: str, unit: str, currency: str) -> PriceColumns:
        """``value``, ``unit`` and ``currency`` are options: a name of a column, ``kWh`` or ``MWh``, and three letters.

        What the column's own name says must not contradict them.
        """
        present = columns_of(rows)
        times = Times.of(present, name)
        found = named(value, present, name) or _value_column(present, name)
        said_currency, said_unit = _spelt_out(found)
        if not (unit or said_unit):
            raise BadRequest(f"{name}: column {found!r} does not say of what the price is; set unit to kWh or MWh")
        for option, given, said in (("unit", unit, said_unit), ("currency", currency, said_currency)):
            if given and said and given != said:
                raise BadRequest(f"{name}: column {found!r} says {said}, and option {option} says {given}")
        return cls(times, found, KWH[unit or said_unit], currency or said_currency)

    def entries(self, rows: Iterable[Row], step_s: float) -> tuple[PriceEntry, ...]:
        return tuple(self._entry(row, start, end) for row, start, end in self.times.intervals(rows, step_s))

    def _entry(self, row: Row, start: datetime, end: datetime) -> PriceEntry:
        what = f"{row.place}: {self.value}"
        per_kwh = price(number_of(row.fields.get(self.value), what), what, per=self.per)
        return PriceEntry(start, end, per_kwh, self._currency_of(row))

    def _currency_of(self, row: Row) -> str:
        said = row.fields.get("currency")
        if said is None and self.currency:
            return self.currency
        if said is None:
            raise BadRequest(f"{row.place}: nothing says in which currency this is; set currency, like EUR")
        found = currency(said.upper() if isinstance(said, str) else said, f"{row.place}: currency")
        if self.currency and found != self.currency:
            raise SchemaError(f"{row.place}: currency is {shown(found)}, not {self.currency}")
        return found


def _value_column(present: Sequence[str], name: str) -> str:
    spelt = [column for column in present if _SPELT_OUT.fullmatch(column)]
    plain = [column for column in _PLAIN if column in present]
    if len(spelt) > 1:
        raise BadRequest(f"{name}: {' and '.join(map(repr, spelt))} are both prices; choose with option column")
    return next(iter(spelt or plain), "") or missing(name, "the price", _EXAMPLES, present)


def _spelt_out(column: str) -> tuple[str, str]:
    """Currency and unit as a column's name says them; empty where it does not."""
    found = _SPELT_OUT.fullmatch(column)
    if found is None:
        return "", ""
    money, unit = found[1] or found[3] or "", found[2] or found[4]
    return money.upper(), {"kwh": "kWh", "mwh": "MWh"}[unit]
