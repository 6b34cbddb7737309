"""One tick after another: what is observed, decided, applied and written down."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from controller_bench import CLEAN, DIRTY, MIDDLE, OWNER, START

from chase.explain import explain
from chase.jobs import JobRefused, Peer
from zeus_core.actuation.base import ActuationError, Status
from zeus_core.gpus.base import Lost, NoPermission

OTHER = Peer(1001, 99)
FULL, FRUGAL = 300.0, 200.0


class TestControl:
    def test_the_grid_moves_the_limit_both_ways(self, bench):
        """Efficiency-first while dirty, speed-first while clean, on the job's GPUs alone."""
        bench.register(0)
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)
        assert bench.limits == [FRUGAL, FULL]
        bench.grid.g_per_kwh = CLEAN
        bench.run(10)
        assert bench.limits == [FULL, FULL]

    def test_all_gpus_of_a_job_move_together(self, bench):
        """A synchronous job's GPUs get the same limit in the same tick."""
        bench.register(0, 1)
        bench.grid.g_per_kwh = DIRTY
        bench.run(5)
        assert bench.limits == [FRUGAL, FRUGAL]

    def test_a_gpu_that_fails_holds_its_whole_job_back(self, bench, monkeypatch):
        """One rank that cannot be slowed: none is, and the decision says which and why."""
        bench.register(0, 1)

        def refuse(power_limit_w: float) -> None:
            raise NoPermission("not allowed", uuid=bench.gpus[1].uuid, call="set")

        monkeypatch.setattr(bench.gpus[1], "set_power_limit_w", refuse)
        bench.grid.g_per_kwh = DIRTY
        bench.run(5)
        assert bench.limits == [FULL, FULL]
        applied = bench.decisions()[-1].applied
        assert applied[bench.gpus[1].uuid]["status"] == Status.NO_PERMISSION
        assert "apply-failed" in bench.codes()

    def test_a_lost_gpu_harms_no_other_job(self, bench, monkeypatch):
        """A card off the bus is that job's trouble alone."""
        bench.register(0, job_id="a" * 16)
        bench.register(1, job_id="b" * 16)

        def lost() -> float:
            raise Lost("off the bus", uuid=bench.gpus[0].uuid, call="power_limit_w")

        monkeypatch.setattr(bench.gpus[0], "power_limit_w", lost)
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)
        assert bench.gpus[1].power_limit_w() == FRUGAL

    def test_the_faster_wish_wins_on_a_shared_gpu(self, bench):
        """Two jobs of one owner on one card: nobody is slowed beyond his own wish."""
        bench.register(0, job_id="a" * 16)
        bench.register(0, job_id="b" * 16, policy={"name": "off"})
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)
        assert bench.limits[0] == FULL

    def test_an_original_below_the_default_is_the_ceiling_and_comes_back(self, make_bench):
        """A card that was found at 275 W is never set above it, and gets exactly that back."""
        bench = make_bench()
        bench.gpus[0].set_power_limit_w(275.0)
        job = bench.register(0)
        bench.run(10)
        assert bench.limits[0] <= 275.0
        assert job.frontier.reference.setting.power_limit_w == 275.0
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)
        assert bench.limits[0] == FRUGAL
        bench.controller.end(job.id, OWNER, "done", 1.0)
        assert bench.limits[0] == 275.0

    def test_a_foreign_change_is_respected_and_said_once(self, bench):
        """Somebody sets another limit over ours: it stays, and one event tells."""
        bench.register(0)
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)
        bench.gpus[0].set_power_limit_w(150.0)
        bench.run(60)
        assert bench.limits[0] == 150.0
        assert bench.codes().count("foreign-change") == 1
        assert bench.decisions()[-1].applied[bench.gpus[0].uuid]["status"] == "foreign"

    def test_dwell_is_counted_from_the_last_change(self, make_bench):
        """A grid that flips each minute changes the limit once in the dwell time."""
        bench = make_bench(policy__dwell_s=600.0)
        bench.register(0)
        changes, last = 0, FULL
        for minute in range(60):
            bench.grid.g_per_kwh = DIRTY if minute % 2 else CLEAN
            bench.run(60, step_s=20)
            changes += bench.limits[0] != last
            last = bench.limits[0]
        assert 1 <= changes <= 6


