"""What every provider must do, as tests to inherit: for the ones in this package and for outsiders'.

Give a fixture named ``provider`` that makes one at the time ``NOW``, of a source that is in order::

    class TestMyGrid(ProviderSuite):
        @pytest.fixture
        def provider(self):
            return MyGrid(zone="XX", options={}, token=None, base_url=None, session=..., now=lambda: self.NOW)

and the same with ``PriceProviderSuite`` for a source of prices.
"""
# ruff: noqa: S101 - asserts are what a test suite is made of

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import ClassVar

from providers.base import Kind, PriceProvider, PriceSeries, Provider, ProviderError, Series
from providers.price_reading import MOST_PER_KWH
from providers.reading import MOST_G_PER_KWH

_OBSERVED = {Kind.MEASURED, Kind.ESTIMATED, Kind.TYPICAL}
_EXPECTED = {Kind.FORECAST, Kind.TYPICAL}


class ProviderSuite:
    """``SECRETS`` are texts that ``repr`` must never show. The source has data for the hours around ``NOW``."""

    NOW: ClassVar[datetime] = datetime(2026, 3, 4, 9, 20, tzinfo=UTC)
    SECRETS: ClassVar[tuple[str, ...]] = ()

    def test_it_says_who_it_is(self, provider: Provider) -> None:
        """Name and zone are there for the log."""
        assert provider.name
        assert provider.zone

    def test_its_capabilities_make_sense(self, provider: Provider) -> None:
        """Steps and polls take time, and it looks ahead exactly if it forecasts."""
        can = provider.capabilities
        assert can.step_s > 0
        assert can.poll_s > 0
        assert can.observed or can.forecast
        assert (can.forecast_horizon_s > 0) == can.forecast

    def test_what_it_observed_is_labelled(self, provider: Provider) -> None:
        """Each observed point carries zone, source and a kind that was seen, and had begun by now."""
        points = self._observed(provider)
        assert points.points or not provider.capabilities.observed
        self._check_labels(provider, points)
        assert {point.kind for point in points} <= _OBSERVED
        assert all(point.start <= self.NOW for point in points)

    def test_what_it_expects_is_labelled(self, provider: Provider) -> None:
        """Each forecast point says when it was issued, which is not after now; a typical one need not."""
        points = self._expected(provider)
        assert points.points or not provider.capabilities.forecast
        self._check_labels(provider, points)
        assert {point.kind for point in points} <= _EXPECTED
        assert all(point.issued_at or point.kind is Kind.TYPICAL for point in points)
        assert all(point.issued_at is None or point.issued_at <= self.NOW for point in points)

    def test_it_answers_for_the_interval_asked(self, provider: Provider) -> None:
        """Every point overlaps the interval, in ascending order, none overlapping another."""
        hours = timedelta(hours=3)
        for points, start in (
            (self._observed(provider, hours), self.NOW - hours),
            (self._expected(provider, hours), self.NOW),
        ):
            assert all(point.end > start and point.start < start + hours for point in points)
            assert all(before.end <= after.start for before, after in pairwise(points))

    def test_it_keeps_to_plausible_values(self, provider: Provider) -> None:
        """No sentinel and no other unit passes as grams per kWh."""
        points = [*self._observed(provider), *self._expected(provider)]
        assert all(0 <= point.g_per_kwh <= MOST_G_PER_KWH for point in points)

    def test_asking_twice_changes_nothing(self, provider: Provider) -> None:
        """The same question has the same answer while the source stays as it is."""
        first, second = self._observed(provider), self._observed(provider)
        assert _undated(first) == _undated(second)

    def test_an_interval_that_makes_no_sense_is_refused(self, provider: Provider) -> None:
        """Naive times, local times, and an end before the start raise ProviderError."""
        naive = self.NOW.replace(tzinfo=None)
        for start, end in ((naive, naive), (self.NOW, naive), (self.NOW, self.NOW - timedelta(hours=1))):
            for ask in (provider.observe, provider.forecast):
                try:
                    ask(start, end)
                except ProviderError:
                    continue
                raise AssertionError(f"{start!r} to {end!r} was accepted")

    def test_far_away_times_are_harmless(self, provider: Provider) -> None:
        """Long ago and far ahead give points, nothing, or ProviderError."""
        for year in (1971, 2200):
            start = self.NOW.replace(year=year)
            for ask in (provider.observe, provider.forecast):
                try:
                    self._check_labels(provider, ask(start, start + timedelta(hours=2)))
                except ProviderError:
                    continue

    def test_it_hides_its_secrets(self, provider: Provider) -> None:
        """Neither repr nor the reprs of its parts show a credential."""
        assert not _shown(provider, self.SECRETS)

    def test_it_can_be_closed_twice(self, provider: Provider) -> None:
        """Closing is safe to repeat."""
        provider.close()
        provider.close()

    def _observed(self, provider: Provider, span: timedelta = timedelta(hours=12)) -> Series:
        return provider.observe(self.NOW - span, self.NOW) if provider.capabilities.observed else Series()

    def _expected(self, provider: Provider, span: timedelta = timedelta(hours=12)) -> Series:
        return provider.forecast(self.NOW, self.NOW + span) if provider.capabilities.forecast else Series()

    def _check_labels(self, provider: Provider, points: Series) -> None:
        assert {(point.zone, point.source) for point in points} <= {(provider.zone, provider.name)}
        assert len({(point.signal, point.scope, point.boundary) for point in points}) <= 1


