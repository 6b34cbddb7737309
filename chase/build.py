"""From a configuration to the parts of a service: clock, GPUs, actuator, sources. Each choice is made here, once."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from chase.clock import Clock, ScaledClock, SystemClock
from chase.config import Config, RegionConfig, SourceConfig, profile_path
from chase.errors import ChaseError, ConfigError
from chase.prices import PriceFeed
from chase.signal import GridSignal, Limits
from chase.store import Keep, Store
from providers import registry
from providers.base import BadRequest, PriceProvider, Provider, ProviderError, Scope, Signal
from providers.session import Session
from zeus_core.actuation.base import ActuationError, Actuator
from zeus_core.actuation.remote import RemoteActuator
from zeus_core.gpus.base import GpuError, GpuSystem

M = TypeVar("M")


def clock_of(config: Config) -> Clock:
    simulated = config.simulated
    if config.control.gpus == "simulated" and (simulated.rate != 1.0 or simulated.start is not None):
        return ScaledClock((simulated.start or datetime.now(UTC)).astimezone(UTC), simulated.rate)
    return SystemClock()


def system_of(config: Config, clock: Clock) -> GpuSystem:
    """The GPUs. Raises ``ChaseError`` when there is no driver to ask."""
    if config.control.gpus == "simulated":
        from zeus_core.gpus.simulated import SimulatedSystem, load_profile

        wanted = config.simulated
        profile = load_profile(profile_path(wanted.profile))
        return SimulatedSystem(profile, wanted.count, seed=wanted.seed, noise=wanted.noise, monotonic=clock.monotonic)
    from zeus_core.gpus.nvml import NvmlSystem

    system = NvmlSystem()
    try:
        system.gpus()  # the driver is asked here for the first time
    except GpuError as error:
        system.close()
        raise ChaseError(f"{error} (without an NVIDIA GPU, try `chase demo` or `chase serve --simulated`)") from error
    return system


def actuator_of(config: Config, system: GpuSystem, clock: Clock) -> tuple[Actuator | None, str]:
    """The actuator, or None with the reason: then the service observes."""
    if config.service.mode == "observe":
        return None, "configured to observe (service.mode)"
    kind = _actuator_kind(config, system)
    if kind == "none":
        return None, 'configured to set nothing (control.actuator = "none")'
    if kind == "remote":
        # It may not be there yet: it is looked for at every tick, and until then the service observes.
        return RemoteActuator(config.control.actuator_socket), ""
    return _local(config, system, clock, kind), ""


def _actuator_kind(config: Config, system: GpuSystem) -> str:
    wanted = config.control.actuator
    if wanted != "auto":
        return wanted
    if config.control.setter_command:
        return "command"
    if system.kind == "simulated" or os.geteuid() == 0:
        return "local"
    return "remote"


def _local(config: Config, system: GpuSystem, clock: Clock, kind: str) -> Actuator:
    from zeus_core.actuation.command import CommandSetter
    from zeus_core.actuation.local import LocalActuator

    try:
        return LocalActuator(
            system,
            state_dir=config.journal_dir,
            lock_dir=config.lock_dir,
            ramp_w_per_s=config.control.ramp_w_per_s,
            monotonic=clock.monotonic,
            setter=CommandSetter(list(config.control.setter_command)) if kind == "command" else None,
        )
    except ActuationError as error:
        raise ChaseError(str(error)) from error


def keep_of(config: Config) -> Keep:
    store = config.store
    return Keep(store.keep_days, store.keep_signal_days, store.keep_vintages_days, store.keep_forecasts_days)


def session_of(config: Config) -> Session:
    """One for the process: its pace is counted for each host and token."""
    return Session(timeout=(config.signal.timeout_connect_s, config.signal.timeout_read_s))


def signal_of(
    region: RegionConfig,
    config: Config,
    *,
    session: Session,
    clock: Clock,
    store: Store | None,
    events: Callable[..., None],
    env: Mapping[str, str] = os.environ,
) -> GridSignal:
    """The signal of a region over its sources. Raises ``ConfigError`` for one that cannot be made as configured."""
    sources = sources_of(region, session=session, clock=clock, events=events, env=env)
    return GridSignal(
        region.id,
        sources,
        clock=clock,
        limits=Limits.of(config.signal),
        store=store,
        typical=_typical(region, session, clock),
        wants=(Signal(region.signal), Scope(region.scope)),
        node=platform.node(),
        on_event=events,
    )


def prices_feed(
    region: RegionConfig,
    config: Config,
    *,
    session: Session,
    clock: Clock,
    store: Store | None,
    events: Callable[..., None],
    env: Mapping[str, str] = os.environ,
) -> PriceFeed:
    """The prices of a region, of no source at all where it names none. Raises ``ConfigError`` as ``signal_of``."""
    return PriceFeed(
        region.id,
        prices_of(region, session=session, clock=clock, events=events, env=env),
        currency=region.currency,
        time_zone=region.time_zone,
        clock=clock,
        usable_s=config.signal.usable_s,
        store=store,
        node=platform.node(),
        on_event=events,
    )


def stored_as(region: RegionConfig) -> list[tuple[str, str]]:
    """Zone and source of each source as its stored points have them, in order. Nothing is asked."""
    session = Session()
    try:
        return [(made.zone, made.name) for made in sources_of(region, session=session, clock=SystemClock())]
    finally:
        session.close()


def sources_of(
    region: RegionConfig,
    *,
    session: Session,
    clock: Clock,
    events: Callable[..., None] = lambda *_, **__: None,
    env: Mapping[str, str] = os.environ,
) -> list[Provider]:
    """The sources in their order; nothing is asked of them yet.

    Raises ``ConfigError`` for options that make no sense; one that cannot be made for another reason is left out.
    """
    made = partial(_made, registry.create, session=session, clock=clock, env=env)
    return list(_usable(region, "source", region.sources, made, events))


def prices_of(
    region: RegionConfig,
    *,
    session: Session,
    clock: Clock,
    events: Callable[..., None] = lambda *_, **__: None,
    env: Mapping[str, str] = os.environ,
) -> list[PriceProvider]:
    """The sources of prices, as ``sources_of``."""
    made = partial(_made, registry.create_prices, session=session, clock=clock, env=env)
    return list(_usable(region, "price source", region.prices, made, events))


def _usable(
    region: RegionConfig,
    what: str,
    given: Iterable[SourceConfig],
    make: Callable[[SourceConfig], M],
    events: Callable[..., None],
) -> Iterator[M]:
    for source in given:
        try:
            yield make(source)
        except BadRequest as error:
            raise ConfigError(f"region {region.id}, {what} {source.provider} ({source.zone}): {error}") from error
        except ProviderError as error:
            events("source-skipped", "warning", f"{source.provider} ({source.zone}): {error}", region=region.id)


def _made(
    create: Callable[..., M], source: SourceConfig, *, session: Session, clock: Clock, env: Mapping[str, str]
) -> M:
    secret = source.token(env)
    return create(
        source.provider,
        zone=source.zone,
        options=source.options,
        token=secret.get_secret_value() if secret else None,
        base_url=source.base_url,
        session=session,
        now=clock.now,
    )


def _typical(region: RegionConfig, session: Session, clock: Clock) -> Provider | None:
    if region.typical is None:
        return None
    typical = region.typical
    options = {
        "signal": region.signal,
        "g_per_kwh": typical.table,
        **typical.model_dump(include={"source", "year", "licence", "scope"}),
    }
    return registry.create(
        "static", zone=region.id, options=options, token=None, base_url=None, session=session, now=clock.now
    )
