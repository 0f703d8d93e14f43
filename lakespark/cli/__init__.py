"""The command line ``lakespark``. Nothing that is slow to import is imported before a verb needs it."""

from lakespark.cli.app import main

__all__ = ["main"]
