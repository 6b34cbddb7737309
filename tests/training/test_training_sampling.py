"""Samples: each once in an epoch, in one order, whatever the batch size, the ranks and the resumes."""

from __future__ import annotations

import gc
import multiprocessing
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.utils.data import Dataset, IterableDataset, TensorDataset  # noqa: E402

from zeus_core.training.batch_plan import BatchPlan  # noqa: E402
from zeus_core.training.batching import Batching  # noqa: E402
from zeus_core.training.sampling import Order, SampleLoader  # noqa: E402
from zeus_core.training.steps import Steps  # noqa: E402


class Pair(NamedTuple):
    index: int
    name: str


class Numbers(Dataset):
    """Sample i is i, in one of the shapes that a data set may give."""

    def __init__(self, length, shape=torch.tensor):
        self.length, self.shape, self.asked = length, shape, []

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        self.asked.append(i)
        return self.shape(i)


def read(loader, samples, cuts=1):
    """This rank's part of the next samples, read in so many parts, and then used up."""
    share = loader.share(samples)
    ends = [share * i // cuts for i in range(cuts + 1)]
    parts = [loader.part(start, stop) for start, stop in pairwise(ends) if stop > start]
    loader.advance(samples)
    return [int(i) for part in parts for i in part]


@given(st.data())
def test_every_epoch_has_each_sample_once_on_any_ranks(data):
    """Whatever is taken at a time, on however many ranks and with whatever resumes, the order is the epoch's own."""
    length, chunk, seed = (data.draw(st.integers(1, most)) for most in (60, 9, 3))
    state, epochs = None, [[], []]
    while state is None or state["epoch"] < 2:
        world = data.draw(st.integers(1, 4))
        loaders = [
            SampleLoader(Numbers(length), chunk=chunk, seed=seed, rank=rank, world=world) for rank in range(world)
        ]
        for loader in loaders if state else []:
            loader.load_state_dict(state)
        for _ in range(data.draw(st.integers(1, 4))):
            epoch, left = loaders[0].epoch, loaders[0].left
            if epoch == 2:
                break
            taken = min(data.draw(st.integers(1, 12)) * world, left)
            parts = [read(loader, taken, data.draw(st.integers(1, 3))) for loader in loaders]
            epochs[epoch] += [part[i] for i in range(len(parts[0])) for part in parts if i < len(part)]
        state = loaders[0].state_dict()
        assert all(loader.state_dict() == state for loader in loaders)
    for epoch, seen in enumerate(epochs):
        assert seen == Order(length, seed, epoch, shuffle=True).indices.tolist()
        assert sorted(seen) == list(range(length))


@pytest.mark.parametrize(
    "workers", [{"num_workers": 0}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}]
)
def test_what_was_fetched_ahead_is_neither_counted_nor_thrown_away(workers):
    """The state counts what was used, a change of size uses what is there, and resuming begins at the next sample."""
    loader = SampleLoader(Numbers(50), chunk=6, **workers)
    order = [Order(50, 0, epoch, shuffle=True).indices.tolist() for epoch in (0, 1)]
    assert read(loader, 6) + read(loader, 4) + read(loader, 13, cuts=3) == order[0][:23]
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (0, 23)
    assert read(loader, 12) + read(loader, 15) + read(loader, 8) == order[0][23:] + order[1][:8]
    loader.load_state_dict(state)
    assert read(loader, 27) + read(loader, 3) == order[0][23:] + order[1][:3]


def test_no_sample_is_fetched_twice():
    """A change of size mid-epoch asks the data set for nothing that it was asked for before."""
    dataset = Numbers(40)
    loader = SampleLoader(dataset, chunk=8)
    for samples in (8, 2, 6, 16, 1, 7):
        read(loader, samples, cuts=2)
    assert dataset.asked == Order(40, 0, 0, shuffle=True).indices.tolist()


def test_a_part_can_be_had_again_until_it_is_used():
    """What did not fit is cut anew from the same samples: nothing is used before it is counted."""
    loader = SampleLoader(Numbers(20), chunk=8, shuffle=False)
    assert loader.part(0, 8).tolist() == list(range(8))
    assert [loader.part(at, at + 3).tolist() for at in (0, 3, 6)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert loader.state_dict()["position"] == 0
    loader.advance(9)
    assert loader.part(0, 4).tolist() == [9, 10, 11, 12]


def test_a_loader_that_is_left_midway_ends_its_workers_at_once():
    """Nothing waits for the garbage collector: with the last reference to the loop its workers are gone."""
    weight = torch.nn.Parameter(torch.zeros(()))
    batching = Batching(BatchPlan(6, 6, (6,)), torch.optim.SGD([weight], 0.1))
    steps = Steps(batching, SampleLoader(Numbers(60), chunk=6, num_workers=1))
    before = multiprocessing.active_children()
    with next(iter(steps)) as step:
        assert len(list(step)) == 1
    (worker,) = set(multiprocessing.active_children()) - set(before)
    gc.disable()
    try:
        del steps, step
        assert not worker.is_alive()
    finally:
        gc.enable()


SHAPES = {
    "pair": lambda i: (torch.full((2,), i), i),
    "dict": lambda i: {"x": torch.tensor(i), "inner": {"y": float(i)}},
    "namedtuple": lambda i: Pair(i, f"n{i}"),
    "text": lambda i: [str(i), i],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1, 3, 4, 10])
