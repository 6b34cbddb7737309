"""Settings: TOML files, the environment and flags, merged in one order, validated, each with its origin.

``shipped`` needs the standard library only; everything else needs pydantic (about 0.09 s and 12 MB), so it is imported
when a name of it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chase.config.shipped import config_dir, profile_names, profile_path, region_ids, region_path

if TYPE_CHECKING:
    from chase.config.loading import Loaded as Loaded
    from chase.config.loading import OriginRow as OriginRow
    from chase.config.loading import job_policy as job_policy
    from chase.config.loading import load as load
    from chase.config.loading import origin_rows as origin_rows
    from chase.config.models import Config as Config
    from chase.config.models import PolicyConfig as PolicyConfig
    from chase.config.region_file import load_region as load_region
    from chase.config.regions import RegionConfig as RegionConfig
    from chase.config.regions import SourceConfig as SourceConfig
    from chase.config.regions import TypicalProfile as TypicalProfile

__all__ = ["config_dir", "profile_names", "profile_path", "region_ids", "region_path"]

_HOMES = {
    "chase.config.loading": ("Loaded", "OriginRow", "job_policy", "load", "origin_rows"),
    "chase.config.models": ("Config", "PolicyConfig"),
    "chase.config.regions": ("RegionConfig", "SourceConfig", "TypicalProfile"),
    "chase.config.region_file": ("load_region",),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
