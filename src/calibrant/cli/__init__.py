"""The command line: `calibrant evaluate | fit | apply | inspect | report`."""

from calibrant.cli.app import main

__all__ = ["main"]
