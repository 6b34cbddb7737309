"""What a job lets others change about its batch size while it runs.

Notation:

    b    microbatch: samples in one forward and backward pass of one rank       [samples]
    a    accumulation: microbatches of one rank in one optimizer step
    W    world: ranks that share the data
    B    global batch: samples in one optimizer step, of all ranks              [samples]

    B = a b W

Either B is kept and a follows b: the same gradients, steps and schedule at another size of what is on the device at
once. Or a is kept and B follows b: other gradients, for which the learning rate follows a rule (``lr_scaling``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

Boundary = Literal["epoch", "accumulation", "checkpoint"]
Rule = Literal["sqrt", "linear"]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Declared by the job: how it begins, what it can change to, and where.

    ``microbatch`` b to begin with, and ``microbatches`` all that one rank may run at; ``global_batch`` B to begin with.
    A change takes effect between two optimizer steps (``accumulation``), between two epochs, or after a checkpoint.
    Without ``keep_global_batch`` the learning rate follows ``rate_rule``, None being the one that is known for the
    optimizer; where the batch grows it rises over ``warmup_steps`` optimizer steps.

    Raises ``TypeError`` or ``ValueError`` for values that mean nothing.
    """

    global_batch: int
    microbatch: int
    microbatches: tuple[int, ...]
    boundary: Boundary = "epoch"
    keep_global_batch: bool = True
    rate_rule: Rule | None = None
    warmup_steps: int = 100

    def __post_init__(self) -> None:
        for name in ("global_batch", "microbatch"):
            _whole(name, getattr(self, name))
        _whole("warmup_steps", self.warmup_steps, least=0)
        sizes = tuple(sorted({_whole("microbatches", size) for size in self.microbatches}))
        object.__setattr__(self, "microbatches", sizes)
        if self.microbatch not in sizes:
            raise ValueError(f"microbatch {self.microbatch} must be one of microbatches, {list(sizes)}")
        if self.boundary not in get_args(Boundary):
            raise ValueError(f"boundary must be one of {', '.join(get_args(Boundary))}, not {self.boundary!r}")
        if self.keep_global_batch.__class__ is not bool:
            raise TypeError(f"keep_global_batch must be true or false, not {self.keep_global_batch!r}")
        if self.rate_rule is not None and self.rate_rule not in get_args(Rule):
            raise ValueError(f"rate_rule must be one of {', '.join(get_args(Rule))}, or none, not {self.rate_rule!r}")
        if self.rate_rule is not None and self.keep_global_batch:
            raise ValueError("rate_rule needs keep_global_batch=False: where the global batch is kept, so is the rate")

    def check(self, world: int) -> None:
        """Raise ``ValueError`` where ``world`` ranks cannot run at each size, and name those nearest that they can."""
        _whole("world", world)
        if self.global_batch % world:
            below = self.global_batch // world * world
            near = _alternatives([below, below + world] if below else [world])
            raise ValueError(
                f"global_batch {self.global_batch} cannot be shared by {world} ranks evenly; the nearest are {near}"
            )
        share = self.global_batch // world
        for size in self.microbatches if self.keep_global_batch else (self.microbatch,):
            if share % size:
                raise ValueError(
                    f"microbatch {size} x {world} ranks does not divide global_batch {self.global_batch}; "
                    f"the nearest that do are {_alternatives(_nearest_divisors(share, size))}"
                )

    def accumulation(self, microbatch: int, world: int) -> int:
        """a, for a plan that ``check`` accepts."""
        return self.global_batch // (world * (microbatch if self.keep_global_batch else self.microbatch))

    def global_batch_at(self, microbatch: int, world: int) -> int:
        """B, for a plan that ``check`` accepts."""
        return self.accumulation(microbatch, world) * microbatch * world

    def differences(self, other: BatchPlan) -> list[str]:
        """What is another in ``other``, in words; empty when they are the same."""
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in _KEYS)
        return [f"{name} was {_said(mine)} and is {_said(theirs)}" for name, mine, theirs in pairs if mine != theirs]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "microbatches": list(self.microbatches)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> BatchPlan:
        """Raises ``ValueError`` or ``TypeError`` naming the key that is wrong, missing or unknown."""
        if unknown := sorted(set(raw) - set(_KEYS)):
            raise ValueError(f"a batch plan has no {', '.join(unknown)}; it has {', '.join(_KEYS)}")
        if missing := [name for name in ("global_batch", "microbatch", "microbatches") if name not in raw]:
            raise ValueError(f"a batch plan needs {', '.join(missing)}")
        sizes = raw["microbatches"]
        if not isinstance(sizes, list | tuple):
            raise TypeError(f"microbatches must be a list of whole numbers, not {sizes!r}")
        return cls(**{**raw, "microbatches": tuple(sizes)})


_KEYS = tuple(each.name for each in fields(BatchPlan))


def _whole(name: str, value: object, least: int = 1) -> int:
    if value.__class__ is not int:
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
    return value


def _nearest_divisors(whole: int, size: int) -> list[int]:
    below = next(divisor for divisor in range(min(size, whole), 0, -1) if whole % divisor == 0)
    above = next((divisor for divisor in range(size, whole + 1) if whole % divisor == 0), None)
    return [below] if above is None else [below, above]


def _alternatives(values: list[int]) -> str:
    return " and ".join(map(str, values))


def _said(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
