"""What every backend does alike: a simulated card, NVML, a site's command, and a server owned by another user."""

from __future__ import annotations

import pytest
from actuation_harness import ORIGINAL_W, Bench

from zeus_core.actuation.base import ActuationError, Status, Wish


def statuses(results) -> list[Status]:
    return [applied.status for applied in results]


def test_backend_is_named(bench: Bench):
    """An actuator says what kind it is."""
    expected = {"simulated": "local", "standin": "local", "command": "command", "remote": "remote"}
    assert bench.actuator.backend == expected[bench.kind]


def test_applies_and_reads_back(bench: Bench):
    """A wish is set on all GPUs and reported with what is in force."""
    first, second = bench.apply(200, 150)
    assert bench.limits() == [200, 150]
    assert (first.status, first.requested_w, first.set_w, first.enforced_w) == (Status.APPLIED, 200, 200, 200)
    assert (second.status, second.enforced_w) == (Status.APPLIED, 150)


def test_same_wish_again_is_unchanged(bench: Bench):
    """A wish that is in force already sets nothing."""
    bench.apply(200, 150)
    assert statuses(bench.apply(200, 150)) == [Status.UNCHANGED, Status.UNCHANGED]
    assert bench.limits() == [200, 150]


def test_fractions_of_a_watt(bench: Bench):
    """Limits are exact to the milliwatt, both ways."""
    bench.cards.foreign(0, 251.337)
    bench.apply(150.125)
    assert bench.limits()[0] == 150.125
    bench.actuator.restore()
    assert bench.limits()[0] == 251.337


@pytest.mark.parametrize(("wish_w", "limit_w"), [(20, 100), (100, 100), (290, ORIGINAL_W), (1000, ORIGINAL_W)])
def test_clamped_to_the_live_range_and_the_original(bench: Bench, wish_w: float, limit_w: float):
    """No limit is set below what the driver allows or above what was found."""
    applied = bench.apply(wish_w)[0]
    assert bench.limits() == [limit_w, ORIGINAL_W]
    assert (applied.requested_w, applied.set_w, applied.enforced_w) == (wish_w, limit_w, limit_w)


def test_restores_the_exact_original(bench: Bench):
    """What was found is put back, not the default and not the maximum."""
    bench.apply(150, 200)
    results = bench.actuator.restore()
    assert bench.limits() == [ORIGINAL_W, ORIGINAL_W]
    assert statuses(results.values()) == [Status.RESTORED, Status.RESTORED]
    assert statuses(bench.actuator.restore().values()) == [Status.NOTHING, Status.NOTHING]


def test_restores_one(bench: Bench):
    """A restore of one GPU leaves the other as it is."""
    bench.apply(150, 200)
    results = bench.actuator.restore([bench.uuids[1]])
    assert list(results) == [bench.uuids[1]]
    assert bench.limits() == [150, ORIGINAL_W]


def test_empty_wish_gives_back(bench: Bench):
    """A wish without a lever gives the GPU back, and the rest of the call is applied."""
    bench.apply(150, 150)
    assert statuses(bench.apply(None, 200)) == [Status.RESTORED, Status.APPLIED]
    assert bench.limits() == [ORIGINAL_W, 200]
    assert bench.actuator.describe()[0].original_w is None


def test_second_owner_of_a_gpu_starts_from_its_own_original(bench: Bench):
    """After a restore the next change takes a fresh original."""
    bench.apply(150, 150)
    bench.actuator.restore()
    bench.cards.foreign(0, 260)
    bench.apply(120)
    bench.actuator.restore()
    assert bench.limits() == [260, ORIGINAL_W]


def test_describe(bench: Bench):
    """A description has the live figures, and the original while something of ours is in force."""
    before = bench.actuator.describe()
    assert [state.uuid for state in before] == list(bench.uuids)
    assert [state.index for state in before] == [0, 1]
    state = before[0]
    assert (state.power_limit_w, state.enforced_w, state.min_w, state.max_w, state.default_w) == (
        275,
        275,
        100,
        300,
        300,
    )
    assert (state.original_w, state.foreign_w, state.can_set, state.reason) == (None, None, True, "")
    bench.apply(150)
    state = bench.actuator.describe()[0]
    assert (state.power_limit_w, state.enforced_w, state.original_w) == (150, 150, ORIGINAL_W)


def test_foreign_change_is_respected(bench: Bench):
    """A limit that somebody else set over ours stays, and the rest of the group does not move either."""
    bench.apply(200, 200)
    bench.cards.foreign(0, 180)
    for _ in range(3):
        assert statuses(bench.apply(150, 150)) == [Status.FOREIGN, Status.ROLLED_BACK]
        assert bench.limits() == [180, 200]
    assert bench.actuator.describe()[0].foreign_w == 180


def test_foreign_change_to_the_original_is_respected(bench: Bench):
    """Somebody who sets the original back by hand is not overruled."""
    bench.apply(200)
    bench.cards.foreign(0, ORIGINAL_W)
    assert statuses(bench.apply(150)) == [Status.FOREIGN]
    assert bench.limits()[0] == ORIGINAL_W


