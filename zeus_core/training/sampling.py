"""Samples in one order whatever the batch size, and counted when they are used.

Notation:

    N    samples of the data set, which are those of one epoch
    W    ranks, r one of them
    p    position: samples of the epoch that all ranks together have used
    o    origin: the position at which the epoch was begun or resumed
    c    chunk: samples that a worker fetches at once

The order of an epoch is a permutation by (seed, epoch) alone. Of the part from o on, rank r has every W-th sample from
the r-th on: its stream, which does not depend on any batch size either. Workers fetch ahead chunks of the stream, and
the training loop cuts from them what it needs. So a change of the batch size throws nothing away that was fetched, and
what is counted is what was used, however much lies fetched. Resuming at any p begins a new stream there, on as many
ranks as there are then.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Order:
    """The samples' indices in the order of one epoch."""

    length: int
    seed: int
    epoch: int
    shuffle: bool

    @cached_property
    def indices(self) -> Ints:
        """All N of them."""
        if not self.shuffle:
            return np.arange(self.length)
        return np.random.default_rng((self.seed, self.epoch)).permutation(self.length)

    @cached_property
    def checksum(self) -> int:
        """Differs where another version of numpy draws another order from the same seed."""
        return zlib.crc32(self.indices.tobytes())


class SampleLoader:
    """This rank's samples of a map-style ``dataset``, of which any number can be had at a time.

    ``chunk`` c is best the largest microbatch: one that divides it is then a view. ``options`` are ``DataLoader``'s own
    (``num_workers``, ``pin_memory``, ``persistent_workers``, ``prefetch_factor``, ``worker_init_fn``, ...).

    Without a ``collate_fn`` chunks are collated by the workers and then cut. With one the workers send single samples,
    and it is called here for each microbatch: what it does, as padding to the longest, depends on which are together.

    Raises ``TypeError`` for a data set without length and index, ``ValueError`` for numbers that cannot be.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        chunk: int,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        shuffle: bool = True,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        **options: Any,
    ) -> None:
        if isinstance(dataset, IterableDataset) or not isinstance(dataset, Sized):
            raise TypeError("samples are counted by their index: the data set must have a length, and not be iterable")
        if not (chunk >= 1 and seed >= 0 and 0 <= rank < world and len(dataset) >= 1):
            raise ValueError(
                "chunk and the data set's length must be at least 1, seed at least 0 and rank within 0 to world - 1, "
                f"not {chunk!r}, {len(dataset)}, {seed!r} and {rank!r} of {world!r}"
            )
        self.chunk, self.rank, self.world = chunk, rank, world
        self.dataset: Dataset[Any] = dataset
        self.position = 0
        self._order = Order(len(dataset), seed, 0, shuffle)
        self._stream = _Stream(chunk)
        self._collate = collate_fn
        self._generator = torch.Generator()  # not the training's own, which dropout draws from
        self._loader: DataLoader[Any] = DataLoader(
            dataset,
            batch_sampler=cast("Any", self._stream),
            collate_fn=list if collate_fn else default_collate,
            generator=self._generator,
            **options,
        )
        self._begin()

    @property
    def epoch(self) -> int:
        return self._order.epoch

    @property
    def left(self) -> int:
        """Samples of the epoch that are not used yet, of all ranks together."""
        return self._order.length - self.position

    def share(self, samples: int) -> int:
        """How many of the next ``samples`` are this rank's."""
        return self._own(self.position + samples) - self._used

    def part(self, start: int, stop: int) -> Any:
        """This rank's samples from the ``start``-th to before the ``stop``-th unused one, collated. Uses none up."""
        start, stop = self._used + start, self._used + stop
        while self._fetched < stop:
            self._fetch()
        cuts = [
            (data, max(start - at, 0), min(stop, end) - at) for at, end, data in self._held if at < stop and start < end
        ]
        if self._collate:
            return self._collate([sample for data, first, end in cuts for sample in data[first:end]])
        return _join([_cut(*cut) for cut in cuts])

    def filler(self) -> Any:
        """One sample, collated, for a rank that has none where others have: to be given no weight."""
        sample = self.dataset[int(self._order.indices[self.position])]
        return (self._collate or default_collate)([sample])

    def advance(self, samples: int) -> None:
        """Count the next ``samples``, of all ranks together, as used. After the last of an epoch the next one begins.

        Raises ``ValueError`` for more than are left, and for what is no multiple of the ranks before the last ones.
        """
        if not 0 < samples <= self.left or (samples % self.world and samples != self.left):
            raise ValueError(f"{samples!r} samples cannot be used by {self.world} ranks when {self.left} are left")
        self.position += samples
        if self.left == 0:
            self.position, self._order = 0, self._order_of(self.epoch + 1)
            self._begin()
            return
        self._used = self._own(self.position)
        while self._held and self._held[0][1] <= self._used:
            self._held.popleft()

    def state_dict(self) -> dict[str, Any]:
        """The same on all ranks."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "length": self._order.length,
            "seed": self._order.seed,
            "shuffle": self._order.shuffle,
            "world": self.world,
            "checksum": self._order.checksum,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at the checkpoint's sample; with another number of ranks, too.

        Raises ``ValueError`` where the order of the samples is another one, and says what differs.
        """
        order = self._order_of(state["epoch"])
        for name in ("length", "seed", "shuffle", "checksum"):
            if state[name] != getattr(order, name):
                raise ValueError(
                    f"the samples' order is not the checkpoint's: {name} was {state[name]!r} and is "
                    f"{getattr(order, name)!r}"
                )
        if not 0 <= state["position"] < order.length:
            raise ValueError(f"position must lie within 0 to {order.length - 1}, not {state['position']!r}")
        self._order, self.position = order, state["position"]
        self._begin()

    def _order_of(self, epoch: int) -> Order:
        return replace(self._order, epoch=epoch)

    def _begin(self) -> None:
        """A new stream, from where we are."""
        self._origin = self.position
        self._used = self._fetched = 0  # of this rank's stream
        self._held: deque[tuple[int, int, Any]] = deque()  # first and last but one in the stream, and the chunk
        self._chunks: Iterator[Any] | None = None

    def _own(self, position: int) -> int:
        """How many samples of this rank's stream lie before ``position``."""
        return max(0, -((self.rank - (position - self._origin)) // self.world))

    def _fetch(self) -> None:
        if self._chunks is None:
            start = self._origin + self.world * self._fetched + self.rank
            seed = f"{self._order.seed} {self.epoch} {start - self.rank} {self.rank}"
            self._generator.manual_seed(zlib.crc32(seed.encode()))
            self._stream.indices = self._order.indices[start :: self.world]
            self._chunks = iter(self._loader)
        try:
            data = next(self._chunks)
        except BaseException:
            self._chunks = None  # it would go on behind the chunk that failed
            raise
        end = min(self._fetched + self.chunk, self._own(self._order.length))
        self._held.append((self._fetched, end, data))
        self._fetched = end


class _Stream:
    """The indices of a rank's stream, in chunks: what a ``DataLoader`` calls a batch sampler.

    It does not know the ``SampleLoader``. In a cycle that the garbage collector has to find, the workers of an iterator
    that was left midway do not hear that they are to end, and are waited for.
    """

    def __init__(self, chunk: int) -> None:
        self._chunk = chunk
        self.indices: Ints = np.arange(0)

    def __iter__(self) -> Iterator[list[int]]:
        indices = self.indices
        return (indices[at : at + self._chunk].tolist() for at in range(0, len(indices), self._chunk))


def _cut(data: Any, start: int, stop: int) -> Any:
    """Samples ``start`` to before ``stop`` of what ``default_collate`` made."""
    if isinstance(data, torch.Tensor) or _is_text(data):
        return data[start:stop]
    if isinstance(data, Mapping):
        return {key: _cut(value, start, stop) for key, value in data.items()}
    return _like(data, [_cut(value, start, stop) for value in data])


def _join(pieces: Sequence[Any]) -> Any:
    """One after the other, as if they had been collated together."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    if isinstance(first, torch.Tensor):
        return _cat(pieces)
    if _is_text(first):
        return [text for piece in pieces for text in piece]
    if isinstance(first, Mapping):
        return {key: _join([piece[key] for piece in pieces]) for key in first}
    return _like(first, [_join(column) for column in zip(*pieces, strict=True)])


def _cat(pieces: Sequence[torch.Tensor]) -> torch.Tensor:
    """Pinned where the pieces are, so that a copy to the device need not wait."""
    first = pieces[0]
    if not (torch.cuda.is_available() and first.is_pinned()):
        return torch.cat([*pieces])
    whole = (sum(len(piece) for piece in pieces), *first.shape[1:])
    return torch.cat([*pieces], out=torch.empty(whole, dtype=first.dtype, pin_memory=True))


def _is_text(data: Any) -> bool:
    """Whether it is a column of texts, the one thing that ``default_collate`` leaves as it is."""
    return isinstance(data, list | tuple) and bool(data) and isinstance(data[0], str | bytes)


def _like(data: Any, columns: list[Any]) -> Any:
    return type(data)(*columns) if hasattr(data, "_fields") else columns
