"""Providers by name: the built-in ones, imported when asked for, and those that other packages bring.

An outsider's package names a callable with the signature of ``create`` (without ``provider``) in its metadata::

    [project.entry-points."chase.providers"]
    my_grid = "my_package.grid:MyGrid"

and one of prices in the group ``chase.prices``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from providers.base import AuthError, BadRequest, PriceProvider, Provider
from providers.options import did_you_mean
from providers.redact import Secret

if TYPE_CHECKING:
    from providers.session import Session

GROUP = "chase.providers"
PRICE_GROUP = "chase.prices"
_BUILT_IN = {
    "caiso": "providers.caiso:Caiso",
    "carbon_aware_sdk": "providers.carbon_aware_sdk:CarbonAwareSdk",
    "chase": "providers.chase_node:ChaseNode",
    "eia": "providers.eia:Eia",
    "electricity_maps": "providers.electricity_maps:ElectricityMaps",
    "energinet": "providers.energinet:Energinet",
    "energy_charts": "providers.energy_charts:EnergyCharts",
    "entsoe": "providers.entsoe:Entsoe",
    "file": "providers.file:FileProvider",
    "ieso": "providers.ieso:Ieso",
    "neso": "providers.neso:Neso",
    "open_electricity": "providers.open_electricity:OpenElectricity",
    "prometheus": "providers.prometheus:Prometheus",
    "rte": "providers.rte:Rte",
    "smard": "providers.smard:Smard",
    "static": "providers.static:StaticProvider",
    "watttime": "providers.watttime:WattTime",
}
_PRICES = {
    "electricity_maps": "providers.electricity_maps_prices:ElectricityMapsPrices",
    "energinet": "providers.energinet_prices:EnerginetPrices",
    "energy_charts": "providers.energy_charts_prices:EnergyChartsPrices",
    "entsoe": "providers.entsoe_prices:EntsoePrices",
    "file": "providers.file_prices:FilePrices",
    "octopus": "providers.octopus:Octopus",
}
_MEMBERS = ("name", "zone", "capabilities", "observe", "forecast", "close")
_PRICE_MEMBERS = ("name", "zone", "capabilities", "prices", "close")


@dataclass(frozen=True, slots=True)
class _Book:
    """The callables of one group by name. A built-in name cannot be taken over by another package."""

    what: str
    group: str
    built_in: Mapping[str, str]
    members: tuple[str, ...]

    def names(self) -> list[str]:
        return sorted({*self.built_in, *(entry.name for entry in entry_points(group=self.group))})

    def knows(self, name: str) -> bool:
        """Cheap for a built-in one: looking through all packages takes 10 ms."""
        return name in self.built_in or name in self.names()

    def make(self, name: str, given: Mapping[str, Any]) -> Any:
        made = self._factory(name)(**given)
        missing = [member for member in self.members if not hasattr(made, member)]
        if missing:
            raise BadRequest(f"{self.what} {name!r} lacks {', '.join(missing)}: see providers.base")
        return made

    def _factory(self, name: str) -> Callable[..., Any]:
        if name in self.built_in:
            module, _, attribute = self.built_in[name].partition(":")
            return getattr(import_module(module), attribute)  # type: ignore[no-any-return]
        for entry in entry_points(group=self.group):
            if entry.name == name:
                return _loaded(entry)
        known = self.names()
        raise BadRequest(f"there is no {self.what} {name!r}{did_you_mean(name, known)}; known are {', '.join(known)}")


_INTENSITY = _Book("provider", GROUP, _BUILT_IN, _MEMBERS)
_PRICE = _Book("provider of prices", PRICE_GROUP, _PRICES, _PRICE_MEMBERS)


def names() -> list[str]:
    """All that ``create`` knows."""
    return _INTENSITY.names()


def knows(provider: str) -> bool:
    """Whether ``create`` knows it."""
    return _INTENSITY.knows(provider)


def price_names() -> list[str]:
    """All that ``create_prices`` knows."""
    return _PRICE.names()


def knows_prices(provider: str) -> bool:
    """Whether ``create_prices`` knows it."""
    return _PRICE.knows(provider)


def create(
    provider: str,
    *,
    zone: str,
    options: Mapping[str, object],
    token: str | None,
    base_url: str | None,
    session: Session,
    now: Callable[[], datetime],
) -> Provider:
    """The provider for one zone. Nothing is asked of the network yet; ``BadRequest`` names what is wrong, and
    ``AuthError`` a token that is no text.
    """
    given = {"zone": zone, "options": options, "base_url": base_url, "session": session, "now": now}
    made: Provider = _INTENSITY.make(provider, {**given, "token": _secret(provider, token)})
    return made


def create_prices(
    provider: str,
    *,
    zone: str,
    options: Mapping[str, object],
    token: str | None,
    base_url: str | None,
    session: Session,
    now: Callable[[], datetime],
) -> PriceProvider:
    """The provider of prices for one zone, as ``create``."""
    given = {"zone": zone, "options": options, "base_url": base_url, "session": session, "now": now}
    made: PriceProvider = _PRICE.make(provider, {**given, "token": _secret(provider, token)})
    return made


def _secret(provider: str, token: str | None) -> Secret | None:
    """Bytes in the environment that are no UTF-8 come as halves of characters, on which every encoding fails later."""
    if token and any("\ud800" <= character <= "\udfff" for character in token):
        raise AuthError(f"{provider}: the token is no UTF-8 text; write it into its variable in UTF-8")
    return Secret(token) if token else None


def _loaded(entry: EntryPoint) -> Callable[..., Any]:
    package = entry.dist.name if entry.dist else "an unknown package"
    try:
        return entry.load()  # type: ignore[no-any-return]
    except Exception as error:
        raise BadRequest(
            f"provider {entry.name!r} of {package} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
