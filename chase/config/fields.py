"""The kinds of value that settings have, each with the limits beyond which it can only be a mistake."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from chase.config.shipped import expanded

YEAR_S = 365 * 86400.0
HIGHEST_G_PER_KWH = 5000


class Section(BaseModel):
    """Frozen and strict: no unknown key, no text where a number belongs, nothing infinite."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,  # a token in the wrong place must not end in a traceback
        protected_namespaces=(),
    )


def _absolute(path: Path) -> Path:
    path = expanded(path)
    if not path.is_absolute():
        raise ValueError("must be an absolute path (a service has no working folder worth relying on)")
    return path


def _threshold(value: Any) -> float | str:
    """Grams per kWh as a number, or a percentile of the recent signal as text from 'p0' to 'p100'."""
    if isinstance(value, str) and re.fullmatch(r"p(100|[0-9]{1,2}(\.[0-9]+)?)", value):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= HIGHEST_G_PER_KWH:
        return float(value)
    raise ValueError("must be gCO2eq/kWh from 0 to 5000, without quotes, or a percentile from 'p0' to 'p100'")


def is_percentile(threshold: float | str) -> bool:
    return isinstance(threshold, str)


_PLACEHOLDERS = ("uuid", "index", "power_limit_w", "power_limit_mw")


def _placeholders(command: tuple[str, ...]) -> set[str]:
    return {name for word in command for _, name, _, _ in Formatter().parse(word) if name is not None}


def _setter(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command that names the GPU and the limit, by placeholders that exist."""
    if not command:
        return command
    try:
        used = _placeholders(command)
    except ValueError as error:
        raise ValueError("has a { or } without its pair; a brace that is meant is written twice") from error
    if unknown := sorted(used.difference(_PLACEHOLDERS)):
        raise ValueError(f"has unknown placeholders {unknown}; there are {', '.join(_PLACEHOLDERS)}")
    if not Path(command[0]).is_absolute():
        raise ValueError("does not begin with the absolute path of a program")
    if not used & {"uuid", "index"}:
        raise ValueError("does not say which GPU; put {uuid} or {index} into it")
    if not used & {"power_limit_w", "power_limit_mw"}:
        raise ValueError("does not say the limit; put {power_limit_w} or {power_limit_mw} into it")
    return command


_SECRET = re.compile(r"token|secret|passw|credential|api.?key|(^|[_-])(auth|pw|key)($|[_-])", re.IGNORECASE)


def looks_secret(key: str) -> bool:
    """Whether a key of this name would hold a secret rather than the name of one."""
    return bool(_SECRET.search(key)) and not key.endswith(("_env", "_header"))


def matching(pattern: str, rule: str) -> AfterValidator:
    """Text of one form; ``rule`` says which, as the end of a sentence."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(rule)
        return value

    return AfterValidator(check)


# strict=False admits what TOML has for it (text for a path, an array for a tuple) and nothing more.
AbsolutePath = Annotated[Path, Field(strict=False), AfterValidator(_absolute)]
Texts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]
Setter = Annotated[Texts, AfterValidator(_setter)]
Seconds = Annotated[float, Field(gt=0, le=YEAR_S)]
Days = Annotated[int, Field(ge=1, le=36500)]
Share = Annotated[float, Field(ge=0, le=1)]
Slowdown = Annotated[float, Field(ge=0, le=5)]
Threshold = Annotated[float | str, PlainValidator(_threshold, json_schema_input_type=float | str)]
