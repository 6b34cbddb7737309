"""The settings of the service: every section, key, unit and default. ``config/chase.toml`` says the same in TOML.

Whatever concerns one key alone is checked here; what concerns several together is in ``checks``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from chase.config.fields import AbsolutePath, Address, Days, Seconds, Section, Setter, Share, Slowdown, Threshold, Watts
from chase.config.shipped import home_dir

Text = Annotated[str, Field(min_length=1)]


def default_state_dir(env: Mapping[str, str]) -> Path:
    """Where a daemon of this user keeps its database: the system's place for root, else XDG's."""
    if os.geteuid() == 0:
        return Path("/var/lib/chase")
    return Path(env.get("XDG_STATE_HOME") or home_dir(env) / ".local/state") / "chase"


def default_run_dir(env: Mapping[str, str], state_dir: Path) -> Path:
    if os.geteuid() == 0:
        return Path("/run/chase")
    runtime = env.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "chase" if runtime else state_dir / "run"


def _utc(value: datetime) -> datetime:
    if value.tzinfo is None or value.utcoffset():
        raise ValueError("must be a UTC time that ends in Z, such as 2023-06-01T00:00:00Z")
    return value


def _from_text(value: object) -> object:
    """A job's wishes are JSON, which has no times."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("must be a UTC time such as 2023-06-01T00:00:00Z") from None


class ServiceConfig(Section):
    mode: Literal["control", "observe"] = Field(
        default="control", description="control sets GPUs; observe decides and logs, and touches nothing"
    )
    region: Text = Field(
        default="gb", description="Region id (see `chase regions`) or the path of a region file, relative to this file"
    )
    state_dir: AbsolutePath = Field(
        default_factory=lambda: default_state_dir(os.environ),
        examples=["/var/lib/chase"],
        description="Folder of the database; /var/lib/chase as root, else $XDG_STATE_HOME/chase, else "
        "~/.local/state/chase",
    )
    run_dir: AbsolutePath = Field(
        default_factory=lambda data: default_run_dir(os.environ, data.get("state_dir", Path("/"))),
        examples=["/run/chase"],
        description="Folder of the socket and the lock; /run/chase as root, else $XDG_RUNTIME_DIR/chase, else "
        "state_dir/run",
    )
    db: AbsolutePath | None = Field(
        default=None,
        examples=["/var/lib/chase/chase.sqlite"],
        description="The database, on a disk of this machine; state_dir/chase.sqlite if not given",
    )
    socket: AbsolutePath | None = Field(
        default=None,
        examples=["/run/chase/chase.sock"],
        description="The socket that jobs connect to; run_dir/chase.sock if not given",
    )
    socket_group: Text | None = Field(
        default=None,
        examples=["gpu-users"],
        description="Group whose members may connect to the socket; the service's own if not given",
    )

    @property
    def db_path(self) -> Path:
        return self.db or self.state_dir / "chase.sqlite"

    @property
    def socket_path(self) -> Path:
        return self.socket or self.run_dir / "chase.sock"


class ControlConfig(Section):
    interval_s: Seconds = Field(default=10.0, description="Seconds between two control ticks")
    heartbeat_s: Seconds = Field(
        default=900.0, description="Seconds after which a decision is logged even if nothing changed"
    )
    account_s: Seconds = Field(default=60.0, description="Seconds of energy that one interval of the accounts covers")
    actuator: Literal["auto", "local", "remote", "command", "none"] = Field(
        default="auto",
        description="Who sets the GPUs: local (this process, as root), remote (`chase actuator` over its socket), "
        "command (setter_command), none; auto is command where one is given, else local as root, else remote where "
        "the socket is, else none",
    )
    actuator_socket: AbsolutePath = Field(
        default=Path("/run/chase-actuator/actuator.sock"), description="Socket of `chase actuator`"
    )
    actuator_state_dir: AbsolutePath = Field(
        default=Path("/var/lib/chase-actuator"),
        description="Folder of the journal that holds the GPUs' original settings; must survive a crash",
    )
    setter_command: Setter = Field(
        default=(),
        description="The site's own command and its arguments, with the placeholders {uuid} {index} {power_limit_w} "
        "{power_limit_mw}",
    )
    ramp_w_per_s: Annotated[float, Field(ge=0, le=10000)] = Field(
        default=250.0, description="Steepest rise of a power limit, watts per second; 0 is no ramp"
    )
    max_node_power_w: Annotated[float, Field(gt=0, le=1_000_000)] | None = Field(
        default=None,
        examples=[2000],
        description="Most that all jobs of the node may draw together, watts, host_power_w included; it beats budgets, "
        "floors and holds other than off; no cap if not given",
    )
    gpus: Literal["nvml", "simulated"] = Field(default="nvml", description="Real GPUs, or those of [simulated]")


