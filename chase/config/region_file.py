"""Reading a region file: its shape, and what its parts must say of each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from chase.config.layers import Layer, read_toml
from chase.config.models import PolicyConfig, SignalConfig
from chase.config.problems import Problem, from_validation, refuse
from chase.config.regions import RegionConfig
from chase.config.shipped import region_path, suggestion
from providers.registry import names as provider_names

_BESIDE = ("sources", "typical", "policy", "signal")
_TABLES = ("region", *_BESIDE)
_ONLY_SCOPE = {"neso": "direct"}
_SCOPE_UNSAID = {"electricity_maps": "lifecycle"}  # of the others a source without the option may give either
_DEFAULTS: dict[str, type[BaseModel]] = {"policy": PolicyConfig, "signal": SignalConfig}


def load_region(region: str | Path, *, base: Path | None = None) -> RegionConfig:
    """A region by id, or by path relative to ``base``. Raises ``ConfigError`` with all that is wrong in the file."""
    return read_region(region_path(region, base=base))[0]


def read_region(path: Path) -> tuple[RegionConfig, Layer]:
    """The region, and the layer of service settings ([policy], [signal]) that its file brings."""
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
    beside = {name: data[name] for name in ("sources", "typical", "policy") if name in data}
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
        elif name != "sources" and not isinstance(value, dict):
            yield Problem(file.place(name), f"{name} must be a table: write [{name}], and its keys under it")
    if "region" not in file.data:
        yield Problem(file.name, "has no [region] table, so it is not a region file")
    elif isinstance(file.data["region"], dict):
        for name in sorted(set(file.data["region"]) & {"sources", "typical", "policy", "signal_defaults"}):
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
    known = provider_names() if region.sources else []
    for index, source in enumerate(region.sources):
        if source.provider not in known:
            text = f'sources.{index}.provider = "{source.provider}" is unknown; {suggestion(source.provider, known)}'
            yield f"sources.{index}.provider", text
    seen: dict[str, int] = {}
    for index, source in enumerate(region.sources):
        same = seen.setdefault(source.model_dump_json(exclude={"token_env"}), index)
        if same != index:
            yield (
                f"sources.{index}",
                f"sources.{index} ({source.provider} {source.zone}) is sources.{same} again; remove one",
            )
    yield from _other_scopes(region)
    for index, source in enumerate(region.sources):
        if source.options.get("signal") not in {None, region.signal}:
            mixed = f'region.signal is "{region.signal}"; they are never mixed, so make them one'
            name = f"sources.{index}.options.signal"
            yield name, f'{name} = "{source.options["signal"]}" and {mixed}'
    if not region.sources and region.typical is None:
        yield "region", "has neither [[sources]] nor [typical]; with nothing to ask there is no signal"
    if region.typical and region.typical.scope != region.scope:
        scopes = f"typical is {region.typical.scope} and region.scope is {region.scope}"
        yield "typical.scope", f"{scopes}; they are never mixed, so use figures of the region's scope"


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
