"""What every store must do: a test class to run a Store of one's own through.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self): ...        # a new, empty store for each test

Each method is a test that pytest finds in the subclass; it takes the store and asserts.
"""

from __future__ import annotations

import hashlib
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lakespark.errors import BadRequestException
from lakespark.storage import Store
from lakespark.storage.store import LONGEST_PRESIGNED_SECONDS

_WRITERS = 16
_ODD_NAMES = (
    "a b",
    "50%",
    "%41",
    "a%20b",
    "ü",
    "a\u0308",
    "日本",
    "a+b",
    "a&b=c",
    "#",
    "?x",
    "[x]{y}",
    "~",
    "a;b",
    "'\"",
    "\\",
)
"""Names that a store must take as they are, beside the plain ones that lakespark makes."""


class StoreContract:
    """The promises of ``lakespark.storage.Store``."""

    def test_a_file_reads_back_as_it_was_put(self, store: Store) -> None:
        """Bytes of every value, and no bytes at all."""
        for key, body in (("a.bin", bytes(range(256))), ("folder/empty", b"")):
            store.put(key, body)
            assert store.get(key) == body
            assert store.size(key) == len(body)
            found = store.stat(key)
            assert found is not None
            assert (found.key, found.size_bytes) == (key, len(body))
            assert found.modified > 0

    def test_an_absent_file_is_none(self, store: Store) -> None:
        """``get`` and ``size`` of an absent key answer None, before and after the first write."""
        assert store.get("none") is None
        assert store.size("none") is None
        store.put("folder/file", b"1")
        assert store.get("none") is None
        assert store.get("folder") is None
        assert store.size("folder") is None
        assert store.stat("none") is None
        assert store.stat("folder") is None

    def test_stat_says_what_a_listing_says(self, store: Store) -> None:
        """Key, size, ETag and, to the second, time of one file; None for what is none."""
        store.put("folder/file", b"12345")
        found = store.stat("folder/file")
        assert found is not None
        (listed,) = store.list("folder")
        assert found._replace(modified=int(found.modified)) == listed._replace(modified=int(listed.modified))
        assert (found.key, found.size_bytes) == ("folder/file", 5)
        assert store.stat("folder") is None
        assert store.stat("none") is None
        assert store.stat("folder/file/below") is None

    def test_put_replaces_the_whole_file(self, store: Store) -> None:
        """Nothing of a longer file before is left."""
        store.put("file", b"long contents")
        store.put("file", b"short")
        assert store.get("file") == b"short"

    def test_put_if_absent_never_replaces(self, store: Store) -> None:
        """The first one wins, by whichever call it came."""
        assert store.put_if_absent("log/1.json", b"first")
        assert not store.put_if_absent("log/1.json", b"second")
        assert store.get("log/1.json") == b"first"
        store.put("log/2.json", b"put")
        assert not store.put_if_absent("log/2.json", b"late")
        assert store.get("log/2.json") == b"put"

    def test_put_if_absent_has_one_winner_among_threads(self, store: Store) -> None:
        """Of writers that come at once exactly one wins, and the file is the winner's."""
        for number in range(10):
            key = f"log/{number}.json"
            won = _at_once(partial(_put_own_if_absent, store, key))
            assert won.count(True) == 1
            assert store.get(key) == b"writer %d" % won.index(True)

    def test_names_are_taken_as_they_are(self, store: Store) -> None:
        """Spaces, percent signs and everything else: put, listed, read and deleted by the same name."""
        names = {f"folder {name}/{name}" for name in _ODD_NAMES}
        for name in names:
            assert store.put_if_absent(name, name.encode())
        assert {file.key for folder in _ODD_NAMES for file in store.list(f"folder {folder}")} == names
        for name in names:
            assert store.get(name) == name.encode()
            assert store.get_range(name, 0, 6) == b"folder"
            assert store.size(name) == len(name.encode())
            store.delete(name)
            assert store.get(name) is None

    def test_ranges_are_read_in_parallel(self, store: Store) -> None:
        """One store is shared by threads: each gets what it asked for."""
        body = _body(4 << 20)
        store.put("file", body)
        step = len(body) // _WRITERS
        parts = _at_once(lambda reader: store.get_range("file", reader * step, (reader + 1) * step))
        assert parts == [body[start : start + step] for start in range(0, len(body), step)]

    def test_a_presigned_url_reads_the_file_without_credentials(self, store: Store) -> None:
        """By a plain HTTP client, until the time that it tells. Where there are none, the error says so."""
        store.put("folder/a b%41", b"contents")
        before = int(time.time())
        try:
            signed = store.presign("folder/a b%41", 600)
        except BadRequestException as error:
            assert str(store.location) in str(error)  # noqa: PT017 - either is right
            assert not store.location.is_remote
            return
        assert before + 600 <= signed.expires <= time.time() + 600
        with urllib.request.urlopen(signed.url, timeout=60) as response:  # noqa: S310 - the store's own URL
            assert response.read() == b"contents"
        for seconds in (0, LONGEST_PRESIGNED_SECONDS + 1):
            assert _raised(partial(store.presign, "folder/a b%41", seconds)) is BadRequestException

    def test_ranges_are_cut_at_the_end_of_the_file(self, store: Store) -> None:
        """From ``start`` up to, not including, ``end``; nothing from past the end."""
        store.put("file", b"0123456789")
        assert store.get_range("file", 0, 10) == b"0123456789"
        assert store.get_range("file", 3, 5) == b"34"
        assert store.get_range("file", 8, 100) == b"89"
        assert store.get_range("file", 10, 12) == b""
        assert store.get_range("file", 4, 4) == b""

    def test_a_range_of_an_absent_file_is_a_file_not_found_error(self, store: Store) -> None:
        """So that a reader can tell a deleted object from a failing store."""
        assert _raised(lambda: store.get_range("none", 0, 1)) is FileNotFoundError
        store.put("file", b"1")
        assert _raised(lambda: store.get_range("none", 0, 1)) is FileNotFoundError

    def test_a_listing_has_the_files_below_a_folder(self, store: Store) -> None:
        """Every depth, whole keys and sizes, nothing beside the folder, nothing for an absent one."""
        assert list(store.list("log")) == []
        for key in ("log/1", "log/2", "log/deep/er/3", "logs/4", "5"):
            store.put(key, key.encode())
        found = {file.key: file for file in store.list("log")}
        assert set(found) == {"log/1", "log/2", "log/deep/er/3"}
        assert found["log/deep/er/3"].size_bytes == len("log/deep/er/3")
        assert found["log/1"].modified > 0
        assert list(store.list("none")) == []

    def test_a_listing_starts_after_a_key(self, store: Store) -> None:
        """``after`` is exclusive, compares whole keys, and need not be a key that exists."""
        keys = [f"log/{number:03d}" for number in range(20)]
        for key in keys:
            store.put(key, b"")
        assert sorted(file.key for file in store.list("log", after="log/011")) == keys[12:]
        assert sorted(file.key for file in store.list("log", after="log/0115")) == keys[12:]
        assert list(store.list("log", after="log/019")) == []

    def test_a_deleted_file_is_gone(self, store: Store) -> None:
        """Deleting what is not there is no error, and its key is free again."""
        store.delete("file")
        store.put("file", b"1")
        store.delete("file")
        store.delete("file")
        assert store.get("file") is None
        assert store.put_if_absent("file", b"2")

    def test_a_stream_is_visible_only_when_closed(self, store: Store) -> None:
        """Small streams and those larger than every buffer on the way."""
        for key, pieces, size in (("small", 3, 10), ("large", 5, 5 << 20)):
            body = _body(size)
            writer = store.open_writer(key)
            for _ in range(pieces):
                writer.write(body)
            assert store.get(key) is None
            writer.close()
            assert store.get(key) == body * pieces

    def test_a_discarded_stream_leaves_nothing(self, store: Store) -> None:
        """No file, no other file in the listing, and the key is free."""
        writer = store.open_writer("folder/file")
        writer.write(b"half")
        writer.discard()
        assert store.get("folder/file") is None
        assert list(store.list("folder")) == []
        assert store.put_if_absent("folder/file", b"whole")

    def test_a_large_file_reads_back_whole(self, store: Store) -> None:
        """Larger than the parts in which stores take files."""
        body = _body(20 << 20)
        store.put("large", body)
        assert store.size("large") == len(body)
        assert store.get("large") == body
        assert store.get_range("large", 9 << 20, 11 << 20) == body[9 << 20 : 11 << 20]

    def test_concurrent_puts_leave_one_whole_file(self, store: Store) -> None:
        """A reader finds one writer's bytes, never a mixture."""
        bodies = [bytes([writer]) * 100_000 for writer in range(_WRITERS)]
        _at_once(lambda writer: store.put("file", bodies[writer]))
        assert store.get("file") in bodies


def _body(size: int) -> bytes:
    """So many bytes, different in every block."""
    return b"".join(hashlib.sha256(b"%d" % block).digest() * 128 for block in range(size // 4096 + 1))[:size]


def _put_own_if_absent(store: Store, key: str, writer: int) -> bool:
    return store.put_if_absent(key, b"writer %d" % writer)


def _at_once(act: Callable[[int], object]) -> list[object]:
    """Results of threads that start together, by their numbers."""
    barrier = threading.Barrier(_WRITERS)

    def run(writer: int) -> object:
        barrier.wait()
        return act(writer)

    with ThreadPoolExecutor(_WRITERS) as pool:
        return list(pool.map(run, range(_WRITERS)))


def _raised(act: Callable[[], object]) -> type[BaseException] | None:
    """The class of the error that an act raises; FileNotFoundError for any kind of it."""
    try:
        act()
    except FileNotFoundError:
        return FileNotFoundError
    except Exception as error:  # noqa: BLE001 - the test says which one it expects
        return type(error)
    return None
