"""The batch size of a job that is trained again and again: Zeus's search over its recurrences (papers B.3).

Notation:

    b       batch size, one arm of the search; b0 the job's own default
    ETA     energy of one training until its target, from the first epoch to the last             [J]
    TTA     its time                                                                               [s]
    P       MaxPower: the original power limits of all its GPUs together                           [W]
    eta     weight of energy against time, 0 to 1
    C       cost, eta ETA + (1 - eta) P TTA (eq 2)                                                 [J]
    beta    a training that has cost more than beta times the best one is ended

All that is kept of a training are its joules, seconds and epochs, so that C is worked out anew for the eta of each
question: *speed-first* and *efficiency-first* are two values of eta over one history. Where the frontier of an epoch is
known for a batch size, a training's cost is its epochs times the least cost of an epoch over the power limits (eqs 5 to
7): of whichever limits it ran at, and on whichever model of GPU, for epochs do not depend on that. Where it is not,
trainings on other models of GPU are what is believed beforehand (``other_gpus``), and whether they reached the target
tells whether a size does.

Pruning (algorithm 3): twice b0, then smaller ones down to the first that fails, then larger ones up to the first that
fails; those that reached the target remain, and the cheapest is the next b0. Then Thompson sampling (algorithms 1 and
2): from each arm's belief a cost is drawn, and the least of them is tried:

    belief of b     N(m_b, v_b / n_b)  with the mean m_b of its last n_b costs and the variance v_b of one of them

What is otherwise than in the paper, but for ``published`` specs:

- v_b is the scatter of all arms together, relative to their means, with a guess beforehand of 4 % that counts as
  one observation: the scatter of two costs is nearly always too small or too large, and of two equal ones it is 0,
  which made upstream's belief certain for ever.
- It is the cost's logarithm that is drawn from a normal distribution, since the scatter is relative and no cost is
  below 0: a size that was five times as dear once is not tried again for the tail of a bell.
- One round of pruning, since an arm is tried again when its belief says so. It goes on in the direction that costs less
  so far, and a way also ends at a size that costs more than 1.8 times the best, which is that size's limit as well.
- What failed before any had arrived is forgotten with the first that does, where that had failed itself or some size
  was given up by then: it was the job and not the sizes.
- What a training spent in vain counts with the next one of its size that arrives, so that a size that often fails is as
  dear as it is.
- A size whose cost is suddenly twice, or half, of what it was has become another, and what was before is forgotten. So
  has one that does not arrive twice in a row and costs twice as much by then; once in many is no jump.
- Of sizes whose drawn costs lie within two standard deviations, and 2 %, of the least, that of least energy is tried:
  on equal cost less energy wins, as among power limits (``selectors``). Below eta 1/2 the 2 % shrink to nothing, since
  who asks for speed alone wants no slower size.
- The limit of a training is beta times the mean cost of the best arm among what was seen lately, and never less than
  the best arm's own scatter allows; no limit at all after two trainings in a row were ended by it, since then
  the costs have changed (data drift).

And than upstream's code, always: one generator for all arms of a draw, seeded by (seed, number of the trial); a trial
that was killed is lost, and its size is tried again, at most twice once any training has come to its end, and at most
twice in a row before that counts against a size that has arrived before; a size that did not fit into the memory is out
with all larger ones, one that has fitted before after twice in a row; a training that did not reach its target lowers
no limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from zeus_core.frontier import Frontier
from zeus_core.other_gpus import Before, translated
from zeus_core.trials import Stage, Status, Trial, cost_of

_GUESS = 0.04  # relative standard deviation of a training's cost, as long as little is seen
_GUESS_COUNTS = 1.0
_LEAST_SPREAD = 0.01
_WALK = 1.8
_SURE = 4.0
_EQUAL = 2.0
_NEARLY = 0.02
_JUMP = 2.0
_PATIENCE = 2  # times that a size may be lost, or fail, before it is given up


_SPENT = frozenset({Status.CONVERGED, Status.FAILED, Status.STOPPED})
_TOLD = _SPENT | {Status.OUT_OF_MEMORY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What may be tried, and how. ``default`` is b0, ``max_power_w`` P.

    ``window`` is how many costs of an arm count, the last ones; None is all. ``beta`` None ends no training.
    ``prior`` is what is believed of a size's cost beforehand, (mean, standard deviation) in joules at any eta; it is
    not explored first, but drawn like the others.
    ``published`` is the paper's search as it stands. Raises ``ValueError``.
    """

    batch_sizes: tuple[int, ...]
    default: int
    max_power_w: float
    beta: float | None = 2.0
    window: int | None = 20
    seed: int = 1
    prior: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    published: bool = False

    def __post_init__(self) -> None:
        sizes = tuple(sorted(set(self.batch_sizes)))
        if not sizes or sizes[0] < 1:
            raise ValueError(f"batch_sizes must be whole numbers from 1, not {list(self.batch_sizes)!r}")
        object.__setattr__(self, "batch_sizes", sizes)
        if self.default not in sizes:
            raise ValueError(f"default must be one of batch_sizes {list(sizes)}, not {self.default!r}")
        if not (math.isfinite(self.max_power_w) and self.max_power_w > 0):
            raise ValueError(f"max_power_w must be finite and positive, not {self.max_power_w!r}")
        if self.beta is not None and not 1.0 < self.beta < math.inf:
            raise ValueError(f"beta must be more than 1, or None, not {self.beta!r}")
        if self.window is not None and self.window < 1:
            raise ValueError(f"window must be at least 1, or None, not {self.window!r}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, not {self.seed!r}")
        for size, (mean, sd) in self.prior.items():
            if size not in sizes:
                raise ValueError(f"the prior of batch size {size} is of none of batch_sizes {list(sizes)}")
            if not (math.isfinite(mean) and math.isfinite(sd) and mean > 0 and sd > 0):
                raise ValueError(f"the prior of batch size {size} must be finite and positive, not {(mean, sd)!r}")

    @property
    def rounds(self) -> int:
        return 2 if self.published else 1


