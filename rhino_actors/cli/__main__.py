"""Lets `python -m rhino_actors.cli` be the `rhino` command."""

from rhino_actors.cli import run

run()
