"""Which region this machine may be in, from what it says of itself: cloud variables and the time zone. Offline.

Standard library only. A guess is a guess: a time zone is often that of the person rather than of the machine, and a
cloud's variable is often that of a client. Each one says why, and how sure it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from chase.config.places import AWS, AZURE, GOOGLE, TIME_ZONES
from chase.config.shipped import region_ids

_LONGEST = 256  # characters of a file or a variable that may be a name
_ZONEINFO = "zoneinfo/"
_ZONE = re.compile(r"[A-Za-z]+(/[A-Za-z0-9_+-]+)+")
_NO_PLACE = frozenset({"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Universal", "Etc/Universal", "Zulu"})


class Sure(StrEnum):
    """From the most to the least."""

    SURE = "sure"  # two signs that have nothing to do with each other agree
    LIKELY = "likely"  # one sign that names one grid
    POSSIBLE = "possible"  # one of several grids, or a sign that is often of another place


_ORDER = tuple(Sure)


@dataclass(frozen=True, slots=True)
class Candidate:
    region: str
    sure: Sure
    why: str


@dataclass(frozen=True, slots=True)
class _Sign:
    """One thing that speaks for a region. Two of one ``kind`` do not bear each other out: they may have one cause."""

    kind: str
    region: str
    sure: Sure
    why: str


@dataclass(frozen=True, slots=True)
class Guess:
    """``candidates``, the best first; ``notes`` are the signs that led nowhere, for people."""

    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> Candidate | None:
        """The one to take without asking: none where another is as good."""
        first, *others = self.candidates or (None,)
        if first is None or first.sure is Sure.POSSIBLE or any(other.sure is first.sure for other in others):
            return None
        return first


@dataclass(frozen=True, slots=True)
class _Cloud:
    name: str
    regions: Mapping[str, str]
    own: tuple[str, ...]  # variables that the cloud itself sets where its machines run
    clients: tuple[str, ...] = ()  # those that people set to say whom their tools talk to


_CLOUDS = (
    _Cloud("AWS", AWS, ("AWS_REGION",), ("AWS_DEFAULT_REGION",)),
    _Cloud(
        "Google Cloud",
        GOOGLE,
        ("GOOGLE_CLOUD_REGION", "FUNCTION_REGION"),
        ("CLOUDSDK_COMPUTE_REGION", "CLOUDSDK_COMPUTE_ZONE"),
    ),
    _Cloud("Azure", AZURE, ("REGION_NAME", "AZURE_REGION"), ("AZURE_LOCATION",)),
)


def guess(env: Mapping[str, str] = os.environ, *, root: Path = Path("/")) -> Guess:
    """The regions that fit. ``root`` is where ``etc`` is."""
    notes: list[str] = []
    found = [*_by_cloud(env, notes), *_by_time_zone(env, root, notes)]
    shipped = set(region_ids())
    return Guess(tuple(_ranked(sign for sign in found if sign.region in shipped)), tuple(notes))


def _by_cloud(env: Mapping[str, str], notes: list[str]) -> Iterator[_Sign]:
    for cloud in _CLOUDS:
        for variable in (*cloud.own, *cloud.clients):
            said = env.get(variable, "").strip()[:_LONGEST]
            region = cloud.regions.get(_plain(said, cloud))
            if region:
                sure = Sure.LIKELY if variable in cloud.own else Sure.POSSIBLE
                yield _Sign("cloud", region, sure, f"{variable} is {said}")
            elif said:
                notes.append(f"{variable} is {said!r}: no file here is of the grid of that {cloud.name} region")


def _plain(said: str, cloud: _Cloud) -> str:
    """As the table writes it: ``West Europe`` is westeurope, and a zone of Google's ends in a letter of its own."""
    name = said.lower()
    if cloud.regions is AZURE:
        return name.replace(" ", "").replace("-", "").replace("_", "")
    head, _, tail = name.rpartition("-")
    return head if cloud.regions is GOOGLE and len(tail) == 1 and tail.isalpha() else name


def _by_time_zone(env: Mapping[str, str], root: Path, notes: list[str]) -> Iterator[_Sign]:
    zone, where = time_zone(env, root)
    regions = TIME_ZONES.get(zone, ())
    for region in regions:
        shared = f", which {len(regions)} of our grids share" if len(regions) > 1 else ""
        sure = Sure.POSSIBLE if shared else Sure.LIKELY
        yield _Sign("time zone", region, sure, f"the time zone is {zone} ({where}){shared}")
    if not regions:
        notes.append(f"the time zone is {zone} ({where}), which says nothing of the grid" if zone else where)


def time_zone(env: Mapping[str, str], root: Path = Path("/")) -> tuple[str, str]:
    """The machine's IANA time zone and where it is said; empty, with the reason, where nobody names one."""
    said = env.get("TZ", "").strip()[:_LONGEST].removeprefix(":")
    if zone := _named(said):
        return zone, "TZ"
    for path, read in ((root / "etc/localtime", _link), (root / "etc/timezone", _text)):
        if zone := _named(read(path)):
            return zone, f"/{path.relative_to(root)}"
    return "", "no time zone is named: neither by TZ nor by /etc/localtime or /etc/timezone"


def _named(text: str) -> str:
    """An IANA name out of a name, or out of a path to a file of one; a rule such as ``CET-1CEST`` is none."""
    name = text.partition(_ZONEINFO)[2] if _ZONEINFO in text else text
    for folder in ("posix/", "right/"):
        name = name.removeprefix(folder)
    return name if name in TIME_ZONES or name in _NO_PLACE or _ZONE.fullmatch(name) else ""


def _link(path: Path) -> str:
    try:
        return str(path.readlink())[-_LONGEST:]
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(_LONGEST).strip()
    except OSError:
        return ""


def _ranked(found: Iterable[_Sign]) -> list[Candidate]:
    """One for each region, the surest first."""
    signs: dict[str, list[_Sign]] = {}
    for sign in found:
        signs.setdefault(sign.region, []).append(sign)
    merged = [_merged(region, of_region) for region, of_region in signs.items()]
    return sorted(merged, key=lambda candidate: _ORDER.index(candidate.sure))


def _merged(region: str, signs: list[_Sign]) -> Candidate:
    agreed = len({sign.kind for sign in signs}) > 1
    sure = Sure.SURE if agreed else min((sign.sure for sign in signs), key=_ORDER.index)
    return Candidate(region, sure, "; ".join(dict.fromkeys(sign.why for sign in signs)))