class TestOwnership:
    def test_strangers_on_the_gpu_bar_the_job(self, bench):
        """While only another user's process runs on a GPU, its limit is not ours to move."""
        bench.register(0)
        bench.gpus[0].vacate(OWNER.pid)
        bench.gpus[0].occupy(77, 1001)
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)
        assert bench.limits[0] == FULL
        assert bench.decisions()[-1].code == "barred"
        bench.gpus[0].occupy(OWNER.pid, OWNER.uid)
        bench.run(10)
        assert bench.limits[0] == FRUGAL

    def test_a_bad_policy_is_refused_at_registration(self, bench):
        """A job's wish with an unknown key says so, with a suggestion, and nothing is registered."""
        with pytest.raises(JobRefused, match="max_slowdown") as caught:
            bench.register(0, policy={"max_slowdwn": 0.1})
        assert caught.value.status == 422
        assert len(bench.controller.jobs) == 0

    def test_a_job_is_held_by_its_owner_and_by_root(self, bench):
        """Nobody else holds it, by its id or at all."""
        bench.register(0)
        with pytest.raises(JobRefused, match="another user"):
            bench.controller.hold("off", OTHER, job_id="a" * 16)
        bench.controller.hold("efficiency-first", OWNER, job_id="a" * 16)
        bench.controller.hold("off", Peer(0, 1), job_id="a" * 16)
        bench.run(10)
        assert bench.decisions()[-1].code == "hold-off"

    def test_a_hold_ends_by_itself(self, bench):
        """An override with an end time is over then, and an event says so."""
        bench.register(0)
        bench.controller.hold("efficiency-first", OWNER, until=START + timedelta(seconds=60))
        bench.run(30)
        assert bench.limits[0] == FRUGAL
        bench.run(60)
        assert bench.limits[0] == FULL
        assert "hold-over" in bench.codes()

    def test_a_hold_survives_a_restart(self, bench, tmp_path):
        """Holds are read back from the database by the next controller."""
        bench.register(0)
        bench.controller.hold("efficiency-first", OWNER)
        assert [hold.mode for hold in bench.store.holds(bench.clock.now())] == ["efficiency-first"]
        bench.controller.unhold(OWNER)
        assert bench.store.holds(bench.clock.now()) == []


class TestLeases:
    def test_a_silent_job_is_withdrawn(self, bench):
        """No report for the lease: the job ends, and its GPU is given back."""
        bench.register(0)
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)
        assert bench.limits[0] == FRUGAL
        bench.run(40, report=False)
        assert bench.limits[0] == FULL
        assert len(bench.controller.jobs) == 0
        assert bench.store.jobs(running=False)[0].end_reason == "lease over"

    def test_one_of_two_jobs_on_a_gpu_ends_and_the_other_stays(self, bench):
        """A GPU is given back with its last job only."""
        bench.register(0, job_id="a" * 16)
        bench.register(0, job_id="b" * 16)
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)
        bench.controller.end("a" * 16, OWNER, "done", 1.0)
        bench.run(10)
        assert bench.limits[0] == FRUGAL


class HeldUp:
    """A lock that takes ``next_s`` to come by, once."""

    def __init__(self, bench):
        self._bench = bench
        self.next_s = 0.0

    def __enter__(self):
        waited_s, self.next_s = self.next_s, 0.0
        self._bench.clock.advance(waited_s)

    def __exit__(self, *_):
        return None


