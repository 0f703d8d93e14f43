"""What the parts of one check share: the store, threads, and the counts of what was checked."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from lakespark.errors import StorageError
from lakespark.operations.fsck.report import Finding, FsckCounts, OnFsckProgress
from lakespark.operations.opened import OpenRepository

_THREADS = 16
_INLINE_ITEMS = 32
"""So few items of a local store are worked on in the calling thread: a thread takes longer to start."""
_WAITING = 2
"""Items that are under way or waiting, for each thread: memory is bounded by this."""

Item = TypeVar("Item")
Result = TypeVar("Result")

RESTORE = "restore the file from a copy, or from the older versions that the store keeps"


class Found(NamedTuple):
    """A finding, before it is known which refs it touches: those that reach ``commits``, and ``refs``."""

    finding: Finding
    commits: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()


class Run:
    """One check under way. ``each`` may be called while another ``each`` is being consumed."""

    def __init__(self, opened: OpenRepository, on_progress: OnFsckProgress | None) -> None:
        self.opened = opened
        self.store = opened.store
        self.counts = FsckCounts()
        self._is_local = opened.store.location.scheme in ("file", "memory")
        self._threads = (os.cpu_count() or 2) if self._is_local else _THREADS
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="lakespark-fsck")
        self._on_progress = on_progress

    def close(self) -> None:
        """Let go of the threads."""
        self._pool.shutdown(cancel_futures=True)

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The results of all items in their order, a bounded number of them at a time."""
        remaining = iter(items)
        first = list(islice(remaining, _INLINE_ITEMS + 1))
        if self._is_local and len(first) <= _INLINE_ITEMS:
            yield from map(work, first)
            return
        waiting: deque[Future[Result]] = deque()
        for item in chain(first, remaining):
            waiting.append(self._pool.submit(work, item))
            if len(waiting) >= _WAITING * self._threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def count(self, **more: int) -> None:
        """Count so much more as checked. Called by the thread that runs the check."""
        counted = self.counts._asdict()
        self.counts = self.counts._replace(**{name: counted[name] + number for name, number in more.items()})
        if self._on_progress is not None:
            self._on_progress(self.counts)

    def get(self, key: str, subject: str) -> bytes | Finding | None:
        """The bytes of a file, None if there is none, or the finding that the store does not give it."""
        try:
            return self.store.get(key)
        except StorageError as error:
            return Finding("unreadable", subject, key, str(error), mend="mend the store's access, then check again")
