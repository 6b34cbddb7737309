"""``chase demo``: the main job on simulated GPUs."""

from chase.demo.day import REGIONS, run

__all__ = ["REGIONS", "run"]
