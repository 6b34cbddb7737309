"""Trainings that never were, as the tests of the search tell of them."""

from __future__ import annotations

from dataclasses import replace

from zeus_core.batch_size import Proposal, Spec, propose
from zeus_core.trials import Status, Trial

SIZES = (8, 16, 32, 64, 128)
SPEC = Spec(batch_sizes=SIZES, default=32, max_power_w=300.0)
PAPER = replace(SPEC, published=True, window=None)
RUINS = ((2, 16), (3, 64))
COSTS = {8: 260.0, 16: 120.0, 32: 100.0, 64: 90.0, 128: 130.0}
EPOCHS = {8: 3.0, 16: 4.0, 32: 5.0, 64: 7.0, 128: 11.0}


def ended(number: int, size: int, cost: float, status: Status = Status.CONVERGED, **more: object) -> Trial:
    """One whose cost is ``cost`` at eta 1 and at any other."""
    return Trial(number, size, status, joules=cost, seconds=cost / 300.0, **more)


def history(*pairs: tuple[int, float | Status]) -> list[Trial]:
    """Of sizes and their costs, or how they ended badly."""
    return [
        ended(i, size, 150.0, found) if isinstance(found, Status) else ended(i, size, found)
        for i, (size, found) in enumerate(pairs, 1)
    ]


def asked(trials: list[Trial], spec: Spec = SPEC, *, eta: float = 0.5, **more: object) -> Proposal:
    return propose(spec, trials, eta=eta, **more)


def walk(spec: Spec, costs: dict[int, float | Status], count: int) -> list[int]:
    """The sizes of the first trials, each ending as ``costs`` say."""
    trials: list[Trial] = []
    for number in range(1, count + 1):
        size = asked(trials, spec).batch_size
        found = costs[size]
        bad = isinstance(found, Status)
        trials.append(ended(number, size, 150.0 if bad else found, found if bad else Status.CONVERGED))
    return [trial.batch_size for trial in trials]


def on(model: str, number: int, size: int, status: Status = Status.CONVERGED, factor: float = 1.0) -> Trial:
    """A training on a model of GPU on which everything takes ``factor`` times as much."""
    epochs = EPOCHS[size] if status is Status.CONVERGED else 2.0
    cost = factor * COSTS[size] * epochs / EPOCHS[size]
    return Trial(number, size, status, cost, cost / 300.0, epochs, model)
