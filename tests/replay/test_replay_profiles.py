"""A job's curve, by the name of a profile or by a run of a sweep; what cannot be used is said with its line."""

from __future__ import annotations

import csv

import pytest
from replay_cases import SWEEP, sweep_file

from chase.errors import ChaseError
from chase.frontiers import frontier_of_profile
from chase.replay.profiles import monotone, profile_of
from zeus_core.gpus.simulated import SimulatedSystem


def sweep(folder, *rows, header=("network", "batch_size", "power_limit", "time_per_epoch", "average_power")):
    path = folder / "summary_power_v100.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def test_a_shipped_profile_goes_by_its_name():
    """As jobs name them."""
    assert profile_of("v100-resnet50").gpu == "NVIDIA V100"


def test_a_run_of_a_sweep_is_a_profile(tmp_path):
    """Its highest limit is the reference, an epoch the unit; the columns that are named tell the runs apart."""
    rows = [("resnet50", size, limit, seconds, watts) for size in (32, 64) for limit, seconds, watts in SWEEP]
    profile = profile_of(f"{sweep(tmp_path, *rows)}:network=resnet50,batch_size=64")
    assert (profile.default_w, profile.min_w, profile.gpu, profile.unit) == (300, 100, "V100", "epoch")
    assert [(p.power_limit_w, p.seconds_per_unit, p.watts) for p in profile.points] == [
        pytest.approx(point) for point in SWEEP[::-1]
    ]
    assert 0 < profile.idle_w < 100


def test_a_simulated_card_runs_as_the_frontier_says(tmp_path):
    """Also where the sweep is not monotone: what is planned is then what the card does."""
    bent = [(300, 1000.0, 280.0), (250, 990.0, 285.0), (200, 1080.0, 198.0), (150, 1250.0, 152.0)]
    profile = profile_of(f"{sweep_file(tmp_path, bent)}:network=toy")
    (card,) = SimulatedSystem(profile, 1).cards
    card.occupy(1, 1)
    for point in frontier_of_profile(profile, gpus=1).points:
        card.set_power_limit_w(point.setting.power_limit_w)
        assert card.rate() == pytest.approx(point.rate, rel=1e-12)
        assert card.power_w() == pytest.approx(point.power_w, rel=1e-12)
    assert monotone(profile).points == profile.points


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("network", "'network' is no COLUMN=VALUE"),
        ("network=bert", "no row has network bert; there is network: odd, resnet50"),
        ("netwrok=resnet50", "its columns are network, batch_size"),
        ("network=resnet50", "fits several runs; name more of batch_size: 32, 64"),
        ("batch_size=128", "line 4: time_per_epoch is '-3', not a positive number"),
        ("batch_size=256", "line 5: average_power is 'warm', not a positive number"),
    ],
)
def test_a_sweep_that_cannot_be_used_says_why(tmp_path, row, said):
    """The run that is not there, the several that are, and the line of a wrong figure."""
    rows = [
        ("resnet50", 32, 300, 10, 280),
        ("resnet50", 64, 300, 10, 280),
        ("odd", 128, 300, -3, 280),
        ("odd", 256, 300, 3, "warm"),
    ]
    path = sweep(tmp_path, *rows)
    with pytest.raises(ChaseError, match=said):
        profile_of(f"{path}:{row}")


def test_what_is_no_profile_is_named(tmp_path):
    """An unknown name, a missing file, a table of something else."""
    for unsaid in ("none.csv", "none.csv:"):
        with pytest.raises(ChaseError, match=f"profile '{unsaid}': a sweep has many runs; write FILE.csv:network="):
            profile_of(unsaid)
    with pytest.raises(ChaseError, match="profile 'v100-resnet5' is unknown; did you mean"):
        profile_of("v100-resnet5")
    with pytest.raises(ChaseError, match="cannot be read as a sweep"):
        profile_of(f"{tmp_path / 'none.csv'}:network=toy")
    other = sweep(tmp_path, ("toy", 1), header=("network", "batch_size"))
    with pytest.raises(ChaseError, match="has no column power_limit"):
        profile_of(f"{other}:network=toy")
