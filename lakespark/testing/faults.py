"""A store that fails on demand: wraps any store, counts the calls, fails one of them or all from one on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeVar

from lakespark.errors import StorageError
from lakespark.storage import Location, PresignedUrl, Store, Writer
from lakespark.storage.store import StoredFile

When = Literal["before", "after", "torn", "late", "killed"]
"""How a call fails: before it does anything; after it took effect; a ``put`` with half of its body in place (log
entries are put if absent, which stores do whole); before it does anything, which it does later, at ``land``; or by the
end of the process.
"""
_LAND_LATE = frozenset({"put", "put_if_absent", "delete"})
Value = TypeVar("Value")


class Call(NamedTuple):
    """One call of a store: its number from 0, its method, and its key or prefix."""

    number: int
    method: str
    key: str


class FaultyStore:
    """A Store that passes every call on to another, and fails where it is told to.

    ``fail(k)`` fails the k-th call from now (from 0), in one of the ways of ``When``. ``lasting``: every later call
    fails as well, before it does anything. ``delay_s``: each call waits so long. ``on_call`` is asked before each
    call and may do anything, such as let another writer in. Safe to share between threads.
    """

    def __init__(self, store: Store, *, on_call: Callable[[Call], None] | None = None, delay_s: float = 0) -> None:
        self.location: Location = store.location
        self.calls: list[Call] = []
        self.on_call = on_call
        self._delay_s = delay_s
        self._late: list[Callable[[], Any]] = []
        self._store = store
        self._lock = threading.Lock()
        self._fail_at: int | None = None
        self._when: When = "before"
        self._lasting = False

    def fail(self, number: int, when: When = "before", *, lasting: bool = False) -> None:
        """Forget the calls so far, and fail the call of that number from now."""
        with self._lock:
            self.calls = []
            self._fail_at, self._when, self._lasting = number, when, lasting

    def heal(self) -> None:
        """Forget the calls so far, and fail no more."""
        with self._lock:
            self.calls = []
            self._fail_at = None

    def land(self) -> None:
        """Let the calls that failed ``late`` take effect now."""
        late, self._late = self._late, []
        for act in late:
            act()

    def get(self, key: str) -> bytes | None:
        """As ``Store.get``."""
        return self._call("get", key, lambda: self._store.get(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """As ``Store.get_range``."""
        return self._call("get_range", key, lambda: self._store.get_range(key, start, end))

    def put(self, key: str, body: bytes) -> None:
        """As ``Store.put``."""
        half = body[: len(body) // 2]
        self._call("put", key, lambda: self._store.put(key, body), torn=lambda: self._store.put(key, half))

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """As ``Store.put_if_absent``."""
        return self._call("put_if_absent", key, lambda: self._store.put_if_absent(key, body))

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredFile]:
        """As ``Store.list``, but the listing is made at once."""
        return iter(self._call("list", prefix, lambda: [*self._store.list(prefix, after)]))

    def size(self, key: str) -> int | None:
        """As ``Store.size``."""
        return self._call("size", key, lambda: self._store.size(key))

    def stat(self, key: str) -> StoredFile | None:
        """As ``Store.stat``."""
        return self._call("stat", key, lambda: self._store.stat(key))

    def delete(self, key: str) -> None:
        """As ``Store.delete``."""
        self._call("delete", key, lambda: self._store.delete(key))

    def presign(self, key: str, seconds: int) -> PresignedUrl:
        """As ``Store.presign``."""
        return self._call("presign", key, lambda: self._store.presign(key, seconds))

    def open_writer(self, key: str) -> Writer:
        """As ``Store.open_writer``; each ``write`` and ``close`` of the writer is a call of its own."""
        return _FaultyWriter(self._call, key, self._call("open_writer", key, lambda: self._store.open_writer(key)))

    def _call(self, method: str, key: str, act: Callable[[], Value], torn: Callable[[], Any] = lambda: None) -> Value:
        with self._lock:
            call = Call(len(self.calls), method, key)
            self.calls.append(call)
            when = self._failure_of(call)
        if self.on_call is not None:
            self.on_call(call)
        if self._delay_s:
            time.sleep(self._delay_s)
        if when is None:
            return act()
        if when == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if when == "torn":
            torn()
        elif when == "after":
            act()
        elif when == "late" and method in _LAND_LATE:
            self._late.append(act)
        raise StorageError(f"cannot {method} {self.location.child(key)}: injected, {when}")

    def _failure_of(self, call: Call) -> When | None:
        if self._fail_at is None or call.number < self._fail_at:
            return None
        if call.number == self._fail_at:
            return self._when
        return "before" if self._lasting else None


class _FaultyWriter:
    """The writer of a FaultyStore."""

    def __init__(self, call: Callable[[str, str, Callable[[], Any]], Any], key: str, writer: Writer) -> None:
        self._call = call
        self._key = key
        self._writer = writer

    def write(self, data: bytes) -> Any:
        """Take more bytes."""
        return self._call("write", self._key, lambda: self._writer.write(data))

    def close(self) -> None:
        """Make the file visible."""
        self._call("close", self._key, self._writer.close)

    def discard(self) -> None:
        """Give up. Never fails: nothing is asked of the store."""
        self._writer.discard()
