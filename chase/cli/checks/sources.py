"""The sources of a region: whether each can be used as configured and, if asked, whether it answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from chase.build import prices_of, session_of, sources_of
from chase.cli.checks.finding import Finding, State
from chase.cli.output import age
from chase.clock import Clock
from chase.config import Loaded, RegionConfig
from chase.errors import ConfigError
from chase.prices import checked as checked_prices
from chase.source import checked, foreign
from providers.base import (
    AuthError,
    BadRequest,
    NoData,
    PlanError,
    PriceProvider,
    Provider,
    ProviderError,
    RateLimited,
    Scope,
)
from providers.session import Session

INTENSITY, PRICE = "source", "price-source"
_ADVICE: Mapping[type[ProviderError], str] = {
    AuthError: "check the token in the variable that token_env names",
    PlanError: "the token's plan does not cover this: choose another source or ask the vendor",
    BadRequest: "check zone, options and base_url of this source",
    RateLimited: "wait, or share the token with fewer programs",
    NoData: "try again at the next full hour; check the zone if it stays",
}
_ELSE = "see whether this machine may reach it; the service tries the next source"
_BACK = timedelta(hours=6)
_SILENT, _SPAN = "answers, with no", "of the last six hours"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one source says when it is asked once: its newest value, or what is wrong and what to do."""

    subject: str
    provider: str
    zone: str
    state: State = State.SKIP
    value: float | None = None
    unit: str = ""
    kind: str = ""
    age_s: float | None = None
    problem: str = ""
    advice: str = ""

    def finding(self) -> Finding:
        return Finding(self.subject, self.state, f"{self.provider} ({self.zone}): {self._text()}", self.advice)

    def _text(self) -> str:
        if self.value is None:
            return self.problem
        number = f"{self.value:.0f}" if self.subject == INTENSITY else f"{self.value:.4f}"
        return f"{number} {self.unit}, {self.kind}, {age(self.age_s or 0.0)} old"


def configured(loaded: Loaded, clock: Clock, *, online: bool) -> Iterator[Finding]:
    """For the doctor: the tokens, what cannot be made, and each source."""
    session = session_of(loaded.config)
    try:
        region = loaded.region
        yield from missing_tokens(region)
        answers, problems = ask(region, session, clock, online=online)
        yield from problems
        yield from (answer.finding() for answer in answers)
        if not region.sources and region.typical is not None:
            found = f"region {region.id} has its typical profile alone"
            yield Finding(INTENSITY, State.WARN, found, "add a source")
    finally:
        session.close()


def ask(
    region: RegionConfig, session: Session, clock: Clock, *, online: bool, env: Mapping[str, str] = os.environ
) -> tuple[list[Answer], list[Finding]]:
    """Each source's answer, in order, and what is wrong before any is asked. Without ``online`` none is asked."""
    skipped: list[str] = []
    given: dict[str, Any] = {"session": session, "clock": clock, "env": env}
    given["events"] = lambda _code, _severity, text, **_: skipped.append(text)
    try:
        sources, prices = sources_of(region, **given), prices_of(region, **given)
    except ConfigError as error:
        advice = "mend it in the region file; 'chase config check' tells the same"
        return [], [Finding(INTENSITY, State.FAIL, str(error), advice)]
    problems = [Finding(INTENSITY, State.FAIL, text, "mend it in the region file, or take it out") for text in skipped]
    now, mute = clock.now(), _mute(region, env)
    chances = [(Answer(INTENSITY, it.name, it.zone), partial(_intensity, it, now, region)) for it in sources]
    chances += [(Answer(PRICE, it.name, it.zone), partial(_price, it, now, region.currency)) for it in prices]
    answers = []
    for blank, question in chances:
        if variable := mute.get((blank.provider, blank.zone)):
            answers.append(replace(blank, problem=f"not asked: {variable} is not set"))
        elif not online:
            answers.append(replace(blank, problem="not asked", advice="ask it with --online"))
        else:
            answers.append(_asked(blank, question))
    return answers, problems


def can_be_asked(region: RegionConfig, env: Mapping[str, str] = os.environ) -> bool:
    """A missing token of a fallback does no harm; a region of which every source lacks one has its typical profile."""
    return not region.sources or any(not source.token_env or source.token(env) for source in region.sources)


def missing_tokens(region: RegionConfig, env: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    for (provider, _), variable in _mute(region, env).items():
        found = f"{provider}: the environment variable {variable} is not set"
        yield Finding("token", State.WARN, found, "set it for the service, or take the source out of the region")


def _mute(region: RegionConfig, env: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """The variables that are not set, by provider and zone: without their token nobody is asked."""
    without = [source for source in (*region.sources, *region.prices) if source.token_env and not source.token(env)]
    return {(source.provider, source.zone): source.token_env or "" for source in without}


def _asked(blank: Answer, question: Callable[[Answer], Answer]) -> Answer:
    try:
        with foreign():
            return question(blank)
    except ProviderError as error:
        problem, advice = f"{type(error).__name__}: {error}", _ADVICE.get(type(error), _ELSE)
        return replace(blank, state=State.FAIL, problem=problem, advice=advice)


def _intensity(source: Provider, now: datetime, region: RegionConfig, blank: Answer) -> Answer:
    points = checked(source.observe(now - _BACK, now))
    if not points:
        return replace(blank, state=State.WARN, problem=f"{_SILENT} value {_SPAN}", advice="check the zone")
    last = max(points, key=lambda point: point.start)
    if last.signal != region.signal or last.scope not in {region.scope, Scope.UNSPECIFIED}:
        problem = f"it gives {last.signal} {last.scope} intensities, and the region is {region.signal} {region.scope}"
        advice = "the service refuses them: make region.signal and region.scope those, or take the source out"
        return replace(blank, state=State.FAIL, problem=problem, advice=advice)
    age_s = max(0.0, (now - last.end).total_seconds())
    return replace(blank, state=State.OK, value=last.g_per_kwh, unit="g/kWh", kind=last.kind.value, age_s=age_s)


def _price(source: PriceProvider, now: datetime, currency: str, blank: Answer) -> Answer:
    points = checked_prices(source.prices(now - _BACK, now + timedelta(hours=1)), currency)
    begun = [point for point in points if point.start <= now]
    if not begun:
        return replace(blank, state=State.WARN, problem=f"{_SILENT} price {_SPAN}", advice="check the zone")
    last = begun[-1]
    age_s, unit = max(0.0, (now - last.end).total_seconds()), f"{last.currency}/kWh"
    return replace(blank, state=State.OK, value=last.price_per_kwh, unit=unit, kind=last.market.value, age_s=age_s)
