"""What a local store tells the operating system about the disk: nothing, or to sync (docs/stores.md, "Power loss").

An order that is kept everywhere makes durable stores whole: a file's contents are on the disk before its name is seen,
and its name, with the names of the folders that it is in, before the write is answered. What is put later may then
name what was put before.
"""

from __future__ import annotations

import os
from typing import Protocol

_REMEMBERED_FOLDERS = 10_000


class Disk(Protocol):
    """Asked by a local store at the moments that matter. All raise OSError."""

    def make_folder(self, folder: str) -> None:
        """Make a folder and those above it, unless they are there."""

    def contents_written(self, descriptor: int) -> None:
        """An open file is written to its end; nobody knows its name yet."""

    def name_given(self, folder: str) -> None:
        """A file in a folder got its name; the write is answered next."""


class UnsyncedDisk:
    """Leaves to the operating system when it writes to the disk."""

    def make_folder(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103

    def contents_written(self, descriptor: int) -> None:
        pass

    def name_given(self, folder: str) -> None:
        pass


class SyncedDisk:
    """Syncs at each of the moments. Safe to share between threads.

    Folders that were synced up to the store's own are remembered, because to sync one that has not changed still
    costs a flush of the disk.
    """

    def __init__(self, root: str) -> None:
        self._top = root
        """Where syncing upwards ends: this folder was there before the store wrote anything."""
        self._reachable: set[str] = set()

    def make_folder(self, folder: str) -> None:
        there = folder
        while not os.path.isdir(there):  # noqa: PTH112
            self._reachable.discard(there)  # before it is made, so that whoever finds it made syncs its name
            there = os.path.dirname(there)  # noqa: PTH120
        if len(there) < len(self._top):
            self._top = there
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103

    def contents_written(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def name_given(self, folder: str) -> None:
        _sync_folder(folder)
        climbed = []
        while folder != self._top and folder not in self._reachable:
            climbed.append(folder)
            folder = os.path.dirname(folder)  # noqa: PTH120
            _sync_folder(folder)
        if len(self._reachable) > _REMEMBERED_FOLDERS:
            self._reachable.clear()
        self._reachable.update(climbed)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
