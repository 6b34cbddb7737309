from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from standin import State

from zeus_core.gpus.base import Gpu, NotSupported, PowerLimits, Process, Refused, Unavailable
from zeus_core.gpus.nvml import NvmlGpu, NvmlSystem

property_settings = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_cards_are_named_by_uuid_in_bus_order(system: NvmlSystem, standin_state: State):
    """Each GPU carries its UUID, its index, its model and its bus id, in index order."""
    gpus = system.gpus()
    assert [gpu.uuid for gpu in gpus] == list(standin_state.uuids)
    assert [(gpu.index, gpu.name) for gpu in gpus] == [(0, "NVIDIA A40"), (1, "NVIDIA A40")]
    assert [gpu.pci_bus_id for gpu in gpus] == ["00000000:17:00.0", "00000000:37:00.0"]
    assert system.kind == "nvml"
    assert system.driver_version() == "580.0.standin"


def test_the_same_gpu_is_the_same_object(system: NvmlSystem):
    """Asking again gives the same objects, so that counts and probes are kept."""
    assert all(left is right for left, right in zip(system.gpus(), system.gpus(), strict=True))


def test_a_gpu_satisfies_the_protocol(gpu: NvmlGpu):
    """What the rest of the house calls is all there."""
    held: Gpu = gpu
    assert held.uuid in repr(gpu)


def test_limits_are_in_watts(gpu: NvmlGpu, standin_state: State):
    """Limits, the limit requested and the one in force are watts, as the card has them."""
    assert gpu.power_limits() == PowerLimits(100, 300, 300)
    assert gpu.power_limit_w() == 275
    assert gpu.enforced_power_limit_w() == 275
    standin_state[0].oob_cap_w = 210
    assert (gpu.power_limit_w(), gpu.enforced_power_limit_w()) == (275, 210)


def test_limits_are_never_cached(gpu: NvmlGpu, standin_state: State):
    """A host that narrows the limits at run time is seen at the next reading (rule G7)."""
    gpu.power_limits()
    standin_state[0].min_w, standin_state[0].max_w = 273, 290
    assert gpu.power_limits() == PowerLimits(273, 290, 300)
    assert gpu.power_limits().headroom == pytest.approx(0.09)


def test_setting_a_limit_touches_that_gpu_only(system: NvmlSystem, standin_state: State):
    """A limit goes to the card named, in milliwatts, once."""
    system.gpus()[1].set_power_limit_w(187.5)
    assert [card.limit_w for card in standin_state] == [275, 187.5]
    assert [(write.gpu, write.value) for write in standin_state.writes()] == [(1, 187_500)]


@property_settings
@given(watts=st.floats(100, 300))
def test_watts_survive_the_way_there_and_back(gpu: NvmlGpu, standin_state: State, watts: float):
    """Any permitted limit is read back within half a milliwatt, and the card holds a thousand times as many mW."""
    gpu.set_power_limit_w(watts)
    assert gpu.power_limit_w() == pytest.approx(watts, abs=0.0005)
    assert standin_state[0].raw.limit_mw == pytest.approx(watts * 1000, abs=0.5)


@property_settings
@given(millijoules=st.integers(0, 2**46))
def test_joules_are_a_thousandth_of_the_counter(gpu: NvmlGpu, standin_state: State, millijoules: int):
    """The counter is in millijoules and the reading in joules, at any size (rule G8)."""
    fault = standin_state.answer("nvmlDeviceGetTotalEnergyConsumption", millijoules)
    try:
        assert gpu.energy_j() == millijoules / 1000
    finally:
        fault.clear()


def test_the_counter_follows_the_draw(gpu: NvmlGpu, standin_state: State):
    """Under a load above the limit the card draws the limit, and the counter grows at that rate."""
    standin_state[0].demand_w = 290
    assert gpu.power_w() == 275
    gpu.set_power_limit_w(150)
    assert gpu.power_w() == 150
    standin_state[0].energy_j = 5
    assert 5 <= gpu.energy_j() < 5 + 150 * 5


@pytest.mark.parametrize("watts", [0, -1, float("nan"), float("inf"), 5001])
def test_a_senseless_limit_never_reaches_the_driver(gpu: NvmlGpu, standin_state: State, watts: float):
    """A limit that is not a positive, plausible number of watts is refused here."""
    with pytest.raises(Refused, match="no power limit"):
        gpu.set_power_limit_w(watts)
    assert standin_state.writes() == []


