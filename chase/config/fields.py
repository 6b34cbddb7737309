"""The kinds of value that settings have, each with the limits beyond which it can only be a mistake."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from string import Formatter
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from chase.config.shipped import expanded

YEAR_S = 365 * 86400.0
HIGHEST_G_PER_KWH = 5000
HIGHEST_PORT = 65535


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


def _address(text: str) -> str:
    """HOST:PORT; an IPv6 host in brackets."""
    host, port = split_address(text)
    if not re.fullmatch(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(%\w+)?", host) or not 0 <= port <= HIGHEST_PORT:
        raise ValueError("must be HOST:PORT, such as 127.0.0.1:8420 or [::1]:8420")
    return text


def split_address(text: str) -> tuple[str, int]:
    """Host and port; an empty host for what is no address."""
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+)):(\d{1,5})", text)
    return ((found[1] or found[2]), int(found[3])) if found else ("", 0)


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine can reach it. A name other than localhost may be anywhere."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


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
Address = Annotated[str, AfterValidator(_address)]
Setter = Annotated[Texts, AfterValidator(_setter)]
Seconds = Annotated[float, Field(gt=0, le=YEAR_S)]
Days = Annotated[int, Field(ge=1, le=36500)]
Share = Annotated[float, Field(ge=0, le=1)]
Slowdown = Annotated[float, Field(ge=0, le=5)]
Watts = Annotated[float, Field(gt=0, le=5000)]
Threshold = Annotated[float | str, PlainValidator(_threshold, json_schema_input_type=float | str)]