@dataclass(frozen=True, slots=True)
class Arm:
    """What is believed of a batch size: ``mean`` cost in joules and its standard deviation ``sd``, by ``count`` costs.

    None where there is nothing to believe yet. ``state`` is ``open``, ``out`` or, while pruning, ``waiting``.
    """

    batch_size: int
    state: str
    count: int
    mean: float | None = None
    sd: float | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to try next, and why. Above a cost of ``stop_above`` joules it should end; None is no limit."""

    batch_size: int
    stage: Stage
    stop_above: float | None
    reason: str
    arms: tuple[Arm, ...]


EpochFrontiers = Mapping[int, Frontier]
"""Of each batch size the frontier of one epoch on the hardware at hand, where it is known."""


def propose(
    spec: Spec,
    trials: Iterable[Trial],
    *,
    eta: float,
    number: int | None = None,
    gpu_model: str = "",
    epochs: EpochFrontiers | None = None,
    pinned: int | None = None,
) -> Proposal:
    """What the trial ``number`` should be, the next one by default. The same arguments give the same answer.

    ``pinned`` is a person's word, and goes before all. Raises ``ValueError`` for an eta that is none.
    """
    if not 0.0 <= eta <= 1.0:
        raise ValueError(f"eta must be from 0 to 1, not {eta!r}")
    history = sorted(trials, key=lambda trial: trial.number)
    number = number or (history[-1].number + 1 if history else 1)
    search = _Search(spec, history, eta, gpu_model, epochs or {})
    if pinned is not None:
        if pinned not in spec.batch_sizes:
            raise ValueError(f"pinned must be one of batch_sizes {list(spec.batch_sizes)}, not {pinned!r}")
        return search.proposal(pinned, Stage.PINNED, "pinned by a person")
    return search.pruning() or search.sampling(number)


def epoch_cost(frontier: Frontier, *, eta: float, max_power_w: float) -> tuple[float, float]:
    """Eq 7: the least cost of an epoch over the power limits, and its energy there, both in joules."""
    at = {"eta": eta, "max_power_w": max_power_w}
    return min((cost_of(p.joules_per_unit, p.seconds_per_unit, **at), p.joules_per_unit) for p in frontier.points)


class _Search:
    """The history as one eta sees it."""

    def __init__(
        self, spec: Spec, history: Sequence[Trial], eta: float, gpu_model: str, epochs: EpochFrontiers
    ) -> None:
        self.spec, self.eta, self._gpu_model = spec, eta, gpu_model
        self._epoch_costs = {
            size: epoch_cost(frontier, eta=eta, max_power_w=spec.max_power_w) for size, frontier in epochs.items()
        }
        allowed = [trial for trial in history if trial.batch_size in spec.batch_sizes and not self._cost_nothing(trial)]
        allowed = allowed if spec.published else _without_despair(allowed)
        self.history = [trial for trial in allowed if self._tells(trial)]
        self._by_size = _by_size(self.history, spec.batch_sizes)
        abroad = [] if spec.published else [trial for trial in allowed if not self._tells(trial)]
        self._abroad = _by_size(abroad, spec.batch_sizes)
        self._before = self._beforehand(abroad)
        self.too_large = self._too_large()
        self.out = self.too_large | {size for size in spec.batch_sizes if self._fails(size)}
        self._all = {size: self._done(size) for size in spec.batch_sizes}
        self.survivors: frozenset[int] | None = None  # where those alone are sampled: in the paper, once it is known
        self.costs = {size: [cost for cost, *_ in all_] for size, all_ in self._all.items()}
        self._best = self._least_mean()

    # -- what is known ------------------------------------------------------------------------------------------------

    def _tells(self, trial: Trial) -> bool:
        """Of another model of GPU only how many epochs it took, and that where an epoch's cost is known here."""
        known = trial.batch_size in self._epoch_costs and trial.status is Status.CONVERGED and trial.epochs > 0
        return trial.gpu_model == self._gpu_model or known

    def _cost_nothing(self, trial: Trial) -> bool:
        """No training does: the energy could not be read. As the best cost it would end all others at once."""
        return trial.status is Status.CONVERGED and self._cost(trial)[0] <= 0.0

    def _of(self, size: int) -> list[Trial]:
        return self._by_size[size]

    def _beforehand(self, abroad: Sequence[Trial]) -> dict[int, Before]:
        """Of each size, what is believed before any training here: the caller's word, else what other GPUs tell."""

        def cost(joules: float, seconds: float) -> float:
            return cost_of(joules, seconds, eta=self.eta, max_power_w=self.spec.max_power_w)

        told = translated(self.history, abroad, cost, window=self.spec.window) if abroad else {}
        return told | {size: Before(*prior) for size, prior in self.spec.prior.items()}

    def _told(self, size: int) -> list[Trial]:
        """What ended here; where nothing did, what ended elsewhere, but for what does not hold here: its memory."""
        here = [trial for trial in self._of(size) if self._is_told(trial)]
        return here or [trial for trial in self._abroad[size] if trial.status in _SPENT]

    def _cost(self, trial: Trial) -> tuple[float, float]:
        """At this eta and on this hardware, and the energy in it."""
        known = self._epoch_costs.get(trial.batch_size)
        if known is not None and trial.epochs > 0:
            return trial.epochs * known[0], trial.epochs * known[1]
        at = {"eta": self.eta, "max_power_w": self.spec.max_power_w}
        return cost_of(trial.joules, trial.seconds, **at), trial.joules

    def _done(self, size: int) -> list[tuple[float, float, float]]:
        """What reaching the target took, the last one last; of as many as the window has: cost, joules, its own cost.

        What was spent in vain before counts with it, and what is spent in vain by now with the next one, which cannot
        cost less than the others did; its own cost is without that. In the paper each is a cost of its own.
        """
        found: list[tuple[float, float, float]] = []
        cost = joules = 0.0
        in_vain = 0
        for trial in self._spent(size):
            more = self._cost(trial)
            cost, joules, in_vain = cost + more[0], joules + more[1], in_vain + 1
            if trial.status is Status.CONVERGED or (self.spec.published and found):
                found.append((cost, joules, more[0]))
                cost, joules, in_vain = 0.0, 0.0, 0
        if in_vain and found:
            costs, energies, owns = zip(*found, strict=True)
            cost, joules = cost + float(np.mean(costs)), joules + float(np.mean(energies))
            found.append((cost, joules, cost if in_vain >= _PATIENCE else owns[-1]))
        found = found if self.spec.published else found[_last_jump([own for *_, own in found]) :]
        return found if self.spec.window is None else found[-self.spec.window :]

    def _spent(self, size: int) -> list[Trial]:
        """Those whose cost tells of the size: lost ones only from the third in a row on, which are no chance."""
        spent, lost = [], 0
        for trial in self._of(size):
            lost = lost + 1 if trial.status is Status.LOST else 0 if trial.status in _TOLD else lost
            if trial.status in _SPENT or (lost > _PATIENCE and not self.spec.published):
                spent.append(trial)
        return spent

    def _too_large(self) -> frozenset[int]:
        """What has fitted here before is so only after two in a row: once, another may have had the memory."""
        full, fitted = dict.fromkeys(self.spec.batch_sizes, 0), 0
        for trial in self.history:
            size = trial.batch_size
            if trial.status is Status.OUT_OF_MEMORY:
                full[size] += 1
            elif trial.status is Status.CONVERGED and trial.gpu_model == self._gpu_model:
                fitted = max(fitted, size)
                full.update(dict.fromkeys((smaller for smaller in full if smaller <= size), 0))
        least = min((s for s, times in full.items() if times >= (_PATIENCE if s <= fitted else 1)), default=math.inf)
        return frozenset(size for size in self.spec.batch_sizes if size >= least)

    def _fails(self, size: int) -> bool:
        """Whether it never reached the target and failed, or was lost, too often."""
        # As long as nothing has come to its end, it is the code that does not work, and no batch size.
        works = next((trial.number for trial in self.history if trial.status in _SPENT), math.inf)
        states = [t.status for t in self._of(size) if t.status is not Status.LOST or t.number > works]
        abroad = [trial.status for trial in self._abroad[size]]
        if Status.CONVERGED not in abroad:
            states += [status for status in abroad if status is Status.FAILED]
        return _given_up(states)

    def _least_mean(self) -> float | None:
        """Of a size that is not given up."""
        open_ = (costs for size, costs in self.costs.items() if costs and size not in self.out)
        return min((sum(costs) / len(costs) for costs in open_), default=None)

    def stop_above(self, stage: Stage) -> float | None:
        """Beta times the best; a training that did not reach its target is no best.

        On the walk nobody is interested in how much worse one is than what ends the walk.
        """
        beta, best = self.spec.beta, self._best
        if beta is None or best is None or stage is Stage.PINNED:
            return None
        if self.spec.published:
            return beta * min(self._cost(trial)[0] for trial in self.history if trial.status is Status.CONVERGED)
        later = [t.status for t in self.history if t.status in _TOLD and t.stage is not Stage.PRUNING]
        if later[-_PATIENCE:] == [Status.STOPPED] * _PATIENCE:
            return None
        beta = min(beta, _WALK) if stage is Stage.PRUNING else beta
        return max(beta, 1.0 + _SURE * self._spread()) * best

    def _spread(self) -> float:
        """Relative standard deviation of one cost: that of all arms together, and of a guess beforehand.

        Of those alone that arrive: one failure would make all the others doubtful.
        """
        squares, count = _GUESS_COUNTS * _GUESS**2, _GUESS_COUNTS
        for found in self._all.values():
            costs = [own for *_, own in found]
            if len(costs) > 1:
                squares += sum((cost / float(np.mean(costs)) - 1.0) ** 2 for cost in costs)
                count += len(costs) - 1
        return max(math.sqrt(squares / count), _LEAST_SPREAD)

    # -- pruning ------------------------------------------------------------------------------------------------------

    def pruning(self) -> Proposal | None:
        """The next size of the walk; None once it is over, and before what is believed can be compared with it."""
        believed = any(self._believed(size) for size in self.spec.batch_sizes)
        if believed and not any(trial.status in _SPENT for trial in self.history):
            return None
        sizes, start = list(self.spec.batch_sizes), self.spec.default
        for k in range(self.spec.rounds):
            missing, survivors = self._walk(sizes, start, k)
            if missing is not None:
                return self._explore(missing, k)
            if not survivors:
                return None
            sizes, start = sorted(survivors), min(survivors, key=survivors.__getitem__)
        if self.spec.published:
            self.survivors = frozenset(sizes)
        return None

    def _walk(self, sizes: Sequence[int], start: int, k: int) -> tuple[int | None, dict[int, float]]:
        """The first size in the order of round ``k`` of which nothing is told yet, and those that reached the target.

        A size's outcome in a round is that of its k-th training: so the order may change with eta.
        """
        ways = [[start], [s for s in reversed(sizes) if s < start], [s for s in sizes if s > start]]
        survivors: dict[int, float] = {}
        last = [-math.inf] * 3  # cost of each way's last size; the start comes first
        while (way := self._next_way(ways, last, survivors)) is not None:
            size = ways[way].pop(0)
            if size in self.too_large:  # smaller ones may fit
                continue
            told = self._told(size)
            if len(told) <= k and size not in self.out and not self._believed(size):
                return size, survivors
            survives_at = self._survives_at(size, told[k]) if len(told) > k else self._survives_unseen(size)
            if survives_at is None:
                ways[way].clear()
            else:
                survivors[size] = last[way] = survives_at
        return None, survivors

    def _is_told(self, trial: Trial) -> bool:
        """One that was ended for its cost may be the best all the same, where that is little at this eta and by now."""
        if trial.status is not Status.STOPPED or self.spec.published or self._best is None:
            return trial.status in _TOLD
        return self._cost(trial)[0] >= self._best

    def _survives_at(self, size: int, trial: Trial) -> float | None:
        """In the paper by that round's training, in ours by all that count; None where it does not."""
        if self.spec.published:
            return self._cost(trial)[0] if trial.status is Status.CONVERGED else None
        return float(np.mean(self.costs[size])) if self.costs[size] else self._survives_unseen(size)

    def _survives_unseen(self, size: int) -> float | None:
        return self._before[size].mean if self._believed(size) else None

    def _believed(self, size: int) -> bool:
        """Whether all that is known of a size is a belief, and none of its trainings here has contradicted it."""
        here = any(trial.status in _SPENT for trial in self._of(size))
        return not (self.spec.published or here or size in self.out) and size in self._before

    def _next_way(self, ways: list[list[int]], last: list[float], survivors: Mapping[int, float]) -> int | None:
        """Down to its end and then up; or of both, each once begun, the one that costs less so far."""
        open_ = [i for i, way in enumerate(ways) if way]
        if not self.spec.published and survivors:
            open_ = [i for i in open_ if last[i] <= _WALK * min(survivors.values())]
        if self.spec.published or not open_ or open_[0] == 0:
            return next(iter(open_), None)
        return min(open_, key=lambda i: last[i])

    def _explore(self, size: int, k: int) -> Proposal:
        runs = any(trial.status is Status.RUNNING for trial in self._of(size))
        if not runs:
            nth = "" if self.spec.rounds == 1 else f", round {k + 1}"
            return self.proposal(size, Stage.PRUNING, f"batch {size} has not been tried yet{nth}")
        known = {arm: float(np.mean(costs)) for arm, costs in self.costs.items() if costs and arm not in self.out}
        if known:
            best, what = min(known, key=known.__getitem__), "the best known"
        elif self.spec.default not in self.out:
            best, what = self.spec.default, "the default, as nothing better is known"
        else:
            best, what = size, "tried too, as the default is given up"
        return self.proposal(best, Stage.CONCURRENT, f"batch {size} is being tried by another; this is {what}")

    # -- sampling -----------------------------------------------------------------------------------------------------

    def sampling(self, number: int) -> Proposal:
        """Algorithm 1: one draw of each belief, and the least of them."""
        beliefs = self._beliefs()
        if not beliefs:
            return self._in_despair()
        normal = np.random.default_rng([self.spec.seed, number]).standard_normal(len(beliefs))
        draws = zip(beliefs.items(), normal.tolist(), strict=True)
        drawn = {size: self._draw(mean, sd, z) for (size, (mean, sd)), z in draws}
        size = self._of_equals(drawn, beliefs)
        best = min(beliefs, key=lambda arm: beliefs[arm][0])
        known = "has the least expected cost" if size == best else f"may be better than batch {best}"
        mean, sd = beliefs[size]
        unseen = "" if self.costs[size] else ", by what it took elsewhere"
        text = f"batch {size} {known}: {mean:.4g} J, give or take {sd:.2g} J{unseen}"
        return self.proposal(size, Stage.SAMPLING, text)

    def _in_despair(self) -> Proposal:
        """The default until it is given up; then what was tried least of all that may still arrive, nearest first."""
        default = self.spec.default
        order = sorted(self.spec.batch_sizes, key=lambda size: (len(self._of(size)), abs(math.log(size / default))))
        left = [size for size in order if size not in self.out]
        fits = [size for size in order if size not in self.too_large]
        if default in left or not fits or (not left and default in fits) or self.spec.published:
            size, what = default, "the default"
        else:
            size, what = (left or fits)[0], "what was tried least of the others"
        return self.proposal(size, Stage.SAMPLING, f"no batch size is known to reach the target; this is {what}")

    def _draw(self, mean: float, sd: float, z: float) -> float:
        return mean + sd * z if self.spec.published else mean * math.exp(sd / mean * z)

    def _of_equals(self, drawn: Mapping[int, float], beliefs: Mapping[int, tuple[float, float]]) -> int:
        """The least of what was drawn; of those that nobody can tell from it, the one of least energy."""
        least = min(drawn, key=drawn.__getitem__)
        if self.spec.published:
            return least
        margin = min(_EQUAL * beliefs[least][1], _NEARLY * min(1.0, 2.0 * self.eta) * beliefs[least][0])
        energy = {size: self._joules(size) for size, cost in drawn.items() if cost <= drawn[least] + margin}
        if None in energy.values():
            return least
        return min(energy, key=lambda size: energy[size] or 0.0)

    def _joules(self, size: int) -> float | None:
        """Of one training; None where only its cost is believed."""
        if self._all[size]:
            return float(np.mean([joules for _, joules, _ in self._all[size]]))
        return self._before[size].joules

    def _beliefs(self) -> dict[int, tuple[float, float]]:
        """Algorithm 2: mean and standard deviation of what is believed of each size's cost."""
        spread, found = self._spread(), {}
        for size, costs in self.costs.items():
            before = self._before.get(size)
            if size in self.out or (self.survivors is not None and size not in self.survivors):
                continue
            if costs:
                mean = float(np.mean(costs))
                variance = float(np.var(costs)) if self.spec.published else (spread * mean) ** 2
                found[size] = _posterior(mean, variance, len(costs), before)
            elif before is not None and self._believed(size):
                found[size] = before.mean, before.sd
        return found

    # -- telling ------------------------------------------------------------------------------------------------------

    def proposal(self, size: int, stage: Stage, reason: str) -> Proposal:
        beliefs = self._beliefs()
        arms = tuple(self._arm(each, *beliefs.get(each, (None, None))) for each in self.spec.batch_sizes)
        return Proposal(size, stage, self.stop_above(stage), reason, arms)

    def _arm(self, size: int, mean: float | None, sd: float | None) -> Arm:
        known = self.costs[size] or self._believed(size)
        state = "out" if size in self.out else "open" if known else "waiting"
        return Arm(size, state, len(self.costs[size]), mean, sd)


