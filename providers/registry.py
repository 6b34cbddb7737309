"""Providers by name: the built-in ones, imported when asked for, and those that other packages bring.

An outsider's package names a callable with the signature of ``create`` (without ``provider``) in its metadata::

    [project.entry-points."chase.providers"]
    my_grid = "my_package.grid:MyGrid"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from providers.base import BadRequest, Provider
from providers.options import did_you_mean
from providers.redact import Secret

if TYPE_CHECKING:
    from providers.session import Session

GROUP = "chase.providers"
_BUILT_IN = {
    "electricity_maps": "providers.electricity_maps:ElectricityMaps",
    "file": "providers.file:FileProvider",
    "neso": "providers.neso:Neso",
    "static": "providers.static:StaticProvider",
}
_MEMBERS = ("name", "zone", "capabilities", "observe", "forecast", "close")


def names() -> list[str]:
    """All that ``create`` knows. A built-in name cannot be taken over by another package."""
    return sorted({*_BUILT_IN, *(entry.name for entry in _outside())})


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
    """The provider for one zone. Nothing is asked of the network yet; ``BadRequest`` names what is wrong."""
    secret = Secret(token) if token else None
    made = _factory(provider)(zone=zone, options=options, token=secret, base_url=base_url, session=session, now=now)
    missing = [member for member in _MEMBERS if not hasattr(made, member)]
    if missing:
        raise BadRequest(f"provider {provider!r} lacks {', '.join(missing)}: see providers.base.Provider")
    return made  # type: ignore[no-any-return]  # what an outsider's callable returns is checked above


def _factory(provider: str) -> Callable[..., Any]:
    if provider in _BUILT_IN:
        module, _, attribute = _BUILT_IN[provider].partition(":")
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]
    for entry in _outside():
        if entry.name == provider:
            return _loaded(entry)
    known = names()
    raise BadRequest(f"there is no provider {provider!r}{did_you_mean(provider, known)}; known are {', '.join(known)}")


def _outside() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


def _loaded(entry: EntryPoint) -> Callable[..., Any]:
    package = entry.dist.name if entry.dist else "an unknown package"
    try:
        return entry.load()  # type: ignore[no-any-return]
    except Exception as error:
        raise BadRequest(
            f"provider {entry.name!r} of {package} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