def test_foreign_change_ends_when_it_is_taken_back(bench: Bench):
    """Once our limit is in force again, we go on."""
    bench.apply(200)
    bench.cards.foreign(0, 180)
    bench.apply(150)
    bench.cards.foreign(0, 200)
    assert statuses(bench.apply(150)) == [Status.APPLIED]
    assert bench.actuator.describe()[0].foreign_w is None
    bench.actuator.restore()
    assert bench.limits()[0] == ORIGINAL_W


@pytest.mark.parametrize("release", ["restore", "empty wish"])
def test_release_leaves_a_foreign_limit(bench: Bench, release: str):
    """Giving back leaves a foreign limit in force, forgets it, and takes it for the original of the next change."""
    bench.apply(200, 200)
    bench.cards.foreign(0, 180)
    first, second = bench.actuator.restore().values() if release == "restore" else bench.apply(None, None)
    assert (first.status, second.status) == (Status.FOREIGN, Status.RESTORED)
    assert bench.limits() == [180, ORIGINAL_W]
    assert statuses(bench.apply(120)) == [Status.APPLIED]
    bench.actuator.restore()
    assert bench.limits()[0] == 180


def test_unknown_gpu_fails_its_group(bench: Bench):
    """A group with a GPU that is not there is not applied at all."""
    results = bench.actuator.apply({bench.uuids[0]: Wish(150), "GPU-of-another-node": Wish(150)})
    assert statuses(results.values()) == [Status.ROLLED_BACK, Status.FAILED]
    assert bench.uuids[0] in results["GPU-of-another-node"].detail
    assert bench.limits()[0] == ORIGINAL_W


def test_unknown_gpu_cannot_be_restored(bench: Bench):
    """Asking for a GPU that is not there says so and touches nothing."""
    assert bench.actuator.restore(["nothing"])["nothing"].status is Status.FAILED


@pytest.mark.parametrize(
    "wish", [Wish(float("nan")), Wish(float("inf")), Wish(0), Wish(-5), Wish(150, 0), Wish(None, -1)], ids=str
)
def test_nonsense_is_refused(bench: Bench, wish: Wish):
    """A wish that means nothing is an error before anything is touched."""
    with pytest.raises(ActuationError, match=bench.uuids[1]):
        bench.actuator.apply({bench.uuids[0]: Wish(150), bench.uuids[1]: wish})
    assert bench.limits() == [ORIGINAL_W, ORIGINAL_W]


def test_nothing_asked_nothing_done(bench: Bench):
    """An empty call is no error."""
    assert bench.actuator.apply({}) == {}
    assert bench.actuator.restore([]) == {}


def test_clocks_beside_power(bench: Bench):
    """SM clocks are locked down from the wish, released alone or with everything; a command cannot, and says so."""
    results = bench.apply(200, 200, sm_clock_mhz=1207)
    if bench.kind == "command":
        assert statuses(results) == [Status.NOT_SUPPORTED, Status.ROLLED_BACK]
        assert bench.limits() == [ORIGINAL_W, ORIGINAL_W]
        return
    assert [applied.sm_clock_mhz for applied in results] == [1200, 1200]
    assert [bench.cards.clocks(index) for index in (0, 1)] == [(210, 1200), (210, 1200)]
    assert statuses(bench.apply(200, 200, sm_clock_mhz=1207)) == [Status.UNCHANGED, Status.UNCHANGED]
    assert statuses(bench.apply(200)) == [Status.APPLIED]
    assert (bench.cards.clocks(0), bench.limits()[0]) == (None, 200)
    assert bench.apply(200, sm_clock_mhz=1207)[0].sm_clock_mhz == 1200
    assert bench.cards.clocks(0) == (210, 1200)
    bench.actuator.restore()
    assert bench.cards.clocks(0) is None
    assert (bench.cards.clocks(1), bench.limits()[1]) == (None, ORIGINAL_W)


def test_clocks_alone(bench: Bench):
    """A wish for clocks alone leaves the power limit to others."""
    if bench.kind == "command":
        assert statuses(bench.apply(None, sm_clock_mhz=900)) == [Status.NOT_SUPPORTED]
        return
    bench.apply(None, sm_clock_mhz=900)
    bench.cards.foreign(0, 260)
    assert statuses(bench.apply(None, sm_clock_mhz=600)) == [Status.APPLIED]
    assert (bench.cards.clocks(0), bench.limits()[0]) == ((210, 600), 260)
    bench.apply(150, sm_clock_mhz=600)
    assert bench.limits()[0] == 150
    bench.actuator.restore()
    assert (bench.cards.clocks(0), bench.limits()[0]) == (None, 260)


def test_keepalive_is_harmless(bench: Bench):
    """A renewed lease changes nothing."""
    bench.apply(200)
    bench.actuator.keepalive()
    assert bench.limits()[0] == 200


def test_close_gives_back(bench: Bench):
    """Closing gives everything back before it returns, and can be done twice."""
    bench.apply(200, 150, sm_clock_mhz=None)
    bench.actuator.close()
    assert bench.limits() == [ORIGINAL_W, ORIGINAL_W]
    bench.actuator.close()
