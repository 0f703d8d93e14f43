"""How far a transfer is, counted by many threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple


class Transferred(NamedTuple):
    """What a transfer moved."""

    files: int
    size_bytes: int


class Progress(NamedTuple):
    """How far a transfer is. The totals are what was found at its start."""

    files: int
    size_bytes: int
    total_files: int
    total_bytes: int


OnProgress = Callable[[Progress], None]
"""Called after every chunk and every file, by one thread at a time, though not always the same one."""


class Meter:
    """Adds up what threads have moved and tells ``on_progress``."""

    def __init__(self, total_files: int, total_bytes: int, on_progress: OnProgress | None) -> None:
        self._lock = threading.Lock()
        self._now = Progress(0, 0, total_files, total_bytes)
        self._on_progress = on_progress

    def add(self, *, files: int = 0, size_bytes: int = 0) -> None:
        """Count so many more."""
        with self._lock:
            now = self._now
            self._now = now._replace(files=now.files + files, size_bytes=now.size_bytes + size_bytes)
            if self._on_progress is not None:
                self._on_progress(self._now)

    @property
    def transferred(self) -> Transferred:
        """What was moved so far."""
        return Transferred(self._now.files, self._now.size_bytes)
