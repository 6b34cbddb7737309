"""Where a command finds the database, and a region that is not one of ours."""

from __future__ import annotations

import os
from pathlib import Path

from chase.cli.output import say_more
from chase.config import Loaded, load, region_ids
from chase.config.shipped import is_path
from chase.errors import StoreError
from chase.store import Reader, open_readonly

SYSTEM_DB = Path("/var/lib/chase/chase.sqlite")


def database(db_file: Path | None, config_file: Path | None) -> Path:
    """``--db``, else the configured one, else what the system's service keeps where we have none of our own."""
    if db_file is not None:
        return db_file
    loaded = load(service_file=config_file)
    configured = loaded.config.service.db_path
    chosen = any(loaded.origin[f"service.{key}"] != "default" for key in ("db", "state_dir"))
    return SYSTEM_DB if not chosen and not configured.exists() and SYSTEM_DB.exists() else configured


def load_of(region: str | None, config_file: Path | None) -> Loaded:
    """Everything, for a region by its name or its file, or by the id in the region file that is configured."""
    if region is not None and not is_path(region) and region not in region_ids():
        loaded = load(service_file=config_file)
        if loaded.region.id == region:
            return loaded
    return load(service_file=config_file, region=region)


def open_database(db_file: Path | None, config_file: Path | None) -> Reader:
    """Read-only. Raises ``StoreError`` when there is none."""
    path = database(db_file, config_file)
    say_more(f"reading {path}")
    if not os.path.exists(path):  # noqa: PTH110  Path.exists raises where we may not look
        raise StoreError(
            f"{path}: there is no database here, or it may not be looked at; "
            "'chase serve' makes it, or name another one with --db"
        )
    return open_readonly(path)