def test_a_limit_out_of_range_is_refused_by_the_driver(gpu: NvmlGpu, standin_state: State):
    """The driver's own range decides, and the limit in force stays."""
    with pytest.raises(Refused, match=r"nvmlDeviceSetPowerManagementLimit.*range"):
        gpu.set_power_limit_w(301)
    assert standin_state[0].limit_w == 275


def test_clocks(gpu: NvmlGpu, standin_state: State):
    """Supported clocks ascend; a lock bounds the clock, and a reset frees it."""
    standin_state[0].demand_w = 200
    clocks = gpu.supported_sm_clocks_mhz()
    assert (clocks[0], clocks[-1], len(clocks)) == (210, 1740, 103)
    assert list(clocks) == sorted(clocks)
    assert gpu.sm_clock_mhz() == 1740
    gpu.lock_sm_clocks_mhz(210, 1005)
    assert standin_state[0].locked_sm_mhz == (210, 1005)
    assert gpu.sm_clock_mhz() == 1005
    gpu.reset_sm_clocks()
    assert standin_state[0].locked_sm_mhz is None


@pytest.mark.parametrize(("low", "high"), [(0, 1000), (1000, 900), (-1, 5), (210, 20_000)])
def test_a_senseless_clock_range_never_reaches_the_driver(gpu: NvmlGpu, standin_state: State, low: int, high: int):
    """A range of clocks that is none is refused here."""
    with pytest.raises(Refused, match="no range"):
        gpu.lock_sm_clocks_mhz(low, high)
    assert standin_state.writes() == []


def test_load_and_throttle_reasons(gpu: NvmlGpu, standin_state: State):
    """Utilisation is a fraction, and reasons have names, unknown ones a number."""
    assert gpu.utilisation() == 0
    assert gpu.throttle_reasons() == {"gpu_idle"}
    standin_state[0].demand_w = 290
    standin_state[0].raw.extra_reasons = 0x40 | 0x80 | 1 << 20
    assert gpu.utilisation() == 1
    assert gpu.throttle_reasons() == {"sw_power_cap", "hw_thermal_slowdown", "hw_power_brake_slowdown", "reason_20"}


def test_an_older_driver_has_the_older_name_of_the_reasons(gpu: NvmlGpu, standin_state: State):
    """Where the newer function is missing, the reasons come from the older one."""
    standin_state.fail("nvmlDeviceGetCurrentClocksEventReasons", 13)
    assert gpu.throttle_reasons() == {"gpu_idle"}


