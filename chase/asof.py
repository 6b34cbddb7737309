"""What the database knows of a region's grid and prices at a moment: for plans of what was not done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from chase.build import prices_feed, session_of, signal_of
from chase.clock import ManualClock
from chase.config import Config, PolicyConfig, RegionConfig
from chase.horizon import Horizon
from chase.outlook import Outlook
from chase.policy import Grid, threshold_g
from chase.prices import AHEAD, MEMORY, PriceOutlook
from chase.prices_ahead import CARBON, MONEY, horizon_of
from chase.recall import recall
from chase.store import Reader
from providers.base import Kind

_AHEAD = timedelta(days=7)
_DAY = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class AsOf:
    """``prices`` is None where the region has no source of them or nothing of theirs is stored."""

    region: RegionConfig
    outlook: Outlook
    prices: PriceOutlook | None

    @property
    def source(self) -> str:
        """What is gone by now, as a word or two: ``typical`` where nothing that was said is young enough."""
        now = self.outlook.now
        if now is None:
            return "nothing known"
        return "typical" if now.kind is Kind.TYPICAL else f"{now.kind.value} by {now.source}"

    def horizon(self, minimise: str = CARBON, carbon_price_per_kg: float = 0.0) -> Horizon | None:
        """All that is known ahead; None where that is nothing, or no price to minimise money by."""
        if minimise != CARBON and self.prices is None:
            return None
        return horizon_of(
            self.outlook,
            self.prices,
            minimise=minimise,
            carbon_price_per_kg=carbon_price_per_kg,
            pue=self.region.pue,
        )

    def money(self) -> Horizon | None:
        return self.horizon(MONEY)

    def grid(self, chosen: PolicyConfig) -> Grid:
        """As a decision is given it, with the thresholds and the reference of this region."""
        now, at = self.outlook.now, self.outlook.at
        recent = [point.g_per_kwh for point in self.outlook.recent]
        day = [point.g_per_kwh for point in self.outlook.recent if at - point.start <= _DAY]
        highest = max([*day, now.g_per_kwh]) if now is not None else None
        return Grid(
            g_per_kwh=now.g_per_kwh if now else None,
            kind=now.kind.value if now else "none",
            source=now.source if now else "",
            age_s=self.outlook.age_s,
            freshness=self.outlook.freshness,
            efficiency_above_g=threshold_g(chosen.efficiency_above, recent),
            speed_below_g=threshold_g(chosen.speed_below, recent),
            reference_g=chosen.max_intensity_g_per_kwh or highest,
        )


def as_of(region: RegionConfig, config: Config, log: Reader, at: datetime) -> AsOf:
    """Nothing goes over the network. Raises ``ConfigError`` and ``StoreError``."""
    clock, session = ManualClock(at), session_of(config)
    try:
        grid = signal_of(region, config, session=session, clock=clock, store=None, events=_silent)
        recall(grid, log, at, timedelta(hours=config.signal.history_h))
        feed = prices_feed(region, config, session=session, clock=clock, store=None, events=_silent)
        for state in feed.states:
            feed.remember(log.prices(state.provider.zone, state.provider.name, at - MEMORY, at + AHEAD))
        prices = feed.outlook()
        return AsOf(region, grid.outlook(_AHEAD), prices if prices.now is not None else None)
    finally:
        session.close()


def _silent(*_: object, **__: object) -> None:
    """Sources that cannot be made are the service's affair."""