class SimulatedConfig(Section):
    profile: Text = Field(
        default="a40-resnet50", description="Published power and speed curve, by name or by the path of a profile file"
    )
    count: Annotated[int, Field(ge=1, le=64)] = Field(default=2, description="How many GPUs")
    seed: Annotated[int, Field(ge=0)] = Field(default=0, description="Seed of the noise")
    noise: Annotated[float, Field(ge=0, le=0.5)] = Field(
        default=0.01, description="Relative standard deviation of power and speed, as a fraction"
    )
    start: Annotated[datetime, AfterValidator(_utc)] | None = Field(
        default=None,
        examples=[datetime(2023, 6, 1, tzinfo=UTC)],
        description="Simulated wall time at the start, UTC; the real time if not given",
    )
    rate: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        default=1.0, description="How many simulated seconds pass in a real one; other than 1 with simulated GPUs only"
    )


class SignalConfig(Section):
    fresh_s: Seconds = Field(default=5400.0, description="Age in seconds up to which an intensity is fresh")
    usable_s: Seconds = Field(
        default=21600.0, description="Age in seconds up to which an intensity is stale but usable; then the fallbacks"
    )
    history_h: Annotated[int, Field(ge=1, le=8784)] = Field(
        default=672, description="Hours of the past that are kept in memory and that the forecast learns from"
    )
    percentile_h: Annotated[int, Field(ge=1, le=8784)] = Field(
        default=168, description="Hours of the past that percentiles are taken over"
    )
    outlier_factor: Annotated[float, Field(ge=1, le=100)] = Field(
        default=2.0,
        description="An observed value that is further than this factor from its source's last week, from the "
        "intervals beside it and from what is typical is held back until it is confirmed; 1 holds nothing back",
    )
    timeout_connect_s: Annotated[float, Field(gt=0, le=300)] = Field(
        default=3.0, description="Seconds to wait for a source's connection"
    )
    timeout_read_s: Annotated[float, Field(gt=0, le=300)] = Field(
        default=15.0, description="Seconds to wait for a source's next bytes"
    )


