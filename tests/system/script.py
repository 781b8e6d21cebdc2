"""Runs a script of a test's as `python SCRIPT` does, in a process that has loaded the program (`starter.py`)."""

import runpy
import sys


def main() -> None:
    """Its argument is the script."""
    runpy.run_path(sys.argv[1], run_name="__main__")
