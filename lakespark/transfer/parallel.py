"""One function over many items on several threads, without a queue of them all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from lakespark.errors import BadRequestException

DEFAULT_PARALLELISM = 8

Item = TypeVar("Item")
_END = object()


def for_each(items: Iterable[Item], work: Callable[[Item], None], *, parallelism: int) -> None:
    """Call ``work`` with every item on ``parallelism`` threads.

    The first failure is raised once the threads are still; items that nobody has begun by then stay undone.
    """
    if parallelism < 1:
        raise BadRequestException(f"parallelism must be 1 or more, not {parallelism}")
    pending, lock, stopped = iter(items), threading.Lock(), threading.Event()

    def run() -> None:
        while not stopped.is_set():
            with lock:
                item = next(pending, _END)
            if item is _END:
                return
            try:
                work(item)  # type: ignore[arg-type]
            except BaseException:
                stopped.set()
                raise

    with ThreadPoolExecutor(parallelism) as pool:
        running = [pool.submit(run) for _ in range(parallelism)]
        try:
            for thread in running:
                thread.result()
        finally:
            stopped.set()  # an interrupt reaches this thread alone
