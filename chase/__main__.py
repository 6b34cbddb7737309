"""``python -m chase``."""

from chase.cli import main

main(prog_name="chase")
