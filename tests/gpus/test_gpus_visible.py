from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standin import State

from zeus_core.gpus.base import Lost, PowerLimits
from zeus_core.gpus.nvml import NvmlSystem
from zeus_core.gpus.simulated import GpuProfile, SimulatedSystem
from zeus_core.gpus.visible import look, resolve


@dataclass(frozen=True)
class Card:
    """As much of a GPU as is asked here."""

    index: int
    uuid: str
    name: str = "NVIDIA A40"
    default_w: float = 300
    slices: tuple[str, ...] = ()
    gone: bool = False

    def power_limits(self) -> PowerLimits:
        if self.gone:
            raise Lost("gone")
        return PowerLimits(100, self.default_w, self.default_w)

    def mig_uuids(self) -> tuple[str, ...]:
        if self.gone:
            raise Lost("gone")
        return self.slices


CARDS = (
    Card(0, "GPU-aaaa1111-0000"),
    Card(1, "GPU-aaaa2222-0000"),
    Card(2, "GPU-bbbb1111-0000"),
    Card(3, "GPU-cccc1111-0000", slices=("MIG-11112222", "MIG-11113333")),
)


def seen(cuda: str | None, cards=CARDS, **env: str) -> list[int]:
    variables = dict(env) if cuda is None else {**env, "CUDA_VISIBLE_DEVICES": cuda}
    return [gpu.index for gpu in resolve(variables, cards)]


@pytest.mark.parametrize(
    ("cuda", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("  ", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0", [0]),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("+1", [1]),
        ("1gpu,2", [1, 2]),
        ("0,2,-1,1", [0, 2]),
        ("0,9,1", [0]),
        ("9,0", []),
        ("0,,1", [0]),
        ("0,x,1", [0]),
        ("0,1,0", []),
        ("1,1", []),
        ("0,0x1", []),
        ("GPU-bbbb1111-0000", [2]),
        ("GPU-bbbb", [2]),
        ("GPU-b,GPU-aaaa1", [2, 0]),
        ("GPU-aaaa,GPU-bbbb", []),
        ("GPU-dddd,GPU-bbbb", []),
        ("GPU-bbbb,GPU-dddd,GPU-aaaa1", [2]),
        ("GPU-bbbb,GPU-bbbb1111", []),
        ("gpu-bbbb", []),
        ("GPU-bbbb,0", [2, 0]),
        ("2,GPU-bbbb", []),
        ("MIG-11112222", [3]),
        ("MIG-11112", [3]),
        ("MIG-1111", []),
        ("MIG-9", []),
        ("MIG-11112222,MIG-11113333", [3]),
        ("MIG-11112222,0", [3]),
        ("MIG-GPU-bbbb1111-0000/1/0", [2]),
        ("MIG-GPU-eeee/1/0", []),
    ],
)
def test_the_list_means_what_cuda_means(cuda: str | None, expected: list[int]):
    """Indices, UUIDs, beginnings of UUIDs and slices; cut at the first invalid entry; a repetition shows none."""
    assert seen(cuda) == expected


@pytest.mark.parametrize(
    ("cuda", "warning"),
    [
        ("0,9,1", "there is no GPU 9 among 4; CUDA ignores it and all that follows"),
        ("0,x", "'x' is no index, UUID or MIG slice"),
        ("GPU-aaaa", "GPU-aaaa names 2 GPUs"),
        ("GPU-dddd", "GPU-dddd names no GPU here"),
        ("1,1", "names a device again; CUDA then shows none"),
        ("MIG-11112222,MIG-11113333", "one MIG slice at most"),
    ],
)
def test_what_is_odd_is_said(cuda: str, warning: str):
    """A list that shows less than it names comes with the reason, and with the variable."""
    (said,) = look({"CUDA_VISIBLE_DEVICES": cuda}, CARDS).warnings
    assert warning in said
    assert said.startswith(f"CUDA_VISIBLE_DEVICES={cuda}")


@pytest.mark.parametrize("cuda", [None, "", "-1", "0,2,-1,1", "2,0", "GPU-b"])
def test_what_is_usual_is_not_warned_of(cuda: str | None):
    """Ordinary lists, and the customary end of a list, are silent."""
    assert look({} if cuda is None else {"CUDA_VISIBLE_DEVICES": cuda}, CARDS).warnings == ()


def test_an_exact_uuid_wins_over_a_longer_one():
    """A whole UUID that begins another one is not ambiguous."""
    cards = (Card(0, "GPU-a"), Card(1, "GPU-ab"))
    assert seen("GPU-a", cards) == [0]


def test_the_order_of_the_bus():
    """With PCI_BUS_ID an index is NVML's, however the GPUs are handed over and whatever the models."""
    mixed = (Card(1, "GPU-b", "NVIDIA H100", 700), Card(0, "GPU-a", "NVIDIA T4", 70))
    visible = look({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, mixed)
    assert [gpu.uuid for gpu in visible.gpus] == ["GPU-a"]
    assert visible.warnings == ()


@pytest.mark.parametrize("order", [None, "FASTEST_FIRST"])
def test_the_fastest_first_is_a_guess_and_said_to_be(order: str | None):
    """On a node of several models an index is resolved with the biggest card first, and the guess is warned of once."""
    mixed = (Card(0, "GPU-a", "NVIDIA T4", 70), Card(1, "GPU-b", "NVIDIA H100", 700), Card(2, "GPU-c", "NVIDIA T4", 70))
    env = {"CUDA_VISIBLE_DEVICES": "0,1"} | ({} if order is None else {"CUDA_DEVICE_ORDER": order})
    visible = look(env, mixed)
    assert [gpu.uuid for gpu in visible.gpus] == ["GPU-b", "GPU-a"]
    (said,) = visible.warnings
    assert "NVIDIA H100, NVIDIA T4" in said
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in said


def test_uuids_need_no_order():
    """On a node of several models, a list of UUIDs is no guess."""
    mixed = (Card(0, "GPU-a", "NVIDIA T4", 70), Card(1, "GPU-b", "NVIDIA H100", 700))
    visible = look({"CUDA_VISIBLE_DEVICES": "GPU-a"}, mixed)
    assert ([gpu.index for gpu in visible.gpus], visible.warnings) == ([0], ())


def test_a_gpu_that_is_gone_does_not_spoil_the_rest():
    """Neither the order nor the search for a slice fails because one GPU cannot be asked."""
    cards = (Card(0, "GPU-a", "NVIDIA T4", gone=True), Card(1, "GPU-b", "NVIDIA H100", 700, ("MIG-7",)))
    assert seen(None, cards) == [1, 0]
    assert seen("MIG-7", cards) == [1]


@pytest.mark.parametrize("name", ["NVIDIA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"])
@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("GPU-bbbb1111-0000,GPU-aaaa1111-0000", [2, 0]),
        ("MIG-11113333", [3]),
        ("all", [0, 1, 2, 3]),
        ("void", [0, 1, 2, 3]),
        ("none", [0, 1, 2, 3]),
        ("", [0, 1, 2, 3]),
        ("2", [0, 1, 2, 3]),
        ("2,GPU-bbbb1111-0000", [0, 1, 2, 3]),
    ],
)
def test_other_lists_count_only_by_uuid(name: str, listed: str, expected: list[int]):
    """A runtime's or Slurm's list is used where it names UUIDs; its indices and words count otherwise than ours."""
    assert seen(None, **{name: listed}) == expected
    assert seen("1", **{name: listed}) == [1]