class PolicyConfig(Section):
    name: Literal["budget", "threshold", "chase", "static", "off"] = Field(
        default="budget",
        description="budget: the least carbon within max_slowdown or the deadline, planned ahead; threshold: two modes "
        "by intensity; chase: the paper's rule; static: one selector, no signal; off",
    )
    deadline: Annotated[datetime, BeforeValidator(_from_text), AfterValidator(_utc)] | None = Field(
        default=None,
        examples=[datetime(2027, 1, 31, 6, tzinfo=UTC)],
        description="budget: when the job must be done, UTC; needs a job that knows its total_units",
    )
    minimise: Literal["carbon", "money", "both"] = Field(
        default="carbon",
        description="budget: what the plan makes least; both is money and carbon_price_per_kg for the carbon",
    )
    carbon_price_per_kg: Annotated[float, Field(ge=0, le=1000)] = Field(
        default=0.1, description="budget with both: what a kilogram of CO2eq costs, in the currency of the prices"
    )
    efficiency_above: Threshold = Field(
        default="p60",
        description="threshold: efficiency-first above this, in gCO2eq/kWh or as a percentile of the last "
        "signal.percentile_h hours, such as 'p60'",
    )
    speed_below: Threshold = Field(
        default="p40", description="threshold: speed-first below this, in gCO2eq/kWh or as a percentile"
    )
    dwell_s: Annotated[float, Field(ge=0, le=604800)] = Field(
        default=600.0, description="Shortest time between two changes of mode, seconds"
    )
    eta: Share = Field(default=0.5, description="chase: weight of energy against time, 0 (time) to 1 (energy)")
    max_intensity_g_per_kwh: Annotated[float, Field(gt=0, le=5000)] | None = Field(
        default=None,
        examples=[300],
        description="chase: reference intensity, gCO2eq/kWh; the maximum of the 24 h before the job if not given",
    )
    selector: Literal["energy", "time", "zeus-cost", "max-slowdown"] = Field(
        default="energy", description="static: what the one setting is chosen by"
    )
    slowdown: Slowdown = Field(
        default=0.1, description="static with max-slowdown: how much longer a unit of work may take, as a fraction"
    )
    max_slowdown: Slowdown | None = Field(
        default=None,
        examples=[0.25],
        description="budget: how much longer the whole job may take than at full power, as a fraction; 0.05 if neither "
        "this nor a deadline is given. "
        "The other policies: never choose a setting slower than this; no cap if not given",
    )
    without_signal: Literal["speed-first", "efficiency-first"] = Field(
        default="speed-first", description="What to do while no usable intensity is known"
    )
    min_power_limit_w: Watts | None = Field(
        default=None,
        examples=[150],
        description="Every policy: never choose or measure a lower power limit of a GPU than this, watts",
    )
    max_power_limit_w: Watts | None = Field(
        default=None,
        examples=[250],
        description="Every policy: never choose or measure a higher power limit of a GPU than this, watts; full power "
        "then is this",
    )
    host_power_w: Annotated[float, Field(ge=0, le=100_000)] = Field(
        default=0.0,
        description="Watts of the host (CPUs, memory, fans) that count to a job beside its GPUs, in its accounts and "
        "where settings are weighed; not measured, so where jobs share a node give each its part",
    )


class JobsConfig(Section):
    lease_s: Seconds = Field(
        default=30.0, description="Seconds without a report after which a job's setting is withdrawn"
    )
    report_s: Seconds = Field(default=5.0, description="Seconds between two reports of a job")
    clock_proxy_s: Seconds = Field(
        default=120.0,
        description="Seconds after which a job that counts nothing is counted by the SM clock of its GPUs, a rough "
        "stand-in for its speed",
    )


class ProfileConfig(Section):
    window_s: Annotated[float, Field(ge=1, le=86400)] = Field(
        default=30.0, description="Shortest window of training that measures one setting, seconds"
    )
    points: Annotated[int, Field(ge=2, le=100)] = Field(default=10, description="Power limits measured over the range")
    visits: Annotated[int, Field(ge=1, le=20)] = Field(default=2, description="Windows for each power limit, at least")
    min_headroom: Share = Field(
        default=0.1, description="Share of the default limit that must be adjustable, else the job is not profiled"
    )
    max_age_d: Annotated[float, Field(gt=0, le=36500)] = Field(
        default=90.0, description="Days after which a stored frontier is measured again"
    )
    drift: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.05, description="Relative change of the rate at a known setting that calls for measuring again"
    )
    drift_s: Seconds = Field(default=600.0, description="Seconds that the change must last")


class RecurrencesConfig(Section):
    speed_first_eta: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.25,
        description="Weight of energy against time by which a recurrence that begins in clean hours chooses its batch "
        "size; 0 is time alone",
    )
    efficiency_first_eta: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.75, description="The same in dirty hours; 1 is energy alone"
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(
        default=1, description="Of the draws by which batch sizes are tried"
    )


class EmbodiedConfig(Section):
    kg_co2e: Annotated[float, Field(gt=0, le=1_000_000)] | None = Field(
        default=None,
        examples=[1400],
        description="What making the node (or one GPU with all that it needs) emitted, kgCO2eq; no part of it is "
        "counted if not given",
    )
    lifetime_years: Annotated[float, Field(gt=0, le=50)] = Field(
        default=4.0, description="Years that it is expected to work; each hour of a job takes its part"
    )
    share_per_gpu: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0,
        description="Part of kg_co2e that counts for each GPU of a job, as a fraction: 0.125 where it is that of a "
        "node of eight",
    )


