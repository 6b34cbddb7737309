"""What trainings on other GPUs tell of a batch size here: as many epochs, each at what it costs here (papers B.3).

Notation, for a batch size b that reached its target on another model of GPU:

    e, E, T     its epochs, joules and seconds there; how many epochs b needs does not depend on the GPU
    k           joules, or seconds, of an epoch here over those of an epoch there
    E', T'      k E and k T: Cost' = epochs x new epoch cost

k is that of b itself where b has been trained here too, at least for some whole epochs; else that of the nearest size
of which both are known, for models of GPUs differ more than sizes do; else 1, which is as good for comparing sizes.
What comes out is a belief beforehand with an error of its own, and not as good as a training here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from zeus_core.trials import Status, Trial

_OWN_RATIO = 0.1  # relative standard deviation of what is translated: epochs differ, and the limits they ran at
_OTHER_RATIO = 0.2
_AT_ITS_END = frozenset({Status.CONVERGED, Status.STOPPED})
_MANY = 5  # whole epochs, beside which what was begun of another makes no more than ``_OTHER_RATIO``


@dataclass(frozen=True, slots=True)
class Before:
    """What is believed of a training's cost before any here, and of the energy in it; all in joules."""

    mean: float
    sd: float
    joules: float | None = None


def translated(
    here: Iterable[Trial], abroad: Collection[Trial], cost: Callable[[float, float], float], *, window: int | None
) -> dict[int, Before]:
    """Of each size that reached its target ``abroad``. ``cost`` takes joules and seconds.

    Where a ratio to some model is known, that of others is not asked; where none is, the one on which one arrived last.
    Trials are in order of their numbers, and the last ``window`` of a size count.
    """
    epochs = _epochs(here)
    arrived = [trial for trial in abroad if trial.status is Status.CONVERGED]  # only such models have something to tell
    models = list(dict.fromkeys(trial.gpu_model for trial in reversed(arrived)))
    of = {model: [trial for trial in abroad if trial.gpu_model == model] for model in models}
    ratios = {model: _ratios(epochs, _epochs(of[model])) for model in models}
    chosen = [model for model in models if ratios[model]] or models[:1]
    found: dict[int, list[tuple[float, float, float]]] = {}
    for model in reversed(chosen):
        for trial in of[model]:
            if trial.status is Status.CONVERGED:
                joules, seconds, doubt = _here(trial, ratios[model])
                found.setdefault(trial.batch_size, []).append((cost(joules, seconds), joules, doubt))
    return {size: _before(told if window is None else told[-window:]) for size, told in found.items()}


def _here(trial: Trial, ratios: Mapping[int, tuple[float, float]]) -> tuple[float, float, float]:
    if not ratios:
        return trial.joules, trial.seconds, _OTHER_RATIO
    nearest = min(ratios, key=lambda size: abs(math.log(size / trial.batch_size)))
    by_joules, by_seconds = ratios[nearest]
    doubt = _OWN_RATIO if nearest == trial.batch_size else _OTHER_RATIO
    return trial.joules * by_joules, trial.seconds * by_seconds, doubt


def _before(told: Sequence[tuple[float, float, float]]) -> Before:
    mean = fmean(cost for cost, _, _ in told)
    return Before(mean, mean * max(doubt for *_, doubt in told), fmean(joules for _, joules, _ in told))


def _epochs(trials: Iterable[Trial]) -> dict[int, tuple[float, float]]:
    """Joules and seconds of an epoch at each size, of whatever ran at it for long enough."""
    sums: dict[int, list[float]] = {}
    for trial in trials:
        # The rest of an epoch costs and does not count; only at its end does one arrive, or is it told to stop.
        least = 1 if trial.status in _AT_ITS_END else _MANY
        if trial.epochs >= least and trial.joules > 0 and trial.seconds > 0 and trial.status is not Status.RUNNING:
            kept = sums.setdefault(trial.batch_size, [0.0, 0.0, 0.0])
            for i, value in enumerate((trial.joules, trial.seconds, trial.epochs)):
                kept[i] += value
    return {size: (joules / epochs, seconds / epochs) for size, (joules, seconds, epochs) in sums.items()}


def _ratios(
    here: Mapping[int, tuple[float, float]], there: Mapping[int, tuple[float, float]]
) -> dict[int, tuple[float, float]]:
    return {
        size: (here[size][0] / there[size][0], here[size][1] / there[size][1])
        for size in sorted(here.keys() & there.keys())
    }
