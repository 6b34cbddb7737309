"""ENTSO-E's platform around a given time: documents in the forms that it publishes, figures invented."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from grid_server import Answer, Request

GL = "GL_MarketDocument"
PUBLICATION = "Publication_MarketDocument"
DE_LU = "10Y1001A1001A82H"
QUARTER, HALF, HOUR = timedelta(minutes=15), timedelta(minutes=30), timedelta(hours=1)
RESOLUTION = {QUARTER: "PT15M", HALF: "PT30M", HOUR: "PT60M"}
NAMESPACES = {
    GL: "urn:iec62325.351:tc57wg16:451-6:generationloaddocument:3:0",
    PUBLICATION: "urn:iec62325.351:tc57wg16:451-3:publicationdocument:7:3",
}


def answer(text: str, status: int = 200, content_type: str = "text/xml", **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(text.encode(), status, content_type=content_type, headers=given)


def document(*series: str, kind: str = GL, namespace: str | None = None) -> str:
    name = NAMESPACES[kind] if namespace is None else namespace
    head = "<mRID>a1b2</mRID><revisionNumber>1</revisionNumber><createdDateTime>2026-03-04T09:20:00Z</createdDateTime>"
    opening = f'<{kind} xmlns="{name}">' if name else f"<{kind}>"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{opening}\n{head}\n{"".join(series)}</{kind}>'


def acknowledgement(text: str, code: str = "999") -> str:
    kind, name = "Acknowledgement_MarketDocument", "urn:iec62325.351:tc57wg16:451-1:acknowledgementdocument:7:0"
    reason = f"<Reason><code>{code}</code><text>{text}</text></Reason>"
    return f'<?xml version="1.0"?><{kind} xmlns="{name}">{reason}</{kind}>'


def period(start: datetime, end: datetime, step: timedelta, points: dict[int, object], value: str = "quantity") -> str:
    """``points`` by position."""
    rows = "".join(
        f"<Point><position>{position}</position><{value}>{figure}</{value}></Point>\n"
        for position, figure in points.items()
    )
    times = f"<timeInterval><start>{stamp(start)}</start><end>{stamp(end)}</end></timeInterval>"
    return f"<Period>{times}<resolution>{RESOLUTION[step]}</resolution>\n{rows}</Period>"


def generation(
    psr: str, *periods: str, zone: str = DE_LU, curve: str = "A01", consumed: bool = False, unit: str = "MAW"
) -> str:
    domain = "outBiddingZone_Domain.mRID" if consumed else "inBiddingZone_Domain.mRID"
    return (
        "<TimeSeries><mRID>1</mRID><businessType>A01</businessType><objectAggregation>A08</objectAggregation>"
        f'<{domain} codingScheme="A01">{zone}</{domain}>'
        f"<quantity_Measure_Unit.name>{unit}</quantity_Measure_Unit.name><curveType>{curve}</curveType>"
        f"<MktPSRType><psrType>{psr}</psrType></MktPSRType>{''.join(periods)}</TimeSeries>\n"
    )


def prices(
    *periods: str,
    zone: str = DE_LU,
    curve: str = "A03",
    currency: str = "EUR",
    unit: str = "MWH",
    position: str | None = "1",
) -> str:
    tag = "classificationSequence_AttributeInstanceComponent.position"
    sequence = f"<{tag}>{position}</{tag}>" if position else ""
    return (
        "<TimeSeries><mRID>1</mRID><auction.type>A01</auction.type><businessType>A62</businessType>"
        f'<in_Domain.mRID codingScheme="A01">{zone}</in_Domain.mRID>'
        f'<out_Domain.mRID codingScheme="A01">{zone}</out_Domain.mRID>'
        "<contract_MarketAgreement.type>A01</contract_MarketAgreement.type>"
        f"<currency_Unit.name>{currency}</currency_Unit.name>"
        f"<price_Measure_Unit.name>{unit}</price_Measure_Unit.name>{sequence}"
        f"<curveType>{curve}</curveType>{''.join(periods)}</TimeSeries>\n"
    )


def asked(request: Request) -> tuple[datetime, datetime]:
    start, end = (
        datetime.strptime(request.query[key], "%Y%m%d%H%M").replace(tzinfo=UTC) for key in ("periodStart", "periodEnd")
    )
    return start, end


def platform(now: Callable[[], datetime], *, late: timedelta = HOUR) -> Callable[[Request], Answer]:
    """A75 in quarter hours up to ``late`` before now, A44 for whole market days up to the end of tomorrow."""

    def answerer(request: Request) -> Answer:
        start, end = asked(request)
        if request.query["documentType"] == "A44":
            return _prices(request, start, end, now())
        end = min(end, now().replace(minute=0) - late)
        if end <= start:
            return answer(acknowledgement("No matching data found for Data item Actual Generation per Production Type"))
        count = (end - start) // QUARTER
        mix = {"B02": 9000, "B04": 5000, "B11": 1500, "B12": 300, "B16": 4000, "B18": 3000, "B19": 12000, "B20": 200}
        series = [
            generation(
                psr,
                period(start, end, QUARTER, {n + 1: mw + 10 * (n % 4) for n in range(count)}),
                zone=request.query["in_Domain"],
            )
            for psr, mw in mix.items()
        ]
        pumping = period(start, end, QUARTER, {1: 900}, "quantity")
        return answer(document(*series, generation("B10", pumping, curve="A03", consumed=True)))

    return answerer


def _prices(request: Request, start: datetime, end: datetime, now: datetime) -> Answer:
    """Days of Brussels in winter: from 23:00 UTC on."""
    last = now.replace(hour=23, minute=0) + timedelta(days=1)
    day = start.replace(hour=23, minute=0) - timedelta(days=start.hour < 23)
    series = []
    while day < min(end, last):
        points = {1: 80, 33: 61.5, 49: -4.2, 69: 120.25}
        series.append(
            prices(period(day, day + 24 * HOUR, QUARTER, points, "price.amount"), zone=request.query["in_Domain"])
        )
        day += 24 * HOUR
    if not series:
        return answer(acknowledgement("No matching data found for Data item Energy Prices"))
    return answer(document(*series, kind=PUBLICATION))


def stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%MZ}"
