"""What the database and the configuration say of one job: for commands that look ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chase.cli import jobref
from chase.cli.output import say_more
from chase.config import Config, RegionConfig, job_policy, load, load_region
from chase.errors import ConfigError
from chase.records import DecisionRecord, JobRecord
from chase.store import Reader

_BESIDE = ("minimise", "carbon_price_per_kg", "efficiency_above", "speed_below", "max_intensity_g_per_kwh")


def last_of(log: Reader, name: str) -> tuple[JobRecord, DecisionRecord | None]:
    """The job that ``name`` stands for, and its last decision. Raises ``click.BadParameter`` for no job."""
    jobs = log.jobs()
    job_id = jobref.find([(job.id, job.name) for job in jobs], name, hint="'JOB'")
    return next(job for job in jobs if job.id == job_id), log.last_decision(job_id)


def place_of(job: JobRecord, config_file: Path | None) -> tuple[Config, RegionConfig | None]:
    """The configuration and the job's region; defaults and None where the one here does not know them.

    The database may be another node's. Raises ``ConfigError`` for a file that was named and cannot be used.
    """
    try:
        loaded = load(service_file=config_file)
    except ConfigError as error:
        if config_file is not None:
            raise
        say_more(f"the configuration is left aside: {error}")
        return Config(), _shipped(job)
    if loaded.region.id == job.region:
        return loaded.config, loaded.region
    return loaded.config, _shipped(job)


def wishes_of(job: JobRecord, config: Config, home: RegionConfig | None) -> dict[str, Any]:
    """What of the job's policy no decision holds: what it minimises, and the thresholds as they were written."""
    try:
        chosen = job_policy(config, home, job.policy)
    except ConfigError as error:  # the configuration has changed since
        say_more(f"the policy of {job.name} is taken as its decisions have it: {error}")
        chosen = job_policy(Config(), None, {})
    return {key: getattr(chosen, key) for key in _BESIDE}


def _shipped(job: JobRecord) -> RegionConfig | None:
    try:
        return load_region(job.region)
    except ConfigError as error:
        say_more(f"region {job.region} is not known here: {error}")
        return None
