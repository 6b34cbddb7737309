"""Carrying the node's power cap into the decisions: which jobs it moves, in which words, and which events it makes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from chase.events import EventLog
from chase.frontiers import original_w
from chase.jobs import Job
from chase.node_cap import Fitted, Member, Part, Place, breaks_budget, fitted, parts
from chase.policy import PROFILING, Choice, PolicyInput, under_cap
from chase.wishes import joint_wishes
from zeus_core.actuation.base import GpuState

Weighed = tuple[PolicyInput, Choice]


class CapKeeper:
    """Not thread-safe: the controller's lock covers it."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._within: tuple[float, frozenset[str]] | None = None  # the cap that the last tick kept, and for which jobs

    def keep(self, cap_w: float, groups: Iterable[Sequence[Member]], interval_s: float) -> dict[str, Weighed]:
        """What changes for the jobs that must give way; ``groups`` are those that share GPUs, ``interval_s`` a tick."""
        found = parts(groups, interval_s)
        fit = fitted(found, cap_w)
        self._tell(fit, cap_w)
        self._within = (cap_w, frozenset(member.id for part in found for member in part.members)) if fit.met else None
        return {
            member.id: self._moved(member, place, fit, cap_w, interval_s)
            for part, place in zip(found, fit.places, strict=True)
            for member in part.members
            if _gives_way(part, place, member)
        }

    def was_kept(self, cap_w: float, jobs: Iterable[Job]) -> bool:
        """Whether these jobs were within the cap by what was last worked out."""
        return self._within is not None and self._within[0] <= cap_w and self._within[1].issuperset(j.id for j in jobs)

    def over(self) -> None:
        """There is no cap, or no need of it any more."""
        self._within = None
        if self._events.forget("node-cap"):
            self._events("node-cap-over", "info", "all jobs have the power that they wish for again")
        self._events.forget("node-cap-exceeded")

    def _tell(self, fit: Fitted, cap_w: float) -> None:
        if fit.power_w == fit.wished_w and fit.met:
            self.over()
            return
        text = f"the jobs of this node are kept within max_node_power_w {cap_w:g} W"
        self._events("node-cap", "info", text, once=True)
        if fit.met:
            self._events.forget("node-cap-exceeded")
            return
        text = f"max_node_power_w {cap_w:g} W cannot be kept: all that may be moved is at its lowest"
        self._events("node-cap-exceeded", "warning", text, once=True, expected_w=round(fit.power_w, 1))

    def _moved(self, member: Member, place: Place, fit: Fitted, cap_w: float, interval_s: float) -> Weighed:
        beaten = _beaten(member, place, interval_s)
        if beaten:
            text = f"{member.name} is slowed: max_node_power_w {cap_w:g} W goes before {beaten}"
            self._events("cap-beats-budget", "warning", text, job_id=member.id, once=True)
        given = replace(member.given, capped=place.setting, cap_note=_note(place, fit, cap_w, beaten))
        return given, under_cap(given, member.choice)


def members(
    jobs: Iterable[Job],
    weighed: Mapping[str, Weighed],
    states: Mapping[str, GpuState],
    stuck: Collection[str],
    host_w: Mapping[str, float],
) -> list[list[Member]]:
    """Jobs by the GPUs they share. ``stuck`` are the GPUs whose limit cannot be changed; ``host_w`` is by region."""
    known = list(jobs)
    settings = {job.id: weighed[job.id][1].setting for job in known}
    groups = joint_wishes({job.id: job.gpus for job in known}, settings)
    wishes = {uuid: wish for group in groups for uuid, wish in group.items()}

    def member(job: Job) -> Member:
        given, choice = weighed[job.id]
        mine = [states[uuid] for uuid in job.gpus if uuid in states]
        bound = any(uuid in stuck for uuid in job.gpus)
        measured = choice.mode == PROFILING
        return Member(
            job.id,
            job.name,
            given,
            choice,
            {s.uuid: _limit_w(s, None if measured else wishes[s.uuid].power_limit_w, bound=bound) for s in mine},
            lowest_w=max((state.min_w or 0.0 for state in mine), default=0.0),
            bound=bound,
            capped=job.setting if job.setting != job.own else None,
            host_w=host_w[job.region],
        )

    return [[member(job) for job in known if job.gpus[0] in group] for group in groups]


def _limit_w(state: GpuState, wish_w: float | None, *, bound: bool) -> float:
    """The limit that will be in force; the original one where none is wished for."""
    if bound:
        return state.enforced_w or state.power_limit_w or state.max_w or 0.0
    top_w = original_w(state) or state.max_w or 0.0
    return top_w if wish_w is None else min(max(wish_w, state.min_w or 0.0), top_w)


def _gives_way(part: Part, place: Place, member: Member) -> bool:
    """Of jobs that share a GPU those that wish for more than all of them get."""
    if place.setting is None or len(part.members) == 1:
        return place.setting is not None
    wish = member.choice.setting
    return wish is None or wish.power_limit_w is None or wish.power_limit_w > (place.setting.power_limit_w or 0.0)


def _note(place: Place, fit: Fitted, cap_w: float, beaten: str) -> str:
    text = f"the node's jobs would draw {fit.wished_w:.0f} W, more than max_node_power_w {cap_w:g} W: {place.setting}"
    text += f" keeps this one to {place.power_w:.0f} W, and all to {fit.power_w:.0f} W"
    if not fit.met:
        text += ", still above the cap, and the least there is"
    return f"{text}; the cap goes before {beaten}" if beaten else text


def _beaten(member: Member, place: Place, interval_s: float) -> str:
    """The owner's limit that is broken by being kept there for another tick; empty where none is."""
    given, frontier = member.given, member.given.frontier
    point = frontier.at(place.setting) if frontier is not None and place.setting is not None else None
    if frontier is None or point is None:
        return ""
    rules = given.rules
    if place.stage == 1 and rules.min_power_limit_w is not None:
        return f"its min_power_limit_w {rules.min_power_limit_w:g} W"
    if rules.name == "budget":
        return "its budget, which is used up" if breaks_budget(given, frontier, point, interval_s) else ""
    slowed = rules.max_slowdown is not None and frontier.slowdown(point) > rules.max_slowdown + 1e-9
    return f"its max_slowdown {rules.max_slowdown:g}" if slowed else ""
