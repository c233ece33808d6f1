"""`python -m lastword` is the `lastword` command."""

from .adapters.cli import main

main()