def test_processes_with_their_owner(gpu: NvmlGpu, standin_state: State):
    """Compute and graphics contexts are listed once each; a pid that the kernel does not know has no uid."""
    standin_state[0].occupy(os.getpid())
    standin_state[0].occupy(os.getpid(), graphics=True)
    standin_state[0].occupy(2**22 + 1, graphics=True)
    assert gpu.processes() == (Process(os.getpid(), os.getuid()), Process(2**22 + 1, None))
    standin_state[0].vacate(os.getpid())
    assert [process.pid for process in gpu.processes()] == [2**22 + 1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another uid")
def test_the_owner_of_a_process_is_its_real_uid(gpu: NvmlGpu, standin_state: State):
    """The uid of a process of somebody else is theirs."""
    with subprocess.Popen(["/bin/sleep", "60"], user=65534, group=65534) as sleeper:
        standin_state[0].occupy(sleeper.pid)
        assert gpu.processes() == (Process(sleeper.pid, 65534),)
        sleeper.kill()


def test_graphics_contexts_are_optional(gpu: NvmlGpu, standin_state: State):
    """A card without graphics still lists its compute contexts."""
    standin_state[0].occupy(os.getpid())
    standin_state.fail("nvmlDeviceGetGraphicsRunningProcesses_v3", 3)
    assert [process.pid for process in gpu.processes()] == [os.getpid()]


def test_persistence_and_mig(gpu: NvmlGpu, standin_state: State):
    """Persistence is read; a card that knows no MIG has it off."""
    assert gpu.persistence()
    standin_state[0].raw.persistence = 0
    assert not gpu.persistence()
    assert not gpu.mig_enabled()
    assert gpu.mig_uuids() == ()


def test_slices_have_uuids_and_no_utilisation(gpu: NvmlGpu, standin_state: State):
    """A sliced card names its slices; its power is still the whole card's, and it has no utilisation (rule G21)."""
    standin_state[0].slice_into("MIG-1", "MIG-2")
    assert gpu.mig_enabled()
    assert gpu.mig_uuids() == ("MIG-1", "MIG-2")
    assert gpu.power_w() == 30
    with pytest.raises(NotSupported):
        gpu.utilisation()


def test_the_narrowest_power_reading_is_preferred(gpu: NvmlGpu, standin_state: State):
    """What the GPU alone draws now comes before averages, and those before the module (rules G10, G12)."""
    card = standin_state[0].raw
    card.has_module, card.module_mw = 1, 290_000
    standin_state.answer("field:186:0", 111_000)
    standin_state.answer("field:185:0", 112_000)
    standin_state.answer("nvmlDeviceGetPowerUsage", 113_000)
    assert (gpu.power_w(), gpu.power_source) == (111, "instant")
    card.has_instant = 0
    assert (gpu.power_w(), gpu.power_source) == (112, "average")
    card.has_average = 0
    assert (gpu.power_w(), gpu.power_source) == (113, "usage")


@pytest.mark.parametrize("code", [2, 3, 13, 25])
def test_drivers_say_in_several_ways_that_a_field_is_unknown(gpu: NvmlGpu, standin_state: State, code: int):
    """An unknown field is an absent one, whatever the driver's age calls it."""
    standin_state.fail("field:186:0", code)
    standin_state.fail("field:185:0", code)
    assert (gpu.power_w(), gpu.power_source) == (30, "usage")


def test_an_old_driver_has_no_fields_at_all(gpu: NvmlGpu, standin_state: State):
    """Without the field function the plain reading serves."""
    standin_state.fail("nvmlDeviceGetFieldValues", 13)
    assert (gpu.power_w(), gpu.power_source) == (30, "usage")


def test_the_module_is_read_only_where_nothing_narrower_is(gpu: NvmlGpu, standin_state: State):
    """On a superchip that gives only its module's power, that is read, and labelled so (rule G10)."""
    standin_state[0].raw.has_module, standin_state[0].raw.module_mw = 1, 290_000
    for name in ("field:186:0", "field:185:0", "nvmlDeviceGetPowerUsage"):
        standin_state.fail(name, 3)
    assert (gpu.power_w(), gpu.power_source) == (290, "module instant")


def test_no_power_reading_at_all(gpu: NvmlGpu, standin_state: State):
    """A card with no reading of any kind says so."""
    standin_state.fail("nvmlDeviceGetFieldValues", 3)
    standin_state.fail("nvmlDeviceGetPowerUsage", 3)
    with pytest.raises(NotSupported, match="no reading of the power draw"):
        gpu.power_w()


def test_the_counter_is_probed_not_assumed(gpu: NvmlGpu, standin_state: State):
    """A card without a counter says so, whatever its architecture (rule G11)."""
    standin_state[0].raw.has_energy = 0
    with pytest.raises(NotSupported) as caught:
        gpu.energy_j()
    assert (caught.value.uuid, caught.value.call) == (gpu.uuid, "nvmlDeviceGetTotalEnergyConsumption")


def test_reading_changes_nothing(gpu: NvmlGpu, standin_state: State):
    """All readings together make not one attempt to change the card."""
    gpu.power_limits(), gpu.power_limit_w(), gpu.enforced_power_limit_w(), gpu.power_w(), gpu.energy_j()
    gpu.sm_clock_mhz(), gpu.supported_sm_clocks_mhz(), gpu.utilisation(), gpu.throttle_reasons(), gpu.processes()
    gpu.persistence(), gpu.mig_enabled(), gpu.mig_uuids()
    assert standin_state.writes() == []


def test_a_node_without_gpus_is_empty(standin_state: State, system: NvmlSystem):
    """A driver with no card is no error."""
    standin_state.raw.gpu_count = 0
    assert system.gpus() == ()


def test_closed_is_closed(system: NvmlSystem, gpu: NvmlGpu, standin_state: State):
    """After close the driver is let go of, and nothing opens it again behind the owner's back (rule G19)."""
    system.close()
    system.close()
    with pytest.raises(Unavailable, match="closed"):
        gpu.power_w()
    with pytest.raises(Unavailable, match="closed"):
        system.gpus()
    assert standin_state.calls("nvmlShutdown") == 1


def test_importing_the_core_loads_no_driver():
    """``import zeus_core`` and its NVML module load neither pynvml nor numpy."""
    code = (
        "import sys, zeus_core, zeus_core.gpus.nvml, zeus_core.meter;"
        "print([name for name in ('pynvml', 'numpy', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