class TestMeasuring:
    def test_the_frontier_is_measured_while_training(self, make_bench):
        """No profile: the sweep goes down from the original, and then the policy rules over what was measured."""
        bench = make_bench(profile__points=5)
        job = bench.register(0, profile=None)
        bench.grid.g_per_kwh = DIRTY
        bench.run(1500)
        assert job.frontier_source == "measured"
        truth = {300.0: 1.0, 250.0: 1.0, 200.0: 1.0}
        for watts in truth:
            point = next(p for p in job.frontier.points if p.setting.power_limit_w == watts)
            assert point.rate == pytest.approx(bench.gpus[0].rate_at(watts), rel=0.02)
        assert bench.limits[0] == FRUGAL
        assert "frontier-measured" in bench.codes()

    def test_a_report_that_a_tick_holds_up_is_of_the_moment_it_came(self, make_bench):
        """The one with which a window begins, say: its work is not that of the wait as well."""
        bench = make_bench(profile__points=3, profile__window_s=40.0)
        job = bench.register(0, profile=None)
        lock, waits = bench.controller._lock, HeldUp(bench)
        bench.controller._lock = waits
        done, read_s, limits = 0.0, bench.clock.monotonic(), [bench.limits] * 2
        for _ in range(400):
            bench.clock.advance(5.0)
            done += bench.gpus[0].rate() * (bench.clock.monotonic() - read_s)
            read_s = bench.clock.monotonic()
            waits.next_s = (
                2.0 if limits[-2] != limits[-1] else 0.0
            )  # the second after a change is the first that counts
            limits.append(bench.limits)
            bench.controller.report(job.id, OWNER, done)
            bench.controller.tick()
        bench.controller._lock = lock
        assert job.frontier_source == "measured"
        for point in job.frontier.points:
            assert point.rate == pytest.approx(bench.gpus[0].rate_at(point.setting.power_limit_w), rel=0.005)

    def test_the_next_run_of_the_same_job_need_not_measure(self, make_bench):
        """Same GPU, original limit, name and unit: the stored frontier is used at once."""
        bench = make_bench(profile__points=5)
        first = bench.register(0, profile=None)
        bench.run(1500)
        bench.controller.end(first.id, OWNER, "done", first.units_done)
        again = bench.register(0, profile=None, job_id="c" * 16)
        bench.run(5)
        assert again.frontier_source == "measured before"

    def test_windows_survive_a_job_that_ends_half_way(self, make_bench):
        """What was measured in one run is not measured again in the next."""
        bench = make_bench(profile__points=5)
        first = bench.register(0, profile=None)
        bench.run(200)
        done, _ = first.profiler.progress
        bench.controller.end(first.id, OWNER, "killed", first.units_done)
        again = bench.register(0, profile=None, job_id="c" * 16)
        bench.run(5)
        assert 0 < done <= again.profiler.progress[0]

    def test_a_stalled_job_measures_nothing(self, make_bench):
        """Time without steps is no window."""
        bench = make_bench(profile__points=5, jobs__lease_s=1e6)
        job = bench.register(0, profile=None, units_done=1.0)
        bench.run(600, report=False)
        assert job.profiler.progress[0] == 0

    def test_two_jobs_on_one_gpu_are_not_measured(self, make_bench):
        """Nobody can tell whose joules they are."""
        bench = make_bench()
        bench.register(0, profile=None, job_id="a" * 16)
        bench.register(0, profile=None, job_id="b" * 16)
        bench.run(60)
        assert bench.limits[0] == FULL
        assert {d.code for d in bench.decisions()} == {"no-frontier"}

    def test_observe_mode_measures_nothing_and_says_so(self, make_bench):
        """Without an actuator there is nothing to measure with."""
        bench = make_bench(actuate=False)
        bench.register(0, profile=None)
        bench.run(30)
        assert "observe mode" in bench.decisions()[-1].reason


class TestRecords:
    def test_observe_decides_the_same_and_touches_nothing(self, make_bench, tmp_path):
        """The decisions of observe mode are those of control mode."""
        control = make_bench()
        control.register(0)
        control.grid.g_per_kwh = DIRTY
        control.run(10)
        wanted = [(d.code, d.power_limit_w) for d in control.decisions()]
        assert wanted[-1] == ("above-threshold", FRUGAL)

    def test_nothing_new_is_recorded_only_as_a_heartbeat(self, bench):
        """An hour of the same: one decision, and one each quarter of an hour after it."""
        bench.register(0)
        bench.run(3000, step_s=10)
        triggers = [d.trigger for d in bench.decisions()]
        assert triggers[0] == "job"
        assert set(triggers[1:]) == {"heartbeat"}
        assert len(triggers) == 4

    @pytest.mark.parametrize(("change", "trigger"), [("grid", "signal"), ("hold", "hold")])
    def test_a_trigger_names_what_changed(self, bench, change, trigger):
        """Why a decision was taken now is part of it."""
        bench.register(0)
        bench.run(10)
        if change == "grid":
            bench.grid.g_per_kwh = MIDDLE
        else:
            bench.controller.hold("efficiency-first", OWNER)
        bench.run(5)
        assert bench.decisions()[-1].trigger == trigger

    def test_each_decision_can_be_taken_again(self, bench):
        """Whatever happened, retaking from the record gives the recorded choice."""
        bench.register(0)
        for value in (CLEAN, DIRTY, MIDDLE, None, CLEAN):
            bench.grid.g_per_kwh = value
            bench.run(600, step_s=30)
        bench.controller.hold("off", OWNER)
        bench.run(10)
        decisions = bench.decisions()
        assert len(decisions) > 4
        for record in decisions:
            explanation = explain(record)
            assert explanation.same, explanation.lines()


