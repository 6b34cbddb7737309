"""The node's power cap: what each job wishes for, moved down until all jobs together are within ``max_node_power_w``.

What counts is what is expected to be drawn. A job at a known operating point counts with the mean power of that point.
Any other, one that is measured or has no frontier or shares a GPU, counts with the power limits of its GPUs: with the
original ones while it is measured, whatever limit is measured just now. The host's power comes on top for each, as the
site has configured it: what a job says of its own host is its owner's word, and must not take power from others.

A job gives way in three stages, the next one only where the one before does not suffice:

    0   to what it measured, within its floor
    1   to what it measured, below its floor
    2   where its power is not known: to lower power limits

Nothing is done to a job that must be left as it was found, and to GPUs that cannot be set. What giving way costs:

    loss        mu (r - r') - c (P - P')      what the plan of ``budget`` loses in a second at (r', P') instead of its
                                              own (r, P): the work is worth mu, the joules saved c      [g/s] or money
    lost time   GPUs * (r - r') / r           full GPU-seconds of work not done in a second             [GPU]

Losses are added up where all that can give way have one, in one unit. Otherwise it is lost time, and that of a planned
job is its loss in full GPU-seconds of its work, loss / (mu r) for each of its GPUs: less than the time where it has
slack. Where a tick at (r', P') would break the budget no price is high enough: all of the time counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chase.horizon import J_PER_KWH
from chase.policy import PROFILING, Choice, PolicyInput, allowance
from chase.policy.choosing import plannable
from zeus_core.frontier import Frontier, OperatingPoint, Setting

STAGES = 3
_LIMITS = 9  # power limits that are tried where nothing is known of them
_KEPT = 1.05  # a way that fits is kept while it costs no more than this times the best
_LEAST = 1e-3  # of the worth of the work: where a plan is indifferent, what it wished for is nearer
UNTOUCHED = frozenset({"barred", "hold-off", "off"})
_ROUNDING_W = 1e-6


@dataclass(frozen=True, slots=True)
class Member:
    """A job as the cap sees it. ``limits_w`` are the limits that its GPUs will have if nobody intervenes.

    ``lowest_w`` is the lowest limit they can be given. ``bound`` says that they cannot be given any. ``capped`` is what
    the cap had it at before, None if at what it wished for. ``host_w`` counts beside them.
    """

    id: str
    name: str
    given: PolicyInput
    choice: Choice
    limits_w: Mapping[str, float]
    lowest_w: float
    bound: bool = False
    capped: Setting | None = None
    host_w: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part may be: at ``setting``, or at what it wishes for where that is None."""

    setting: Setting | None
    power_w: float
    time: float = 0.0
    loss: float = 0.0
    stage: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A job, or jobs that share a GPU, and the ``places`` it may be at, of least power first; the last is its wish.

    ``unit`` is that of ``loss``, None where there is none.
    """

    members: tuple[Member, ...]
    places: tuple[Place, ...]
    unit: str | None = None

    @property
    def wish(self) -> Place:
        return self.places[-1]


@dataclass(frozen=True, slots=True)
class Fitted:
    """``places`` as chosen, one for each part, and the power of all at their wishes and there."""

    places: tuple[Place, ...]
    wished_w: float
    power_w: float
    met: bool


def parts(groups: Iterable[Sequence[Member]], tick_s: float) -> tuple[Part, ...]:
    """One for each group of jobs that share GPUs; ``tick_s`` is how long what is chosen holds at least."""
    return tuple(_part(tuple(group), tick_s) for group in groups)


def fitted(parts: Sequence[Part], cap_w: float) -> Fitted:
    """Within the cap at the least cost, by the first stage that suffices; as low as can be where none does."""
    wished_w = math.fsum(part.wish.power_w for part in parts)
    if wished_w <= cap_w + _ROUNDING_W:
        return Fitted(tuple(part.wish for part in parts), wished_w, wished_w, met=True)
    for stage in range(STAGES):
        places = [[place for place in part.places if place.stage <= stage] for part in parts]
        chosen, met = _cheapest(parts, places, cap_w)
        if met:
            break
    return Fitted(chosen, wished_w, math.fsum(place.power_w for place in chosen), met)


def _cheapest(parts: Sequence[Part], places: Sequence[Sequence[Place]], cap_w: float) -> tuple[tuple[Place, ...], bool]:
    from zeus_core.power_cap import Option, fit

    movable = {part.unit for part, some in zip(parts, places, strict=True) if len(some) > 1}
    by_loss = len(movable) == 1 and None not in movable

    def cost(place: Place) -> float:
        return place.loss if by_loss else place.time

    found = fit([[Option(place.power_w, cost(place)) for place in some] for some in places], cap_w)
    best = tuple(some[k] for some, k in zip(places, found.chosen, strict=True))
    before = tuple(_before(part, some) for part, some in zip(parts, places, strict=True))
    keeps = math.fsum(place.power_w for place in before) <= cap_w + _ROUNDING_W
    if found.met and keeps and math.fsum(map(cost, before)) <= found.cost * _KEPT:
        return before, True
    return best, found.met


def _before(part: Part, places: Sequence[Place]) -> Place:
    """Where it was, so that alike jobs do not take turns at every tick; its wish where that is no longer to be had."""
    capped = part.members[0].capped
    return next((place for place in places if capped is not None and place.setting == capped), part.wish)


def _part(members: tuple[Member, ...], tick_s: float) -> Part:
    """What is known of one job by itself, else its power limits."""
    only = members[0]
    point = _point(only) if len(members) == 1 else None
    if any(member.bound or member.choice.code in UNTOUCHED for member in members):
        return Part(members, (_as_limited(members),))
    if point is not None and only.given.frontier is not None:
        return _known(only, only.given.frontier, point, tick_s)
    if only.choice.setting is not None and only.choice.setting.paused and only.given.paused_w is not None:
        return Part(members, (Place(None, only.given.paused_w),))
    return Part(members, (*_lower_limits(members), _as_limited(members)))


def _point(member: Member) -> OperatingPoint | None:
    """The operating point wished for, None where it is not known or is just being measured."""
    frontier, setting = member.given.frontier, member.choice.setting
    if frontier is None or setting is None or member.choice.mode == PROFILING:
        return None
    return frontier.at(setting)


def _known(member: Member, frontier: Frontier, wish: OperatingPoint, tick_s: float) -> Part:
    host_w, floor_w = member.host_w, member.given.rules.min_power_limit_w or 0.0
    mu, price, unit = _worth(member, wish)
    gpus = len(member.limits_w)
    points = frugal_first(frontier.points, wish)
    broken = {point for point in points if breaks_budget(member.given, frontier, point, tick_s)}

    def place(point: OperatingPoint) -> Place:
        slower, saved_w = wish.rate - point.rate, wish.power_w - point.power_w
        loss = max(mu * slower - price * saved_w, _LEAST * mu * slower)
        time = gpus * (loss / mu if unit and point not in broken else slower) / wish.rate
        below = point.setting.power_limit_w is not None and point.setting.power_limit_w < floor_w
        return Place(point.setting, point.power_w + host_w, time, loss, stage=1 if below else 0)

    places = (*map(place, points), Place(None, wish.power_w + host_w))
    return Part((member,), places, None if broken else unit)


def breaks_budget(given: PolicyInput, frontier: Frontier, point: OperatingPoint, tick_s: float) -> bool:
    """Whether after another tick there the rest could no longer be done in time, even at the fastest."""
    if given.rules.name != "budget":
        return False
    left = allowance(given.rules, given.progress, frontier)
    fastest = plannable(given, frontier)[0].rate
    return left.work - point.rate * tick_s > fastest * (left.seconds - tick_s) * (1 + 1e-9)


def frugal_first(points: Iterable[OperatingPoint], wish: OperatingPoint) -> list[OperatingPoint]:
    """Those of less power than ``wish`` that none beats in both power and rate, by rising power.

    More than the hull: beside it lie points between its corners, and below it those of less power than the point of
    least energy has.
    """
    found: list[OperatingPoint] = []
    for point in sorted(points, key=lambda point: (point.power_w, -point.rate)):
        if point.power_w < wish.power_w and point.rate < wish.rate and (not found or point.rate > found[-1].rate):
            found.append(point)
    return found


def _worth(member: Member, wish: OperatingPoint) -> tuple[float, float, str | None]:
    """What the module's notation calls mu and c, for a second, and their unit; no unit where the choice is of no plan.

    The cost that a plan gives a candidate is c P - mu r for an hour.
    """
    given = member.given
    cost = next((found.cost for found in member.choice.candidates if found.setting == wish.setting), None)
    if given.rules.name != "budget" or given.horizon is None or cost is None:
        return 0.0, 0.0, None
    price = float(given.horizon.price[0]) * given.horizon.pue / J_PER_KWH
    mu = (price * (wish.power_w + given.host_w) - cost / 3600.0) / wish.rate
    return (mu, price, given.horizon.unit) if mu * wish.rate > _LEAST * abs(price) * wish.power_w else (0.0, 0.0, None)


def _as_limited(members: Sequence[Member]) -> Place:
    return Place(None, math.fsum(_limits(members).values()) + _host_w(members))


def _lower_limits(members: Sequence[Member]) -> list[Place]:
    """The same limit for all GPUs, evenly down to the lowest. It ends a measurement, which is worth more than time."""
    own = _limits(members)
    top, low = max(own.values(), default=0.0), max(member.lowest_w for member in members)
    measured = len(own) if any(member.choice.mode == PROFILING for member in members) else 0
    limits = sorted({float(math.ceil(low + (top - low) * step / _LIMITS)) for step in range(_LIMITS)})
    return [
        Place(
            Setting(power_limit_w=limit),
            math.fsum(min(limit, limit_w) for limit_w in own.values()) + _host_w(members),
            measured + math.fsum(1.0 - min(limit, limit_w) / limit_w for limit_w in own.values()),
            stage=2,
        )
        for limit in limits
        if limit < top
    ]


def _limits(members: Iterable[Member]) -> dict[str, float]:
    return {uuid: limit_w for member in members for uuid, limit_w in member.limits_w.items()}


def _host_w(members: Iterable[Member]) -> float:
    return math.fsum(member.host_w for member in members)
