"""The sources of the region: whether each can be used as configured and, if asked, whether it answers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from chase.build import session_of, sources_of
from chase.cli.checks.finding import Finding, State
from chase.cli.output import age
from chase.clock import Clock
from chase.config import Loaded, RegionConfig
from chase.errors import ConfigError
from providers.base import AuthError, BadRequest, NoData, PlanError, Provider, ProviderError, RateLimited

_ADVICE: Mapping[type[ProviderError], str] = {
    AuthError: "check the token in the variable that token_env names",
    PlanError: "the token's plan does not cover this: choose another source or ask the vendor",
    BadRequest: "check zone, options and base_url of this source",
    RateLimited: "wait, or share the token with fewer programs",
    NoData: "try again at the next full hour; check the zone if it stays",
}


def configured(loaded: Loaded, clock: Clock, *, online: bool) -> Iterator[Finding]:
    region = loaded.region
    skipped: list[str] = []
    yield from _tokens(region)
    try:
        sources = sources_of(
            region,
            session=session_of(loaded.config),
            clock=clock,
            events=lambda _code, _severity, text, **_: skipped.append(text),
        )
    except ConfigError as error:
        yield Finding(
            "source", State.FAIL, str(error), "mend it in the region file; 'chase config check' tells the same"
        )
        return
    for text in skipped:
        yield Finding("source", State.FAIL, text, "mend it in the region file, or take it out")
    if not sources and region.typical is None:
        yield Finding("source", State.FAIL, f"region {region.id} has nothing to go by", "add a source to its file")
    elif not sources:
        yield Finding("source", State.WARN, f"region {region.id} has its typical profile alone", "add a source")
    for provider in sources:
        yield _answer(provider, clock.now()) if online else _not_asked(provider)


def _tokens(region: RegionConfig) -> Iterator[Finding]:
    for source in region.sources:
        if source.token_env and source.token(os.environ) is None:
            found = f"{source.provider}: the environment variable {source.token_env} is not set"
            yield Finding("token", State.WARN, found, "set it for the service, or take the source out of the region")


def _not_asked(provider: Provider) -> Finding:
    return Finding("source", State.SKIP, f"{provider.name} ({provider.zone}): not asked", "ask it with --online")


def _answer(provider: Provider, now: datetime) -> Finding:
    label = f"{provider.name} ({provider.zone})"
    try:
        points = provider.observe(now - timedelta(hours=6), now).points
    except ProviderError as error:
        advice = _ADVICE.get(type(error), "see whether this machine may reach it; the service tries the next source")
        return Finding("source", State.FAIL, f"{label}: {type(error).__name__}: {error}", advice)
    if not points:
        return Finding("source", State.WARN, f"{label}: answers, with no value of the last six hours", "check the zone")
    last = points[-1]
    old = age((now - last.end).total_seconds()) if now > last.end else "0 s"
    return Finding("source", State.OK, f"{label}: {last.g_per_kwh:.0f} g/kWh, {last.kind.value}, {old} old")