class TestAccounts:
    def test_energy_is_counted_once_and_priced_with_pue(self, bench):
        """A job's joules are its GPU's; grams are joules times intensity times PUE."""
        job = bench.register(0)
        bench.grid.g_per_kwh = DIRTY
        bench.run(1800, step_s=10)
        summary, *_ = bench.controller.end(job.id, OWNER, "done", job.units_done)
        drawn = bench.gpus[0].energy_j()
        assert summary.energy_j == pytest.approx(drawn, rel=0.01)
        assert summary.grams == pytest.approx(summary.energy_j / 3.6e6 * DIRTY * 1.2, rel=1e-6)
        assert summary.saved_grams > 0
        stored = bench.store.intervals(job=job.id)
        assert sum(row.energy_j for row in stored) == pytest.approx(summary.energy_j)

    def test_two_jobs_on_one_gpu_share_its_energy(self, bench):
        """The sum over jobs is what the GPU drew."""
        one, two = bench.register(0, job_id="a" * 16), bench.register(0, job_id="b" * 16)
        bench.run(600, step_s=10)
        assert one.energy_j + two.energy_j == pytest.approx(bench.gpus[0].energy_j(), rel=0.02)

    def test_a_hang_is_an_event_and_no_saving(self, make_bench):
        """Full utilisation without steps: said once, and no interval of it books a saving (rule G25)."""
        bench = make_bench(jobs__lease_s=1e6)
        job = bench.register(0)
        bench.run(120)
        bench.run(900, report=False)
        assert bench.codes().count("no-progress") == 1
        hung = [row for row in bench.store.intervals(job=job.id) if row.start > START + timedelta(seconds=200)]
        assert hung
        assert not any(row.progress or row.reference_energy_j for row in hung)


class TestActuatorTrouble:
    def test_an_actuator_that_is_gone_means_observe_until_it_is_back(self, bench, monkeypatch):
        """Control goes on deciding, status says why nothing is set, and it recovers by itself."""
        bench.register(0)
        bench.run(10)

        def gone(*_: object) -> None:
            raise ActuationError("no actuator answers")

        with monkeypatch.context() as patch:
            patch.setattr(bench.actuator, "describe", gone)
            patch.setattr(bench.actuator, "apply", gone)
            bench.grid.g_per_kwh = DIRTY
            bench.run(30)
            assert bench.controller.control[0] == "observe"
            assert "no actuator answers; start `chase actuator" in bench.controller.control[1]
            assert bench.codes().count("actuator-failed") == 1
        bench.run(10)
        assert bench.controller.control == ("control", "")
        assert bench.limits[0] == FRUGAL
        assert "actuator-back" in bench.codes()

    def test_closing_gives_everything_back(self, bench):
        """Whatever is in force at the end, the originals are there afterwards."""
        bench.register(0, 1)
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)
        bench.controller.close()
        assert bench.limits == [FULL, FULL]


class TestSilentGrid:
    def test_a_silent_grid_ends_at_the_owners_default(self, bench):
        """Fresh, stale, forecast, then nothing: full speed, with a reason for each."""
        bench.register(0)
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)
        bench.grid.g_per_kwh = None
        bench.run(80 * 3600, step_s=1800)
        codes = [d.code for d in bench.decisions()]
        assert codes[-1] == "no-signal"
        assert bench.limits[0] == FULL
        kinds = [d.intensity_kind for d in bench.decisions()]
        assert "forecast" in kinds
        assert kinds[-1] == "none"


