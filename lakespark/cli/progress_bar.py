"""A progress bar on stderr, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lakespark.transfer import OnProgress, Progress


class OnCount(Protocol):
    """What a counter is called with."""

    def __call__(self, count: int, step: str = "") -> None:
        """Show a number, and what is being done with so many."""


@contextmanager
def counter(title: str, *, is_wanted: bool) -> Iterator[OnCount | None]:
    """What is to be called with a number that grows to nobody knows what, or None if nobody would see it."""
    if not is_wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status(title) as line:
        yield lambda count, step="": line.update(f"{title} {count:,}{step and f' ({step})'}")


@contextmanager
def progress_bar(title: str, *, is_wanted: bool) -> Iterator[OnProgress | None]:
    """What a transfer is to call, or None if nobody would see it."""
    if not is_wanted or not sys.stderr.isatty():
        yield None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def show(now: Progress) -> None:
            files = f"{title} {now.files:,}/{now.total_files:,}"
            bar.update(task, description=files, completed=now.size_bytes, total=now.total_bytes or None)

        yield show