def _undated(series: Series) -> list[object]:
    return [replace(point, fetched_at=point.start, issued_at=None) for point in series]


class PriceProviderSuite:
    """As ``ProviderSuite``: the source has prices for the hours before ``NOW`` and for some after it."""

    NOW: ClassVar[datetime] = datetime(2026, 3, 4, 9, 20, tzinfo=UTC)
    SECRETS: ClassVar[tuple[str, ...]] = ()

    def test_it_says_who_it_is(self, provider: PriceProvider) -> None:
        """Name and zone are there for the log."""
        assert provider.name
        assert provider.zone

    def test_its_capabilities_make_sense(self, provider: PriceProvider) -> None:
        """Steps and polls take time."""
        assert provider.capabilities.step_s > 0
        assert provider.capabilities.poll_s > 0

    def test_its_prices_are_labelled(self, provider: PriceProvider) -> None:
        """Each has zone and source, and all have one market and one currency of three capital letters."""
        prices = self._prices(provider)
        assert prices.points
        self._check_labels(provider, prices)

    def test_what_is_published_of_the_future_is_a_price(self, provider: PriceProvider) -> None:
        """There is one for now, and one for later."""
        prices = self._prices(provider)
        assert prices.at(self.NOW)
        assert prices.points[-1].end > self.NOW + timedelta(hours=1)

    def test_it_answers_for_the_interval_asked(self, provider: PriceProvider) -> None:
        """Every price overlaps the interval, in ascending order, none overlapping another."""
        start, end = self.NOW - timedelta(hours=3), self.NOW + timedelta(hours=1)
        prices = provider.prices(start, end)
        assert all(price.end > start and price.start < end for price in prices)
        assert all(before.end <= after.start for before, after in pairwise(prices))

    def test_an_instant_has_the_price_around_it(self, provider: PriceProvider) -> None:
        """Asking from now to now finds the interval that now is in."""
        assert provider.prices(self.NOW, self.NOW).at(self.NOW)

    def test_it_keeps_to_plausible_prices(self, provider: PriceProvider) -> None:
        """No sentinel passes as money per kWh."""
        assert all(abs(price.price_per_kwh) <= MOST_PER_KWH for price in self._prices(provider))

    def test_asking_twice_changes_nothing(self, provider: PriceProvider) -> None:
        """The same question has the same answer while the source stays as it is."""
        first, second = self._prices(provider), self._prices(provider)
        assert [replace(price, fetched_at=self.NOW) for price in first] == [
            replace(price, fetched_at=self.NOW) for price in second
        ]

    def test_an_interval_that_makes_no_sense_is_refused(self, provider: PriceProvider) -> None:
        """Naive times, and an end before the start, raise ProviderError."""
        naive = self.NOW.replace(tzinfo=None)
        for start, end in ((naive, naive), (self.NOW, naive), (self.NOW, self.NOW - timedelta(hours=1))):
            try:
                provider.prices(start, end)
            except ProviderError:
                continue
            raise AssertionError(f"{start!r} to {end!r} was accepted")

    def test_far_away_times_are_harmless(self, provider: PriceProvider) -> None:
        """Long ago and far ahead give prices, nothing, or ProviderError."""
        for year in (1971, 2200):
            start = self.NOW.replace(year=year)
            try:
                self._check_labels(provider, provider.prices(start, start + timedelta(hours=2)))
            except ProviderError:
                continue

    def test_it_hides_its_secrets(self, provider: PriceProvider) -> None:
        """Neither repr nor the reprs of its parts show a credential."""
        assert not _shown(provider, self.SECRETS)

    def test_it_can_be_closed_twice(self, provider: PriceProvider) -> None:
        """Closing is safe to repeat."""
        provider.close()
        provider.close()

    def _prices(self, provider: PriceProvider) -> PriceSeries:
        return provider.prices(self.NOW - timedelta(hours=12), self.NOW + timedelta(hours=12))

    def _check_labels(self, provider: PriceProvider, prices: PriceSeries) -> None:
        assert {(price.zone, price.source) for price in prices} <= {(provider.zone, provider.name)}
        assert len({(price.market, price.currency) for price in prices}) <= 1
        assert all(len(price.currency) == len("EUR") and price.currency.isupper() for price in prices)


def _shown(provider: object, secrets: tuple[str, ...]) -> list[str]:
    """The secrets that a ``repr`` of the provider or of its parts gives away."""
    texts = [repr(provider), *(repr(getattr(provider, key, "")) for key in vars(provider))]
    return [secret for secret in secrets for text in texts if secret in text]
