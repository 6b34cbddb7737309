"""Reading a region file: its shape, and what its parts must say of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from chase.config.layers import Layer, read_toml
from chase.config.models import EmbodiedConfig, PolicyConfig, SignalConfig
from chase.config.problems import Problem, from_validation, refuse
from chase.config.regions import RegionConfig, SourceConfig
from chase.config.shipped import region_path, suggestion
from providers import registry

_BESIDE = ("sources", "prices", "typical", "policy", "signal", "embodied")
_LISTS = ("sources", "prices")
_TABLES = ("region", *_BESIDE)
# What is known of a provider without asking it. One that is in none of these may give what its options say.
_ONLY_SCOPE = dict.fromkeys(("caiso", "energinet", "neso", "rte"), "direct")
_SCOPE_UNSAID = {
    **dict.fromkeys(("eia", "electricity_maps", "entsoe", "ieso", "smard"), "lifecycle"),
    "open_electricity": "direct",
}
_ONLY_AVERAGE = {*_ONLY_SCOPE, *_SCOPE_UNSAID, "energy_charts"}
_SIGNAL_UNSAID = {"watttime": "marginal"}
_CURRENCY_UNSAID = {"energinet": "EUR", "energy_charts": "EUR", "entsoe": "EUR", "octopus": "GBP"}
_DEFAULTS: dict[str, type[BaseModel]] = {
    "policy": PolicyConfig,
    "signal": SignalConfig,
    "embodied": EmbodiedConfig,
}


def load_region(region: str | Path, *, base: Path | None = None) -> RegionConfig:
    """A region by id, or by path relative to ``base``. Raises ``ConfigError`` with all that is wrong in the file."""
    return read_region(region_path(region, base=base))[0]


def read_region(path: Path) -> tuple[RegionConfig, Layer]:
    """The region, and the layer of service settings ([policy], [signal], [embodied]) that its file brings."""
    file = read_toml(path)
    refuse([*_shape(file), *_wrong_defaults(file)])
    try:
        region = RegionConfig.model_validate(_flat(file.data))
    except ValidationError as error:
        refuse(from_validation(error, RegionConfig, file.place, _key))
        raise
    refuse([Problem(file.place(key), text) for key, text in _contradictions(region)])
    settings = {name: file.data[name] for name in _DEFAULTS if name in file.data}
    return region, Layer(file.name, settings, file.places, file.folder)


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    beside = {name: data[name] for name in (*_LISTS, "typical", "policy", "embodied") if name in data}
    return {"sources": [], **data.get("region", {}), **beside, "signal_defaults": data.get("signal", {})}


def _key(path: Sequence[str]) -> str:
    """Where in the file a field of ``RegionConfig`` stands."""
    if path[0] == "signal_defaults":
        return ".".join(("signal", *path[1:]))
    return ".".join(path if path[0] in _BESIDE and path != ("signal",) else ("region", *path))


def _shape(file: Layer) -> Iterator[Problem]:
    for name, value in file.data.items():
        if name not in _TABLES:
            fix = "; put it under [region]" if name in RegionConfig.model_fields else ""
            yield Problem(
                file.place(name), f"{name} is not a table of a region file{fix}; there are {', '.join(_TABLES)}"
            )
        elif name not in _LISTS and not isinstance(value, dict):
            yield Problem(file.place(name), f"{name} must be a table: write [{name}], and its keys under it")
    if "region" not in file.data:
        yield Problem(file.name, "has no [region] table, so it is not a region file")
    elif isinstance(file.data["region"], dict):
        for name in sorted(set(file.data["region"]) & {*_LISTS, "typical", "policy", "signal_defaults", "embodied"}):
            yield Problem(file.place(f"region.{name}"), f"{name} stands under [region]; it has a table of its own")


def _wrong_defaults(file: Layer) -> Iterator[Problem]:
    for name, model in _DEFAULTS.items():
        table = file.data.get(name, {})
        if isinstance(table, dict):
            try:
                model.model_validate(table)
            except ValidationError as error:
                yield from from_validation(error, model, file.place, table=name)


def _contradictions(region: RegionConfig) -> Iterator[tuple[str, str]]:
    yield from _unknown("sources", region.sources, registry.knows, registry.names)
    yield from _unknown("prices", region.prices, registry.knows_prices, registry.price_names)
    yield from _twice("sources", region.sources)
    yield from _twice("prices", region.prices)
    yield from _other_scopes(region)
    yield from _other_signals(region)
    yield from _other_currencies(region)
    if not region.sources and region.typical is None:
        yield "region", "has neither [[sources]] nor [typical]; with nothing to ask there is no signal"
    if region.typical and region.typical.scope != region.scope:
        scopes = f"typical is {region.typical.scope} and region.scope is {region.scope}"
        yield "typical.scope", f"{scopes}; they are never mixed, so use figures of the region's scope"


def _unknown(
    table: str, given: Sequence[SourceConfig], knows: Callable[[str], bool], names: Callable[[], list[str]]
) -> Iterator[tuple[str, str]]:
    for index, source in enumerate(given):
        if not knows(source.provider):
            name = f"{table}.{index}.provider"
            yield name, f'{name} = "{source.provider}" is unknown; {suggestion(source.provider, names())}'


def _twice(table: str, given: Sequence[SourceConfig]) -> Iterator[tuple[str, str]]:
    seen: dict[str, int] = {}
    for index, source in enumerate(given):
        same = seen.setdefault(source.model_dump_json(exclude={"token_env"}), index)
        if same != index:
            name = f"{table}.{index}"
            yield name, f"{name} ({source.provider} {source.zone}) is {table}.{same} again; remove one"


def _other_scopes(region: RegionConfig) -> Iterator[tuple[str, str]]:
    """Sources that are bound to give the scope that the region does not have."""
    other = "direct" if region.scope == "lifecycle" else "lifecycle"
    mixed = f'region.scope is "{region.scope}"; they are never mixed, so'
    for index, source in enumerate(region.sources):
        name = f"sources.{index}"
        if _ONLY_SCOPE.get(source.provider) == other:
            fix = f'remove the source or set region.scope = "{other}"'
            yield f"{name}.provider", f"{name} ({source.provider}) gives {other} intensities only and {mixed} {fix}"
        elif "scope" not in source.options and _SCOPE_UNSAID.get(source.provider) == other:
            fix = f'set options.scope = "{region.scope}"'
            yield name, f"{name} ({source.provider}) gives {other} intensities unless told, and {mixed} {fix}"
        elif source.options.get("scope") == other:
            yield f"{name}.options.scope", f'{name}.options.scope = "{other}" and {mixed} make them one'


def _other_signals(region: RegionConfig) -> Iterator[tuple[str, str]]:
    mixed = f'region.signal is "{region.signal}"; they are never mixed, so'
    for index, source in enumerate(region.sources):
        name, label, said = f"sources.{index}", f"sources.{index} ({source.provider})", source.options.get("signal")
        unsaid = _SIGNAL_UNSAID.get(source.provider)
        if source.provider in _ONLY_AVERAGE and region.signal != "average":
            yield f"{name}.provider", f"{label} gives average intensities only and {mixed} remove the source"
        elif said not in {None, region.signal}:
            yield f"{name}.options.signal", f'{name}.options.signal = "{said}" and {mixed} make them one'
        elif said is None and unsaid not in {None, region.signal}:
            fix = f'set options.signal = "{region.signal}"'
            yield name, f"{label} gives {unsaid} intensities unless told, and {mixed} {fix}"


def _other_currencies(region: RegionConfig) -> Iterator[tuple[str, str]]:
    """Price sources that are bound to give a currency that the region does not count in."""
    mixed = f'region.currency is "{region.currency}"; prices are not converted, so'
    for index, source in enumerate(region.prices):
        name, said = f"prices.{index}", source.options.get("currency")
        unsaid = _CURRENCY_UNSAID.get(source.provider)
        if said not in {None, region.currency}:
            yield f"{name}.options.currency", f'{name}.options.currency = "{said}" and {mixed} make them one'
        elif said is None and unsaid not in {None, region.currency}:
            fix = "remove the source or make them one"
            yield f"{name}.provider", f"{name} ({source.provider}) gives {unsaid} unless told, and {mixed} {fix}"
