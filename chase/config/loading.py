"""All layers into one configuration: defaults < service file < region file < job < environment < flag."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from chase.config.checks import Clash, clashes, policy_clashes, policy_doubts
from chase.config.layers import Layer, environment_layer, flag_layer, merge, read_toml, toml_value
from chase.config.models import Config, PolicyConfig, default_run_dir, default_state_dir
from chase.config.problems import Problem, from_validation, refuse
from chase.config.region_file import read_region
from chase.config.regions import RegionConfig
from chase.config.shipped import expanded, home_dir, is_file, is_path, profile_path, region_path
from chase.errors import ConfigError

SYSTEM_FILE = Path("/etc/chase/chase.toml")
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class OriginRow:
    """One line of ``chase config show --origin``."""

    key: str
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """``origin`` says of each dotted key who set it: ``default``, FILE:LINE, ``environment NAME`` or ``flag``.

    ``service_file`` is None when there is none, ``region_file`` is where ``region`` was read.
    """

    config: Config
    origin: Mapping[str, str]
    region: RegionConfig
    service_file: Path | None
    region_file: Path
    _asked: Mapping[str, Any] = field(repr=False)

    def doubts(self, now: datetime) -> list[str]:
        """What is good and may not be meant: where it is set, what it comes to, and the fix."""
        found = policy_doubts(job_policy(self.config, self.region, {}), self.region, now)
        return [f"{self.origin[key]}: policy.{text}" for key, text in found]

    def again(self) -> Loaded:
        """The same files, environment and flags, read now."""
        return load(**self._asked)


def load(
    *,
    service_file: Path | None = None,
    region: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    env: Mapping[str, str] = os.environ,
) -> Loaded:
    """Read, merge and check everything; touch nothing. ``overrides`` are flags by dotted key, None where not given.

    Raises ``ConfigError``: all mistakes of the service file, the environment and the flags at once, then all of the
    region file, then combinations that cannot be.
    """
    asked = {"service_file": service_file, "region": region, "overrides": overrides, "env": env}
    path = find_service_file(service_file, env)
    service = read_toml(path) if path else Layer(DEFAULT)
    variables = environment_layer(env, _environment_value)
    named = {} if region is None else {"service.region": str(region.absolute()) if isinstance(region, Path) else region}
    flags = flag_layer({**(overrides or {}), **named})
    written = [service, variables, flags]
    refuse([problem for layer in written for problem in _wrong(layer)])

    region_file = _file_of(written, "service.region", region_path)
    profile_file = _file_of(written, "simulated.profile", profile_path)
    chosen, grid = read_region(region_file)
    layers = [service, grid, variables, flags]
    config = Config.model_validate(_completed(merge(*(layer.data for layer in layers)), env, region_file, profile_file))
    origin = _origin(config, layers)
    refuse(list(_clash_problems(clashes(config), origin)))
    config._policy_below = service.data.get("policy", {})  # noqa: SLF001 - ours, and only set here
    config._policy_above = merge(variables.data, flags.data).get("policy", {})  # noqa: SLF001
    return Loaded(config, origin, chosen, path, region_file, asked)


def find_service_file(explicit: Path | None, env: Mapping[str, str]) -> Path | None:
    """The file that was named (it must exist), else the user's, else the system's, else None."""
    named = explicit or (expanded(env["CHASE_CONFIG"]) if env.get("CHASE_CONFIG") else None)
    if named is not None:
        if not is_file(named):
            by = "" if explicit else " ($CHASE_CONFIG)"
            raise ConfigError(f"{named}{by}: there is no such file, or it may not be read; name another one or none")
        return named.absolute()
    home = Path(env.get("XDG_CONFIG_HOME") or home_dir(env) / ".config")
    return next((path for path in (home / "chase/chase.toml", SYSTEM_FILE) if is_file(path)), None)


def job_policy(config: Config, region: RegionConfig | None, overrides: Mapping[str, Any]) -> PolicyConfig:
    """The policy of one job: its wishes over the file and its region's, under the environment and flags.

    Raises ``ConfigError`` for an unknown key, a bad value or an impossible combination.
    """
    wishes = Layer("job policy", {"policy": dict(overrides)})
    refuse(list(_wrong(wishes)))
    below = config.policy.model_dump() if config._policy_below is None else config._policy_below  # noqa: SLF001
    grid = region.policy if region else {}
    policy = PolicyConfig.model_validate({**below, **grid, **overrides, **config._policy_above})  # noqa: SLF001
    refuse([Problem(wishes.name, text) for _, text in policy_clashes(policy)])
    return policy


def origin_rows(loaded: Loaded) -> list[OriginRow]:
    """Every setting of the service and every fact of the region, with who set it; secrets are never among them."""
    settings = loaded.config.model_dump(mode="json")
    rows = [OriginRow(key, value, loaded.origin[key]) for key, value in _leaves(settings)]
    file = read_toml(loaded.region_file)
    written = dict(_leaves(_facts(loaded.region, exclude_unset=True)))
    facts = _leaves(_facts(loaded.region, exclude_unset=False))
    return rows + [OriginRow(key, value, file.place(key) if key in written else DEFAULT) for key, value in facts]


def _facts(region: RegionConfig, *, exclude_unset: bool) -> dict[str, Any]:
    """A region as its file has it, without the 288 figures of the typical profile."""
    facts = region.model_dump(
        mode="json",
        exclude={"policy": True, "signal_defaults": True, "embodied": True, "typical": {"g_per_kwh"}},
        exclude_unset=exclude_unset,
        exclude_none=True,
    )
    beside = {name: facts.pop(name) for name in ("sources", "prices", "typical") if name in facts}
    lists = {
        name: {str(index): source for index, source in enumerate(beside.get(name, []))}
        for name in ("sources", "prices")
    }
    return {"region": facts, **lists, "typical": beside.get("typical", {})}


def _leaves(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _wrong(layer: Layer) -> list[Problem]:
    """What is wrong in one layer alone, whether or not another one overrides it."""
    try:
        Config.model_validate(layer.data)
    except ValidationError as error:
        return from_validation(error, Config, layer.place)
    return []


def _environment_value(section: str, key: str, text: str) -> Any:
    """A TOML value where the setting takes that, else the bare text: ``p70`` and ``"p70"`` mean the same."""
    value = toml_value(text)
    return value if value == text or not _fits(section, key, text) or _fits(section, key, value) else text


def _fits(section: str, key: str, value: Any) -> bool:
    try:
        Config.model_validate({section: {key: value}})
    except ValidationError:
        return False
    return True


def _file_of(layers: Sequence[Layer], key: str, find: Callable[..., Path]) -> Path:
    """The file that a setting names by id or by path; a relative path starts at the folder of the file it is in."""
    section, name = key.split(".")
    layer = next((layer for layer in reversed(layers) if name in layer.data.get(section, {})), None)
    value = layer.data[section][name] if layer else getattr(getattr(Config(), section), name)
    try:
        return find(value, base=layer.folder if layer else None)
    except ConfigError as error:
        raise ConfigError(f"{layer.place(key) if layer else DEFAULT}: {key}: {error}") from error


def _completed(data: dict[str, Any], env: Mapping[str, str], region: Path, profile: Path) -> dict[str, Any]:
    """Folders that depend on the user, and paths made whole."""
    service, simulated = dict(data.get("service", {})), dict(data.get("simulated", {}))
    service.setdefault("state_dir", default_state_dir(env))
    service.setdefault("run_dir", default_run_dir(env, Path(service["state_dir"])))
    if is_path(service.get("region", "")):
        service["region"] = str(region)
    if is_path(simulated.get("profile", "")):
        simulated["profile"] = str(profile)
    return {**data, "service": service, "simulated": simulated}


def _origin(config: Config, layers: Sequence[Layer]) -> dict[str, str]:
    def of(key: str) -> str:
        section, name = key.split(".")
        layer = next((layer for layer in reversed(layers) if name in layer.data.get(section, {})), None)
        return layer.place(key) if layer else DEFAULT

    return {key: of(key) for key, _ in _leaves(config.model_dump(mode="json"))}


def _clash_problems(found: Iterable[Clash], origin: Mapping[str, str]) -> Iterator[Problem]:
    """Placed where the first of the clashing keys that somebody wrote stands."""
    for keys, text in found:
        place = next((origin[key] for key in keys if origin[key] != DEFAULT), DEFAULT)
        yield Problem(place, f"{' and '.join(keys)}: {text}")
