"""Which GPUs a job registers, from its arguments and its environment."""

from __future__ import annotations

import logging

import pytest
from daemon_peer import GPUS, UUIDS

from chase.client import Job
from chase.client.placement import place
from chase.errors import ChaseError

MIXED = [
    {"uuid": UUIDS[0], "index": 0, "name": "NVIDIA T4", "min_w": 60, "max_w": 70, "default_w": 70},
    {"uuid": UUIDS[1], "index": 1, "name": "NVIDIA A40", "min_w": 100, "max_w": 300, "default_w": 300},
]
MIG = "MIG-33333333-3333-3333-3333-333333333333"
SLICED = [{**GPUS[0], "mig_uuids": [MIG]}, GPUS[1]]


def _place(wanted, env, gpus=GPUS):
    return place(wanted, env, lambda: {"gpus": gpus})


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (None, UUIDS),
        ("0", UUIDS[:1]),
        ("1,0", UUIDS[::-1]),
        (UUIDS[1], UUIDS[1:]),
        ("GPU-2222", UUIDS[1:]),
        ("0,7,1", UUIDS[:1]),
    ],
)
def test_the_environment_decides_as_cuda_would(listed, expected):
    """Indices, UUIDs, their beginnings, and a list that ends at its first wrong entry."""
    env = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    assert _place(None, env).uuids == tuple(expected)


@pytest.mark.parametrize("listed", ["", "-1", "nonsense", "9"])
def test_a_job_that_sees_no_gpu_is_told_what_it_was_looked_for_by(listed):
    """No GPU to move is an error that shows the variable."""
    with pytest.raises(ChaseError, match=r"none of the node's 2 GPUs .*CUDA_VISIBLE_DEVICES"):
        _place(None, {"CUDA_VISIBLE_DEVICES": listed})


@pytest.mark.parametrize("listed", ["", "  "])
def test_an_empty_list_is_called_empty(listed):
    """Nothing is never shown as nothing."""
    with pytest.raises(ChaseError, match=r"\(CUDA_VISIBLE_DEVICES is empty\)"):
        _place(None, {"CUDA_VISIBLE_DEVICES": listed})


@pytest.mark.parametrize("beginning", ["GPU-", "G"])
def test_the_beginning_of_several_gpus_is_ambiguous_not_absent(beginning):
    """The error lists what it could be."""
    with pytest.raises(ChaseError, match=f"{beginning} is the beginning of several GPUs: {UUIDS[0]}, {UUIDS[1]}"):
        _place([beginning], {})


def test_a_list_for_the_job_goes_before_cudas():
    """``CHASE_JOB_GPUS`` names them by UUID or index, whatever CUDA is shown."""
    assert _place(None, {"CHASE_JOB_GPUS": f"1, {UUIDS[0]}", "CUDA_VISIBLE_DEVICES": "0"}).uuids == UUIDS[::-1]


def test_arguments_go_before_the_environment():
    """What the job names itself is what it gets, each GPU once."""
    assert _place([1, UUIDS[1], "1"], {"CUDA_VISIBLE_DEVICES": "0"}).uuids == UUIDS[1:]


def test_full_uuids_need_no_service_to_be_understood():
    """Naming GPUs in full saves the question which there are."""

    def unasked():
        raise AssertionError("status was asked for")

    assert place(list(UUIDS), {}, unasked).uuids == UUIDS


@pytest.mark.parametrize("wanted", [7, "GPU-9", "MIG-1", "x"])
def test_a_named_gpu_that_is_not_there_is_named_in_the_error(wanted):
    """The error says which was meant and which there are."""
    with pytest.raises(ChaseError, match=f"no GPU {wanted}; it has {UUIDS[0]}, {UUIDS[1]}"):
        _place([0, wanted], {})


def test_a_slice_means_its_card():
    """A MIG slice is on a card, and power is the card's."""
    assert _place(None, {"CUDA_VISIBLE_DEVICES": MIG}, SLICED).uuids == UUIDS[:1]
    assert _place([MIG, 1], {}, SLICED).uuids == UUIDS


def test_mixed_cards_are_counted_as_cuda_does_and_the_guess_is_said():
    """Without a fixed order CUDA counts the bigger card first; the warning says how to be sure."""
    placed = _place(None, {"CUDA_VISIBLE_DEVICES": "0"}, MIXED)
    assert placed.uuids == UUIDS[1:]
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in placed.warnings[0]
    sure = _place(None, {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, MIXED)
    assert (sure.uuids, sure.warnings) == (UUIDS[:1], ())


def test_the_guess_is_said_once_however_often_it_is_made(daemon, socket_path, caplog, monkeypatch):
    """Registering again and again repeats no warning."""
    daemon.gpus = MIXED
    daemon.refusal = (503, "too-many-jobs", "full")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with caplog.at_level(logging.WARNING, "chase.client"), Job("job", socket=socket_path):
        daemon.wait_for(lambda: daemon.count("POST", "/v1/jobs") >= 2, "of the job twice")
    assert caplog.text.count("mixes") == 1


@pytest.mark.parametrize("status", [{}, {"gpus": None}, {"gpus": [{"uuid": 7}]}, {"gpus": [{"index": -1}]}], ids=repr)
def test_a_status_that_is_none_is_refused(status):
    """Nothing is guessed from a status that cannot be the service's."""
    with pytest.raises(ChaseError):
        place(None, {}, lambda: status)


def test_the_jobs_own_environment_is_what_counts(daemon, socket_path, monkeypatch):
    """The variables are read when the job is made: training code sets them for itself later."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    job = Job("job", socket=socket_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with job:
        daemon.wait_for(lambda: daemon.jobs, "of the job")
        assert daemon.only_job()["gpus"] == [UUIDS[1]]