class StoreConfig(Section):
    keep_days: Days = Field(default=400, description="Days that decisions, intervals and events are kept")
    keep_signal_days: Days = Field(default=400, description="Days that intensities, forecasts and prices are kept")
    keep_vintages_days: Days = Field(
        default=30,
        description="Days that every revision is kept, and every value of less than an hour; then the newest, by the "
        "hour, unless an open job still needs them",
    )
    keep_forecasts_days: Days = Field(
        default=30, description="Days that all forecasts are kept; then of each hour the last one made before it"
    )


class ShareConfig(Section):
    listen: Address | None = Field(
        default=None,
        examples=["10.0.0.5:8420"],
        description="HOST:PORT where other nodes may read this node's signal, for their provider 'chase'; nowhere if "
        "not given",
    )
    token_env: Text | None = Field(
        default=None,
        examples=["CHASE_SHARE_TOKEN"],
        description="Environment variable that holds the token they must send; needed unless listen is of this machine "
        "alone",
    )


with warnings.catch_warnings():
    # The key is called what people call it; pydantic's deprecated method of that name is not missed.
    warnings.filterwarnings("ignore", message='Field name "json"')

    class LogConfig(Section):
        level: Literal["debug", "info", "warning", "error"] = Field(
            default="info", description="Least severity that is written"
        )
        json: bool = Field(  # type: ignore[assignment]
            default=False, description="One JSON object a line instead of text for people"
        )


class Config(Section):
    """All sections. Each has a default for each key, so ``Config()`` is the service as shipped."""

    service: ServiceConfig = Field(default_factory=ServiceConfig, description="The daemon itself")
    control: ControlConfig = Field(default_factory=ControlConfig, description="Ticks and who sets the GPUs")
    simulated: SimulatedConfig = Field(
        default_factory=SimulatedConfig, description='GPUs that do not exist, for control.gpus = "simulated"'
    )
    signal: SignalConfig = Field(default_factory=SignalConfig, description="How old an intensity may be")
    policy: PolicyConfig = Field(
        default_factory=PolicyConfig, description="How a setting is chosen; regions and jobs may say otherwise"
    )
    jobs: JobsConfig = Field(default_factory=JobsConfig, description="How jobs keep in touch")
    profile: ProfileConfig = Field(default_factory=ProfileConfig, description="How a job's frontier is measured")
    recurrences: RecurrencesConfig = Field(
        default_factory=RecurrencesConfig, description="How jobs that are trained again and again choose a batch size"
    )
    embodied: EmbodiedConfig = Field(
        default_factory=EmbodiedConfig,
        description="What the hardware emitted before it was switched on, for SCI (ISO/IEC 21031); regions may say "
        "otherwise",
    )
    store: StoreConfig = Field(default_factory=StoreConfig, description="How long the database remembers")
    share: ShareConfig = Field(default_factory=ShareConfig, description="The signal for other nodes")
    log: LogConfig = Field(default_factory=LogConfig, description="What the service says of itself")

    @property
    def journal_dir(self) -> Path:
        """Where a process of ours that sets GPUs itself keeps what it found; root's is that of `chase actuator`."""
        return self.service.state_dir / "actuator" if self._sets_alone else self.control.actuator_state_dir

    @property
    def lock_dir(self) -> Path:
        """The locks of real GPUs are root's in one place, so that two owners exclude each other."""
        return self.service.run_dir / "locks" if self._sets_alone else self.control.actuator_socket.parent / "locks"

    @property
    def _sets_alone(self) -> bool:
        return self.control.gpus == "simulated" or os.geteuid() != 0

    # [policy] as written under and over a job's wishes, for `job_policy`.
    _policy_below: Mapping[str, Any] | None = PrivateAttr(default=None)
    _policy_above: Mapping[str, Any] = PrivateAttr(default_factory=dict)
