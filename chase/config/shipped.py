"""Where the files that come with the package are: regions and GPU profiles. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from chase.errors import ConfigError

_FEW = 24  # names that a message may hold


def config_dir() -> Path:
    """The folder with ``chase.toml``, ``regions/`` and ``profiles/``: in the wheel, or beside the packages."""
    from importlib.resources import files

    package = Path(str(files("chase")))
    packed = package / "_config"
    return packed if packed.is_dir() else package.parent / "config"


def region_ids() -> list[str]:
    return _names("regions")


def profile_names() -> list[str]:
    return _names("profiles")


def region_path(region: str | Path, *, base: Path | None = None) -> Path:
    """The file of a region id, or of a path (anything with a slash or ``.toml``), relative to ``base``."""
    return _find(region, "regions", "region", base)


def profile_path(name: str | Path, *, base: Path | None = None) -> Path:
    """The file of a GPU profile, by name or by path as for regions. Raises ``ConfigError`` naming those there are."""
    return _find(name, "profiles", "profile", base)


def home_dir(env: Mapping[str, str]) -> Path:
    """The user's home; the root folder for a user without one, as in some containers."""
    home = expanded(env.get("HOME") or "~")
    return home if home.is_absolute() else Path("/")


def expanded(path: str | Path) -> Path:
    """With ~ replaced, where that user has a home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def is_file(path: Path) -> bool:
    """False also where we may not look; Path.is_file raises then."""
    return os.path.isfile(path)  # noqa: PTH113


def is_path(name: str | Path) -> bool:
    return isinstance(name, Path) or "/" in name or name.endswith(".toml")


def suggestion(word: str, known: list[str], *, listing: str = "") -> str:
    """What a person who wrote ``word`` probably meant, as the end of a sentence. More than a few are not named, but
    the command that lists them, ``listing``, is.
    """
    close = get_close_matches(word.lower(), known, n=3 if len(known) > _FEW else 1)
    meant = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    if len(known) > _FEW and listing:
        return f"{meant}{listing!r} names all {len(known)}"
    return f"{meant}{'There' if meant else 'there'} are: {', '.join(known) or 'none'}"


def _names(folder: str) -> list[str]:
    return sorted(path.stem for path in (config_dir() / folder).glob("*.toml"))


def _find(name: str | Path, folder: str, what: str, base: Path | None) -> Path:
    known = _names(folder)
    if is_path(name):
        path = (base or Path.cwd()) / expanded(name)
        if not is_file(path):
            some = ", ".join(known) if len(known) <= _FEW else f"'chase {folder} list'"
            raise ConfigError(f"{what} file {path}: there is none; give a path or one of {some}")
        return path
    if name not in known:
        meant = suggestion(str(name), known, listing=f"chase {folder} list")
        raise ConfigError(f"{what} {name!r} is unknown; {meant}, or give a path to a file")
    return config_dir() / folder / f"{name}.toml"