def _given_up(states: Sequence[Status]) -> bool:
    failed, lost = states.count(Status.FAILED), states.count(Status.LOST)
    return Status.CONVERGED not in states and (failed >= _PATIENCE or lost > _PATIENCE)


def _without_despair(trials: Sequence[Trial]) -> list[Trial]:
    """Without what went wrong before the first arrived, where that had failed itself, or some size was given up.

    Then it was the job, or its target, and not the sizes: that of the default alone would be open ever after.
    """
    first = next((i for i, trial in enumerate(trials) if trial.status is Status.CONVERGED), 0)
    before: dict[int, list[Status]] = {}
    for trial in trials[:first]:
        before.setdefault(trial.batch_size, []).append(trial.status)
    wrong = {Status.FAILED, Status.LOST}
    itself = bool(before) and Status.FAILED in before.get(trials[first].batch_size, ())
    if not itself and not any(_given_up(states) for states in before.values()):
        return list(trials)
    return [trial for i, trial in enumerate(trials) if i >= first or trial.status not in wrong]


def _by_size(trials: Iterable[Trial], sizes: Iterable[int]) -> dict[int, list[Trial]]:
    found: dict[int, list[Trial]] = {size: [] for size in sizes}
    for trial in trials:
        found[trial.batch_size].append(trial)
    return found


def _last_jump(costs: Sequence[float]) -> int:
    """From where on they are what they are now: before it they were others (data drift, another code)."""
    first, total = 0, 0.0  # a running total: the sum anew for each would take seconds of ten thousand trainings
    for i, cost in enumerate(costs):
        mean = total / (i - first) if i > first else cost
        if not mean / _JUMP <= cost <= mean * _JUMP:
            first, total = i, 0.0
        total += cost
    return first


def _posterior(mean: float, variance: float, count: int, prior: Before | None) -> tuple[float, float]:
    """Of a normal mean whose ``count`` observations have ``variance`` each; a flat prior is None."""
    if variance == 0.0:
        return mean, 0.0
    precision, weighted = count / variance, mean * count / variance
    if prior is not None:
        precision, weighted = precision + prior.sd**-2, weighted + prior.mean * prior.sd**-2
    return weighted / precision, precision**-0.5