class TestRestart:
    def test_a_job_that_never_comes_back_is_closed(self, make_bench):
        """What an earlier run left running ends after two leases, so that its rows may one day be dropped."""
        bench = make_bench()
        bench.store.upsert_job(bench.register(0).record())
        bench.close()
        again = make_bench()
        assert [record.id for record in again.store.jobs(running=True)] == ["a" * 16]
        again.run(90)
        assert again.store.jobs(running=True) == []
        assert again.store.jobs()[0].end_reason == "not seen since the service restarted"

    def test_a_job_that_comes_back_goes_on(self, make_bench):
        """The same id, the account of both runs together, and the first registration's time."""
        bench = make_bench()
        job = bench.register(0)
        bench.run(600, step_s=10)
        energy_j, registered = job.energy_j, bench.store.jobs()[0].registered_at
        bench.close()
        again = make_bench()
        again.clock.advance(700)
        job = again.register(0, units_done=job.units_done)
        again.run(600, step_s=10)
        summary, *_ = again.controller.end(job.id, OWNER, "done", job.units_done)
        assert again.store.jobs()[0].registered_at == registered
        assert summary.energy_j == pytest.approx(energy_j + job.energy_j, rel=0.02)

    def test_a_late_revision_is_in_the_account(self, bench):
        """Energy is priced at what is known at the end: a value revised after the fact is the newest vintage."""
        job = bench.register(0)
        bench.grid.g_per_kwh = 300.0
        bench.run(600, step_s=10)
        bench.grid.g_per_kwh = 240.0
        bench.run(5)
        summary, *_ = bench.controller.end(job.id, OWNER, "done", job.units_done)
        assert summary.grams == pytest.approx(summary.energy_j / 3.6e6 * 240.0 * 1.2, rel=1e-6)
        stored = bench.store.intervals(job=job.id)
        assert {row.intensity_g_per_kwh for row in stored} == {240.0}


class TestSweeps:
    def measured(self, bench, job_id: str = "a" * 16, seconds: float = 1500.0):
        job = bench.register(0, profile=None, job_id=job_id)
        bench.run(seconds)
        return job

    def test_an_old_frontier_is_measured_again_from_the_beginning(self, make_bench):
        """After max_age_d neither the frontier nor its windows are used, and the sweep is finished anew."""
        bench = make_bench(profile__points=5, profile__max_age_d=1.0)
        first = self.measured(bench)
        bench.controller.end(first.id, OWNER, "done", first.units_done)
        bench.clock.advance(2 * 86400)
        again = bench.register(0, profile=None, job_id="b" * 16)
        bench.run(5)
        assert again.profiler.progress[0] == 0
        bench.run(1500)
        assert again.frontier_source == "measured"

    def test_a_sweep_that_was_complete_before_a_crash_is_adopted(self, make_bench):
        """All windows stored, the frontier not: the next run makes it of them and does not wait for ever."""
        bench = make_bench(profile__points=5)
        first = self.measured(bench)
        windows = first.frontier.windows
        bench.controller.end(first.id, OWNER, "done", first.units_done)
        key = first.frontier_key.replace("train", "other")
        bench.store.add_windows(key, windows, job_id=first.id, at=bench.clock.now())
        wanted = bench.register(0, profile=None, job_id="b" * 16, name="other")
        bench.run(5)
        assert wanted.frontier_source == "measured"

    def test_a_drift_is_measured_anew(self, make_bench, monkeypatch):
        """A job that runs a tenth off its frontier for ten minutes is swept again, without the old windows."""
        bench = make_bench(profile__points=5)
        job = self.measured(bench)
        before = job.frontier
        rate = bench.gpus[0].rate
        monkeypatch.setattr(bench.gpus[0], "rate", lambda: rate() * 0.9)
        bench.run(1000)
        assert "drift" in bench.codes()
        bench.run(1500)
        assert job.frontier_source == "measured"
        assert job.frontier.reference.rate == pytest.approx(before.reference.rate * 0.9, rel=0.03)

    def test_a_limit_that_is_bound_by_another_is_left_out(self, make_bench, monkeypatch):
        """Somebody's lower cap keeps high limits from being in force: the sweep goes on without them and says why."""
        bench = make_bench(profile__points=5)
        monkeypatch.setattr(bench.gpus[0], "enforced_power_limit_w", lambda: min(bench.gpus[0].power_limit_w(), 180.0))
        job = bench.register(0, profile=None)
        bench.run(600)
        assert job.frontier is None
        assert "cannot be measured" in bench.decisions()[-1].reason
        assert bench.limits[0] == FULL

    def test_a_range_that_shrinks_in_mid_sweep_ends_it(self, make_bench, monkeypatch):
        """The host raises the minimum while we measure: what can still be set is measured, the rest left out (G7)."""
        bench = make_bench(profile__points=5)
        job = bench.register(0, profile=None)
        bench.run(60)
        narrow = replace(bench.gpus[0].power_limits(), min_w=200.0)
        monkeypatch.setattr(bench.gpus[0], "power_limits", lambda: narrow)
        bench.run(1500)
        assert job.frontier_source == "measured"
        assert min(point.setting.power_limit_w for point in job.frontier.points) == 200.0

    @pytest.mark.parametrize("profile", ["a41-resnet50", "/etc/passwd", "../chase", ""])
    def test_a_profile_is_one_of_the_names_there_are(self, bench, profile):
        """An unknown name lists those known; a path is never opened for a caller."""
        with pytest.raises(JobRefused, match="a40-resnet50") as caught:
            bench.register(0, profile=profile)
        assert caught.value.code == "unknown-profile"