def test_on_real_cards(system: NvmlSystem, standin_state: State):
    """Through NVML: an index, a UUID's beginning, and a slice that leads to its parent (rules G20, G21)."""
    standin_state[1].slice_into("MIG-aa", "MIG-bb")
    gpus = system.gpus()
    assert resolve({"CUDA_VISIBLE_DEVICES": "1"}, gpus) == (gpus[1],)
    assert resolve({"CUDA_VISIBLE_DEVICES": gpus[0].uuid[:20]}, gpus) == (gpus[0],)
    assert resolve({"CUDA_VISIBLE_DEVICES": "MIG-bb"}, gpus) == (gpus[1],)


def test_on_simulated_cards(profile: GpuProfile):
    """Simulated cards are named the same ways."""
    gpus = SimulatedSystem(profile, 2).gpus()
    assert resolve({"CUDA_VISIBLE_DEVICES": f"{gpus[1].uuid},0"}, gpus) == (gpus[1], gpus[0])


@given(st.text(alphabet="0123456789,-+ GPUMIGabcd/x", max_size=40), st.integers(0, 4))
def test_any_text_gives_some_gpus_each_once(cuda: str, count: int):
    """No list raises, and none names a GPU twice or one that is not there."""
    gpus = look({"CUDA_VISIBLE_DEVICES": cuda}, CARDS[:count]).gpus
    assert len({gpu.uuid for gpu in gpus}) == len(gpus)
    assert set(gpus) <= set(CARDS[:count])
