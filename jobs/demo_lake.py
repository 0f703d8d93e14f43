"""The folder with the lake of a demo: made anew at each run, but never where something else is."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import lakespark
from lakespark.errors import LakesparkError

REPOSITORY = "nycflights"
YEAR = 12
"""Months."""


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None, *, fewest_months: int) -> argparse.Namespace:
    """Parse what every demo takes, and the options that the parser has already; ends with 2 if they cannot be used."""
    parser.add_argument("--lake", type=Path, default=Path("demo-lake"), help="folder, made anew at each run")
    parser.add_argument("--months", type=int, choices=range(fewest_months, YEAR + 1), default=YEAR, metavar="N")
    args = parser.parse_args(argv)
    problem = why_not_cleared(args.lake)
    if problem:
        parser.error(f"{args.lake} is not removed: {problem}. Remove it yourself, or choose another --lake")
    return args


def why_not_cleared(root: Path) -> str | None:
    """Why a path must not be removed: None if it is absent, empty, or holds the lake of an earlier demo alone."""
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        return None
    if not root.is_dir() or {entry.name for entry in root.iterdir()} != {"_lakespark", REPOSITORY}:
        return "it holds something else than the lake of an earlier demo"
    try:
        names = [repo.id for repo in lakespark.Lake(root).repositories()]
    except LakesparkError as error:
        return f"it cannot be read as a lake ({error})"
    return None if names == [REPOSITORY] else "it is a lake with other repositories"


def clear(root: Path) -> None:
    """Remove the lake of an earlier demo."""
    if root.exists():
        shutil.rmtree(root)