class TestFoundInReview:
    def test_a_job_that_ends_right_after_its_first_tick_gives_its_gpu_back(self, bench):
        """The limit was set after the last look at the GPU; the end must not wait for the next one."""
        job = bench.register(0)
        bench.grid.g_per_kwh = DIRTY
        bench.signal.poll()
        bench.clock.advance(5)
        bench.controller.tick()
        assert bench.limits[0] == FRUGAL
        bench.controller.end(job.id, OWNER, "done", 1.0)
        assert bench.limits[0] == FULL

    def test_nothing_is_set_after_the_end(self, bench):
        """A tick that was already on its way when the service closed does nothing."""
        bench.register(0)
        bench.grid.g_per_kwh = DIRTY
        bench.signal.poll()
        bench.controller.close()
        bench.clock.advance(5)
        assert bench.controller.tick() is False
        assert bench.limits == [FULL, FULL]

    def test_a_limit_that_cannot_be_read_bars_its_job_alone(self, bench, monkeypatch):
        """A hung card gives no limit and so no MaxPower: its job is left alone, the others go on."""
        bench.register(0, job_id="a" * 16, policy={"name": "chase", "eta": 0.0})
        bench.register(1, job_id="b" * 16, policy={"name": "static"})
        bench.run(10)

        def hangs() -> float:
            raise Lost("hangs", uuid=bench.gpus[0].uuid, call="power_limit_w")

        monkeypatch.setattr(bench.gpus[0], "power_limit_w", hangs)
        bench.run(10)
        last = {d.job_id: d for d in bench.decisions()}
        assert last["a" * 16].code == "barred"
        assert "cannot be read" in last["a" * 16].reason
        assert bench.gpus[1].power_limit_w() == FRUGAL

    def test_a_hold_ends_with_its_job(self, bench):
        """What was held for a job is not in force for whatever comes later."""
        job = bench.register(0)
        bench.controller.hold("off", OWNER, job_id=job.id)
        bench.controller.end(job.id, OWNER, "done", 1.0)
        assert bench.controller.holds == ()
        assert bench.store.holds(bench.clock.now()) == []

    def test_a_new_configuration_that_does_not_fit_a_job_leaves_it_its_own(self, bench):
        """A job's own threshold and a new one of the node that cross: the job keeps what it has, and it is said."""
        job = bench.register(0, policy={"efficiency_above": 250.0})
        before = job.policy_config
        policy = bench.loaded.config.policy.model_copy(update={"speed_below": 400.0})
        config = bench.loaded.config.model_copy(update={"policy": policy})
        config._policy_below, config._policy_above = {"speed_below": 400.0}, {}
        bench.controller.reconfigure(config, bench.loaded.region)
        assert job.policy_config is before
        assert "policy-kept" in bench.codes()

    def test_names_cannot_move_a_cursor(self):
        """Escape sequences in a name would run on the terminal of whoever lists the jobs."""
        from chase.api import NewJob

        assert NewJob(id="a" * 16, name="x\x1b[2Jy\n", gpus=["g"]).name == "x [2Jy "
