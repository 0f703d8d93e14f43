"""A store that fails on demand: wraps any store, counts the calls, fails one of them or all from one on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeVar

from lakespark.errors import StorageError
from lakespark.storage import Location, Store, Writer
from lakespark.storage.store import StoredFile

When = Literal["before", "after"]
Value = TypeVar("Value")


class Call(NamedTuple):
    """One call of a store: its number from 0, its method, and its key or prefix."""

    number: int
    method: str
    key: str


class FaultyStore:
    """A Store that passes every call on to another, and fails where it is told to.

    ``fail(k)`` fails the k-th call from now (from 0): ``before`` it does anything, or ``after`` it took effect,
    as when a response is lost. ``lasting``: every later call fails as well. ``on_call`` is asked before each
    call and may do anything, such as let another writer in. Safe to share between threads.
    """

    def __init__(self, store: Store, *, on_call: Callable[[Call], None] | None = None) -> None:
        self.location: Location = store.location
        self.calls: list[Call] = []
        self.on_call = on_call
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

    def get(self, key: str) -> bytes | None:
        """As ``Store.get``."""
        return self._call("get", key, lambda: self._store.get(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """As ``Store.get_range``."""
        return self._call("get_range", key, lambda: self._store.get_range(key, start, end))

    def put(self, key: str, body: bytes) -> None:
        """As ``Store.put``."""
        self._call("put", key, lambda: self._store.put(key, body))

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

    def open_writer(self, key: str) -> Writer:
        """As ``Store.open_writer``; each ``write`` and ``close`` of the writer is a call of its own."""
        return _FaultyWriter(self._call, key, self._call("open_writer", key, lambda: self._store.open_writer(key)))

    def _call(self, method: str, key: str, act: Callable[[], Value]) -> Value:
        with self._lock:
            call = Call(len(self.calls), method, key)
            self.calls.append(call)
            failing = self._fails(call)
            when = self._when
        if self.on_call is not None:
            self.on_call(call)
        if failing and when == "before":
            raise StorageError(f"cannot {method} {self.location.child(key)}: injected before it took effect")
        value = act()
        if failing:
            raise StorageError(f"cannot {method} {self.location.child(key)}: injected after it took effect")
        return value

    def _fails(self, call: Call) -> bool:
        if self._fail_at is None:
            return False
        return call.number >= self._fail_at if self._lasting else call.number == self._fail_at


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
