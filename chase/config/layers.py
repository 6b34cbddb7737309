"""One layer of settings each: a TOML file, the environment, flags. A layer knows where each of its keys was written."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chase.errors import ConfigError

PREFIX = "CHASE_"
_LARGEST_FILE = 1_000_000


@dataclass(frozen=True, slots=True)
class Layer:
    """``data`` is nested as in the file; ``places`` says where a dotted key stands, ``name`` where all of it does."""

    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None

    def place(self, key: str) -> str:
        """The nearest place known for ``key``: its own, its table's, that of something in it, or the layer's name."""
        above = (key.rsplit(".", depth)[0] for depth in range(key.count(".") + 1))
        found = next((self.places[part] for part in above if part in self.places), None)
        within = (place for known, place in self.places.items() if known.startswith(f"{key}."))
        return found or next(within, self.name)


def read_toml(path: Path) -> Layer:
    """Raises ``ConfigError`` naming the file, and the line of a syntax error."""
    text = _read(path)
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also of a number with too many digits, and of endless brackets
        line = re.search(r"at line (\d+)", str(error))
        number = int(line[1]) if line else max(1, len(text.splitlines()))
        raise ConfigError(f"{path}:{number}: this is not TOML: {error}; mend the line, nothing was read") from error
    return Layer(str(path), data, {key: f"{path}:{number}" for key, number in lines(text)}, path.parent)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
        if len(raw) > _LARGEST_FILE:
            raise ConfigError(f"{path}: is larger than {_LARGEST_FILE} bytes, so it is not a configuration file")
        return raw.decode()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; check the path and its permissions") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error


_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\s-]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=")


def lines(text: str) -> Iterator[tuple[str, int]]:
    """Each dotted key with its line. Good enough for a message: quoted keys are not found, tables in tables are."""
    table, counts, in_text = "", dict[str, int](), False
    for number, line in enumerate(text.splitlines(), 1):
        if not in_text and (header := _HEADER.match(line)):
            table = re.sub(r"\s", "", header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = f"{table}.{counts[table]}"
            yield table, number
        elif not in_text and (key := _KEY.match(line)):
            name = re.sub(r"\s", "", key[1])
            yield f"{table}.{name}" if table else name, number
        if (line.count('"""') + line.count("'''")) % 2:
            in_text = not in_text


def flag_layer(overrides: Mapping[str, Any]) -> Layer:
    """Flags by dotted key or nested; None is a flag that was not given. A relative path is made absolute."""
    data: dict[str, Any] = {}
    for key, value in overrides.items():
        if value is not None:
            _put(data, key.split("."), value.absolute() if isinstance(value, Path) else value)
    return Layer("flag", data)


def environment_layer(env: Mapping[str, str], scalar: Callable[[str, str, str], Any]) -> Layer:
    """``CHASE_SECTION__KEY``; a blank variable counts as unset. ``scalar(section, key, text)`` reads a value."""
    data: dict[str, Any] = {}
    places: dict[str, str] = {}
    for name, text in sorted(env.items()):
        if not name.startswith(PREFIX) or "__" not in name or not text.strip():
            continue
        section, _, key = name.removeprefix(PREFIX).lower().partition("__")
        _put(data, [section, key], scalar(section, key, text.strip()))
        places[f"{section}.{key}"] = f"environment {name}"
    return Layer("environment", data, places)


def toml_value(text: str) -> Any:
    """``text`` as TOML would read it after an ``=``; as it stands when it is no TOML value."""
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (ValueError, RecursionError):
        return text


def _put(data: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        data = data.setdefault(part, {})
    data[path[-1]] = {**data.get(path[-1], {}), **value} if isinstance(value, Mapping) else value


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Sections key by key, the last wins."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for section, values in layer.items():
            merged[section] = {**merged.get(section, {}), **values}
    return merged
