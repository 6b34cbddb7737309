"""What is wrong with a setting, in words for the person who wrote it: place, key, value, and the fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from chase.config.fields import looks_secret
from chase.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Problem:
    """``where`` is a file with its line, a variable or a flag; ``text`` says the rest."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


def refuse(problems: Sequence[Problem]) -> None:
    """Raise ``ConfigError`` with all of ``problems``, one a line in the order of the file, if there are any."""
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(map(str, sorted(problems, key=_position)))))


def _position(problem: Problem) -> tuple[str, int]:
    place, _, line = problem.where.rpartition(":")
    return (place, int(line)) if line.isdecimal() else (problem.where, 0)


def from_validation(
    error: ValidationError,
    model: type[BaseModel],
    place: Callable[[str], str],
    rename: Callable[[Sequence[str]], str] = ".".join,
    table: str = "",
) -> list[Problem]:
    """One problem a key. ``place(key)`` says where a dotted key was written; ``rename`` turns a path into that key."""
    found: dict[str, Problem] = {}
    for detail in error.errors(include_url=False):
        if detail["type"] == "default_factory_not_called":  # a consequence of another one here
            continue
        path = tuple(map(str, detail["loc"]))
        key = f"{table}.{rename(path)}" if table else rename(path)
        found.setdefault(key, Problem(place(key), _text(detail, model, path, key)))
    return list(found.values())


def _text(detail: ErrorDetails, model: type[BaseModel], path: Sequence[str], key: str) -> str:
    owner = _owner(model, path)
    if detail["type"] == "extra_forbidden":
        return _unknown(key, path[-1], owner, model)
    if detail["type"] == "missing":
        return f"{key} is missing; add it{_meaning(owner, path[-1])}"
    shown = "" if _hidden(path[-1]) else f" = {show(detail['input'])}"
    return f"{key}{shown}: {_must(detail, path[-1])}{_default(owner, path[-1])}"


_KINDS = {
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be text in quotes",
    "path_type": "must be a path in quotes",
    "tuple_type": "must be a list in [ ]",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "datetime_type": "must be a UTC time without quotes, such as 2023-06-01T00:00:00Z",
    "string_too_short": "must not be empty",
}
_UNITS = {"_w_per_s": "watts per second", "_g_per_kwh": "gCO2eq/kWh", "_s": "seconds", "_h": "hours", "_days": "days"}
_UNITS |= {"_d": "days", "_w": "watts"}


def _must(detail: ErrorDetails, name: str) -> str:
    """The rule, as the end of a sentence that begins with the key."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        expected = str(context["expected"])
        return f"must be {expected}{_meant(detail['input'], expected)}"
    unit = next((words for end, words in _UNITS.items() if name.endswith(end)), "")
    rule = _KINDS.get(kind) or _rule(detail["msg"], context)
    if unit and kind in {"float_type", "int_type", "int_from_float"}:
        return f"{rule} of {unit}, without quotes or unit"
    return f"{rule} ({unit})" if unit else rule


def _rule(message: str, context: Mapping[str, Any]) -> str:
    if "actual_length" in context:
        bound = "at least" if "min_length" in context else "at most"
        wanted = context.get("min_length", context.get("max_length"))
        return f"must have {bound} {wanted} values, and has {context['actual_length']}"
    return re.sub(r"^(Input|String) should", "must", message)


def _meant(value: object, expected: str) -> str:
    choices = [choice for choice in expected.split("'") if choice.strip(" ,or")]
    close = get_close_matches(str(value).lower(), choices, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _unknown(key: str, name: str, owner: type[BaseModel] | None, model: type[BaseModel]) -> str:
    """The value is not shown: it may be a secret in a place where none belongs."""
    known = list(owner.model_fields) if owner else []
    if close := get_close_matches(name.lower(), known, n=1):
        return f"{key} is not a setting; did you mean {close[0]}?"
    elsewhere = [f"{section}.{name}" for section, inner in _sections(model) if name in inner.model_fields]
    if elsewhere:
        return f"{key} is not a setting; did you mean {' or '.join(elsewhere)}?"
    if _hidden(name):
        return f"{key} is not a setting; a secret belongs into an environment variable, and its NAME into token_env"
    return f"{key} is not a setting; there are {', '.join(known)}"


def _owner(model: type[BaseModel], path: Sequence[str]) -> type[BaseModel] | None:
    """The model that the last part of ``path`` is (or would be) a key of."""
    owner: type[BaseModel] | None = model
    for part in path[:-1]:
        if owner is not None and not part.isdigit():
            field = owner.model_fields.get(part)
            owner = model_in(field.annotation) if field else None
    return owner


def model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(model_in, get_args(annotation))), None)


def _sections(model: type[BaseModel]) -> list[tuple[str, type[BaseModel]]]:
    inner = {name: model_in(field.annotation) for name, field in model.model_fields.items()}
    return [(name, found) for name, found in inner.items() if found]


def _default(owner: type[BaseModel] | None, name: str) -> str:
    field = owner.model_fields.get(name) if owner else None
    if field is None or field.is_required() or field.default is None or field.default_factory:
        return ""
    return f" (the default is {show(field.default)})"


def _meaning(owner: type[BaseModel] | None, name: str) -> str:
    field = owner.model_fields.get(name) if owner else None
    return f" ({field.description})" if field and field.description else ""


def _hidden(name: str) -> bool:
    """Whether people put a secret where this key is."""
    return looks_secret(name) or name in {"token_env", "base_url", "options"}


_LONGEST = 80


def show(value: object) -> str:
    """A value as TOML has it, cut when it is long."""
    text = _toml(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if value.is_integer() else repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return "{ ... }"  # it may hold what is nobody's business
    return f'"{value}"' if isinstance(value, str | Path) else "null" if value is None else str(value)
