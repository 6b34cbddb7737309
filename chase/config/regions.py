"""Regions: whose electricity, which sources in which order, and what is typical when none of them answers.

A region file holds ``[region]``, ``[[sources]]``, ``[[prices]]``, ``[typical]``, and defaults of the service's
``[policy]``, ``[signal]`` and ``[embodied]`` that suit this place. No secret is ever in a file: ``token_env`` names
the variable that holds it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, PlainValidator, SecretStr, model_validator

from chase.config.fields import Section, looks_secret, matching

Text = Annotated[str, Field(min_length=1, max_length=200)]
Intensity = Annotated[float, Field(ge=0, le=5000)]
Day = Annotated[tuple[Intensity, ...], Field(strict=False, min_length=24, max_length=24)]
Year = Annotated[tuple[Day, ...], Field(strict=False, min_length=12, max_length=12)]


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        from difflib import get_close_matches
        from zoneinfo import available_timezones

        close = get_close_matches(value, sorted(available_timezones()), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ", such as 'Europe/London'"
        raise ValueError(f"must be an IANA time zone{hint}") from error
    return value


_VARIABLE = matching(
    r"[A-Z][A-Z0-9_]{0,63}",
    "must be the NAME of an environment variable (capitals, digits, _), such as ELECTRICITYMAPS_TOKEN; the token "
    "itself belongs into that variable only",
)


def _plain_url(value: str) -> str:
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http:// or https:// address")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold no user, password or query; a token comes from the variable that token_env names")
    return value.rstrip("/")


def _scalar(value: Any) -> str | int | float | bool:
    if isinstance(value, str | int | float | bool):
        return value
    raise ValueError("must be text, a number, true or false")


Option = Annotated[str | int | float | bool, PlainValidator(_scalar, json_schema_input_type=str | float | bool)]


def _no_secrets(options: dict[str, Any]) -> dict[str, Any]:
    if found := sorted(key for key in options if looks_secret(key)):
        raise ValueError(f"must not hold {', '.join(found)}: name an environment variable in token_env instead")
    return options


class SourceConfig(Section):
    provider: Text = Field(description="Name of the provider, such as electricity_maps")
    zone: Text = Field(description="The zone by the provider's own id")
    token_env: Annotated[str, _VARIABLE] | None = Field(
        default=None, description="Name of the environment variable that holds the token"
    )
    base_url: Annotated[str, AfterValidator(_plain_url)] | None = Field(
        default=None, description="Another address than the provider's own, such as a proxy"
    )
    options: Annotated[dict[str, Option], AfterValidator(_no_secrets)] = Field(
        default_factory=dict, description="What this provider alone knows, such as scope, version, path"
    )

    def token(self, env: Mapping[str, str] = os.environ) -> SecretStr | None:
        """The secret that ``token_env`` names; None if it names none or the variable is unset or blank."""
        value = env.get(self.token_env, "").strip() if self.token_env else ""
        return SecretStr(value) if value else None


class TypicalProfile(Section):
    """Means of a past year: the last fallback. ``table[month - 1][UTC hour]`` in gCO2eq/kWh.

    Where no hourly figures may be passed on it is one figure for the whole year, ``flat_g_per_kwh``: a flat line, which
    tells no hour from another.
    """

    source: Text = Field(description="Where the figures are from")
    year: Annotated[int, Field(ge=2000, le=2100)] = Field(description="The year they are of")
    licence: Text = Field(description="Licence of the figures, with the notice it asks for")
    scope: Literal["lifecycle", "direct"] = Field(description="As for the region")
    g_per_kwh: Year | None = Field(
        default=None, description="12 rows, January first, of 24 means by UTC hour, gCO2eq/kWh; or flat_g_per_kwh"
    )
    flat_g_per_kwh: Intensity | None = Field(
        default=None, description="The mean of the whole year, gCO2eq/kWh, where hourly ones may not be passed on"
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.g_per_kwh is None) == (self.flat_g_per_kwh is None):
            raise ValueError("must have either g_per_kwh (12 rows of 24 means) or flat_g_per_kwh (one), and not both")
        return self

    @property
    def flat(self) -> bool:
        return self.flat_g_per_kwh is not None

    @property
    def table(self) -> Year:
        """12 months of 24 UTC hours, whichever way it was given."""
        return self.g_per_kwh or ((self.flat_g_per_kwh or 0.0,) * 24,) * 12

    def at(self, month: int, utc_hour: int) -> float:
        return self.table[month - 1][utc_hour]


class RegionConfig(Section):
    id: Annotated[str, matching(r"[a-z0-9][a-z0-9-]{0,63}", "must be small letters, digits and -, such as 'gb'")] = (
        Field(description="Short name")
    )
    name: Text = Field(description="Name for people")
    time_zone: Annotated[str, AfterValidator(_time_zone)] = Field(description="IANA name, for display only")
    signal: Literal["average", "marginal"] = Field(description="Which intensity the sources give")
    scope: Literal["lifecycle", "direct"] = Field(
        description="lifecycle counts building and fuel supply, direct the stack alone; all sources must give this one"
    )
    pue: Annotated[float, Field(ge=1, le=5)] = Field(
        default=1.0, description="Power usage effectiveness: kWh at the meter for one at the GPU, a factor"
    )
    currency: Annotated[str, matching("[A-Z]{3}", "must be three capitals (ISO 4217), such as 'EUR'")] = Field(
        description="ISO 4217 code of prices"
    )
    sources: tuple[SourceConfig, ...] = Field(strict=False, description="Tried in this order")
    prices: tuple[SourceConfig, ...] = Field(
        default=(), strict=False, description="Sources of electricity prices in the region's currency, in this order"
    )
    policy: dict[str, Any] = Field(default_factory=dict, description="Defaults of the service's [policy] here")
    signal_defaults: dict[str, Any] = Field(default_factory=dict, description="Defaults of the service's [signal] here")
    embodied: dict[str, Any] = Field(default_factory=dict, description="Defaults of the service's [embodied] here")
    typical: TypicalProfile | None = Field(default=None, description="Used when no source has anything usable")
