"""Requests that run beside other work until somebody needs them done."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from lakespark.storage.location import Location

_THREADS = 16
_MOST_STARTED = 64
"""So many writes of one thread are under way at most: their contents are in memory."""
Item = TypeVar("Item")
Value = TypeVar("Value")


class Background:
    """Writes of files that nothing names yet: started early, waited for before something names them.

    On a store nearby, where a thread costs more than a write, they run at once. Threads that share this object
    wait for what they have started themselves.
    """

    def __init__(self, location: Location, *, runs_now: bool = False) -> None:
        """``runs_now``: as on a store nearby, whatever the location is."""
        self._is_remote = location.is_remote and not runs_now
        self._of_thread = threading.local()
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def start(self, work: Callable[[], Any]) -> None:
        """Do the work soon. Nearby, what it raises is raised here, else by ``settle``."""
        if not self._is_remote:
            work()
            return
        started = self._started()
        started.append(self._threads().submit(work))
        if len(started) > _MOST_STARTED:
            started[-_MOST_STARTED - 1].exception()  # waits; what it may have failed with comes out in `settle`

    def settle(self) -> None:
        """Wait for all that this thread has started. Raises the first failure, when all have ended."""
        started = self._started()
        try:
            failures = [future.exception() for future in started]
        finally:
            started.clear()
        for failure in filter(None, failures):
            raise failure

    def drop(self) -> None:
        """Wait for all that this thread has started, whatever comes of it: nothing will name those files."""
        with contextlib.suppress(Exception):
            self.settle()

    def each(self, work: Callable[[Item], Value], items: Sequence[Item]) -> list[Value]:
        """The answers of several reads, in the order of ``items``. Raises the first failure."""
        if len(items) < 2:  # noqa: PLR2004
            return [work(item) for item in items]
        return self.ahead(work, items)()

    def ahead(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Callable[[], list[Value]]:
        """The same for answers that are wanted later: what this returns waits for them. Nearby, it does the work."""
        if not self._is_remote:
            return lambda: [work(item) for item in items]
        begun = [self._threads().submit(work, item) for item in items]
        return lambda: [reading.result() for reading in begun]

    def both(self, here: Callable[[], Item], beside: Callable[[], Value]) -> tuple[Item, Value]:
        """Two answers: the first found by this thread, the second meanwhile by another."""
        if not self._is_remote:
            return here(), beside()
        other = self._threads().submit(beside)
        try:
            mine = here()
        except BaseException:
            other.exception()
            raise
        return mine, other.result()

    def _started(self) -> list[Future[Any]]:
        started: list[Future[Any]] | None = getattr(self._of_thread, "started", None)
        if started is None:
            started = self._of_thread.started = []
        return started

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="lakespark-background")
            return self._pool
