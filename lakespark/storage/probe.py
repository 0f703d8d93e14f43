"""Whether a store really refuses to create what exists: without that, writers lose each other's work.

Some stores and file systems that speak the right language ignore the condition, and overwrite. Nothing but a try tells.
"""

from __future__ import annotations

import contextlib

from lakespark.errors import StorageError, UnsafeStoreError
from lakespark.storage.store import Store

PROBE_KEY = "_lakespark/probe"
_BODY = b"Written to see that this store refuses to write it twice.\n"


def check_before_creating(store: Store) -> None:
    """Try with a file of its own, three requests, before anything else is written. Raises UnsafeStoreError.

    The file is deleted again; one that a killed process left is harmless.
    """
    if not store.put_if_absent(PROBE_KEY, _BODY):
        return
    is_written_again = store.put_if_absent(PROBE_KEY, _BODY)
    with contextlib.suppress(StorageError):  # not everybody who may write may delete
        store.delete(PROBE_KEY)
    if is_written_again:
        raise _unsafe(store)


def check_existing(store: Store, key: str, body: bytes) -> None:
    """Try with a file whose contents are known, one request. Raises UnsafeStoreError.

    A store that ignores the condition writes the same bytes again, and is found out. Who may not write, or cannot for
    another reason, can read: nothing else is raised.
    """
    try:
        is_written = store.put_if_absent(key, body)
    except UnsafeStoreError:
        raise
    except StorageError:
        return
    if is_written:
        raise _unsafe(store)


def _unsafe(store: Store) -> UnsafeStoreError:
    return UnsafeStoreError(
        f"{store.location} is no safe place for a lake: the store was asked to create a file that exists already, and "
        "wrote over it. It lacks conditional writes (If-None-Match: *), so writers would lose each other's work: use "
        "another store"
    )
