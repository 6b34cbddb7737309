"""OpenElectricity as it answers: hours by key, and the public file of seven days. Figures are invented."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from grid_server import Answer, Request, as_json

HOUR = timedelta(hours=1)
STEP = timedelta(minutes=5)
AEST, AWST = timezone(timedelta(hours=10)), timezone(timedelta(hours=8))
OFFSETS = {"NEM": AEST, "WEM": AWST}
ENERGY = {  # MWh of an hour, or MW
    "coal_black": 4000.0,
    "gas_ccgt": 500.0,
    "gas_ocgt": 100.0,
    "hydro": 400.0,
    "wind": 2000.0,
    "solar_utility": 1500.0,
    "solar_rooftop": 1500.0,
    "battery": -50.0,
    "battery_charging": 80.0,
    "battery_discharging": 30.0,
    "pumps": 200.0,
}
FACTORS = {"coal_black": 0.9, "gas_ccgt": 0.4, "gas_ocgt": 0.6}  # t/MWh
GENERATED = 10_000.0
G_PER_KWH = 386.0  # (3600 + 200 + 60) t over GENERATED


def api(now: Callable[[], datetime]) -> Callable[[Request], Answer]:
    """Hours up to the running one, in network time; ``network_region`` is not heeded."""

    def answer(request: Request) -> Answer:
        return as_json(document(request, now()))

    return answer


def document(request: Request, now: datetime) -> dict:
    network = request.path.rsplit("/", 1)[1]
    offset = OFFSETS[network]
    first, last = (datetime.fromisoformat(request.query[key]) for key in ("date_start", "date_end"))
    assert first.tzinfo is last.tzinfo is None
    assert request.values["metrics"] == ["emissions", "energy"]
    assert (last - first).days <= 32
    count = int((min(last.replace(tzinfo=offset), now) - first.replace(tzinfo=offset)) / HOUR) + 1
    times = [first.replace(tzinfo=offset) + n * HOUR for n in range(count)]
    return hours(network, request.query["network_region"], times)


def hours(network: str, region: str, times: list[datetime]) -> dict:
    energy = {code: [[at.isoformat(), value] for at in times] for code, value in ENERGY.items()}
    emissions = {
        code: [[at.isoformat(), FACTORS.get(code, 0.0) * max(value, 0.0)] for at in times]
        for code, value in ENERGY.items()
    }
    blocks = [block(network, region, "emissions", "t", emissions), block(network, region, "energy", "MWh", energy)]
    return {"version": "4.2", "created_at": "2026-03-04T19:20:00+10:00", "success": True, "data": blocks}


def block(network: str, region: str, metric: str, unit: str, data: dict[str, list]) -> dict:
    results = [
        {"name": f"{metric}_{place}|{code}", "columns": {"region": place, "fueltech": code}, "data": samples}
        for place in (region, "ELSEWHERE")
        for code, samples in data.items()
    ]
    return {"network_code": network, "metric": metric, "unit": unit, "interval": "1h", "results": results}


def public(now: Callable[[], datetime], days: float = 7.0) -> Callable[[Request], Answer]:
    def answer(request: Request) -> Answer:
        parts = request.path.split("/")
        region = parts[parts.index("power") - 1]
        return as_json(file(region, now(), days))

    return answer


def file(region: str, now: datetime, days: float = 7.0) -> dict:
    """Rooftop solar has half hours and lags by one; the others have five minutes."""
    last = (now - (now - datetime.min.replace(tzinfo=now.tzinfo)) % (6 * STEP)).astimezone(AEST)
    first = last - timedelta(days=days)
    network = "wem" if region == "WEM" else "nem"
    codes = {code: value for code, value in ENERGY.items() if code != "battery"}
    data = [series(code, "5m", first, [value] * (round(days * 288) + 1)) for code, value in codes.items()]
    data[list(codes).index("solar_rooftop")] = series("solar_rooftop", "30m", first, [1500.0] * round(days * 48))
    others = [
        series("curtailment_wind", "5m", first, [120.0] * 12),
        series("imports", "5m", first, [300.0] * 12),
        {**series("coal_black", "5m", first, [300.0] * 12), "type": "emissions", "units": "t"},
        {**series("x", "5m", first, [11.0] * 12), "fuel_tech": None},
    ]
    stamp = now.astimezone(AEST).isoformat()
    head = {"type": "power", "network": network, "code": region, "region": region, "created_at": stamp}
    return {**head, "data": [*data, *others]}


def series(code: str, interval: str, first: datetime, values: list) -> dict:
    history = {"start": first.isoformat(), "last": first.isoformat(), "interval": interval, "data": values}
    return {"id": f"au.{code}", "type": "power", "fuel_tech": code, "units": "MW", "history": history}
