"""chase: moves a running GPU training job along its own time-energy frontier as the grid changes."""

__version__ = "0.1.0"