def test_cut_and_joined_is_as_if_collated_together(shape, size):
    """Any part is what the default collation makes of just these samples, views or not, numbers or texts."""
    loader = SampleLoader(Numbers(20, SHAPES[shape]), chunk=4, shuffle=False)
    for at in range(0, 20 - size, size):
        part, whole = (
            loader.part(at, at + size),
            torch.utils.data.default_collate([SHAPES[shape](i) for i in range(at, at + size)]),
        )
        assert _plain(part) == _plain(whole)
        assert type(part) is type(whole)


def _plain(data):
    if isinstance(data, torch.Tensor):
        return data.tolist()
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    return data if isinstance(data, str) else [_plain(value) for value in data]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_collation_of_ones_own_sees_just_the_microbatch(workers):
    """Padding to the longest goes by what is together, not by what was fetched together."""

    def padded(samples):
        return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)

    dataset = Numbers(12, lambda i: torch.full((i + 1,), i))
    loader = SampleLoader(dataset, chunk=6, shuffle=False, collate_fn=padded, num_workers=workers)
    assert [tuple(loader.part(at, at + 2).shape) for at in (0, 2, 5)] == [(2, 2), (2, 4), (2, 7)]
    assert loader.filler().tolist() == [[0]]


def test_the_trainings_own_random_numbers_are_left_alone():
    """Beginning an epoch draws nothing from the generator that dropout draws from."""
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    read(SampleLoader(Numbers(8), chunk=4), 8)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"length": 21}, "length was 20 and is 21"),
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"shuffle": False}, "shuffle was True and is False"),
    ],
)
def test_another_order_is_refused_on_resume(changed, says):
    """A checkpoint of other data or of another seed is refused, and what differs is said."""
    state = SampleLoader(Numbers(20), chunk=4).state_dict()
    other = SampleLoader(Numbers(changed.pop("length", 20)), chunk=4, **changed)
    with pytest.raises(ValueError, match=says):
        other.load_state_dict(state)


def test_an_order_that_another_numpy_drew_is_refused():
    """The same seed with another permutation is told by its checksum."""
    loader = SampleLoader(Numbers(20), chunk=4)
    state = loader.state_dict()
    with pytest.raises(ValueError, match="checksum was 7 and is"):
        loader.load_state_dict({**state, "checksum": 7})
    with pytest.raises(ValueError, match="position must lie within 0 to 19, not 20"):
        loader.load_state_dict({**state, "position": 20})


class Failing(Numbers):
    """Sample ``bad`` cannot be had at first."""

    def __init__(self, length, bad, mark, error):
        super().__init__(length)
        self.bad, self.mark, self.error = bad, mark, error

    def __getitem__(self, i):
        if i == self.bad and not self.mark.exists():
            self.mark.touch()
            raise self.error
        return super().__getitem__(i)


@pytest.mark.parametrize(
    "workers", [{"num_workers": 0}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}]
)
@pytest.mark.parametrize("bad", [0, 46])
def test_samples_that_could_not_be_fetched_are_fetched_again(tmp_path, workers, bad):
    """On each rank: a file system that fails for a moment loses none of them and repeats none."""
    dataset = Failing(47, bad, tmp_path / "failed", OSError("stale file handle"))
    loaders = [SampleLoader(dataset, chunk=6, rank=rank, world=2, shuffle=False, **workers) for rank in (0, 1)]
    seen, failed = [], 0
    while len(seen) < 47:
        samples = min(14, loaders[0].left)
        try:
            parts = [loader.part(0, loader.share(samples)).tolist() for loader in loaders]
        except OSError:
            failed += 1
            continue
        for loader, part in zip(loaders, parts, strict=True):
            seen += part
            loader.advance(samples)
    assert (failed, sorted(seen)) == (1, list(range(47)))


def test_host_memory_that_runs_out_in_fetching_loses_no_sample(tmp_path):
    """The step is done again with the samples that it had."""
    text = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
    dataset = Failing(48, 20, tmp_path / "failed", RuntimeError(text))
    batching = Batching(BatchPlan(12, 6, (3, 6)), torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], 0.1))
    seen = []
    for step in Steps(batching, SampleLoader(dataset, chunk=6, shuffle=False)):
        with step:
            samples = [i for micro in step for i in micro.data.tolist()]
        if not step.failed:
            seen += samples
    assert (seen, batching.microbatch) == (list(range(48)), 3)


class Endless(IterableDataset):
    def __iter__(self):
        yield 1


def test_what_cannot_be_counted_is_refused():
    """No stream, no empty data, no rank outside the world, no more samples than are left, no uneven share midway."""
    with pytest.raises(TypeError, match="must have a length"):
        SampleLoader(Endless(), chunk=1)
    with pytest.raises(ValueError, match=r"not 4, 0, 0 and 0 of 1"):
        SampleLoader(TensorDataset(torch.zeros(0)), chunk=4)
    with pytest.raises(ValueError, match="2 of 2"):
        SampleLoader(Numbers(4), chunk=1, rank=2, world=2)
    loader = SampleLoader(Numbers(9), chunk=4, world=2)
    for samples in (0, 3, 11):
        with pytest.raises(ValueError, match=f"{samples} samples cannot be used by 2 ranks when 9 are left"):
            loader.advance(samples)
