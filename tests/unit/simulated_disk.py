"""A disk that loses everything that was not synced, for what a power loss leaves of a folder.

It records what the process syncs (``os.fsync`` of files and folders) instead of syncing it. The folder as it would be
after the power is gone can be built anew from that record, at another place.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path


class SimulatedDisk:
    """Watches a folder, which is on the disk itself; what is made below it is not until it is synced.

    ``pins`` is a folder beside it that keeps the numbers of files from being used again. ``before_sync`` is called
    before each sync takes effect, which is when most is to be lost.
    """

    def __init__(self, folder: Path, pins: Path, monkeypatch) -> None:
        folder.mkdir()
        pins.mkdir()
        self.folder = folder
        self.before_sync = lambda: None
        self.syncs = 0
        self._pins = pins
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, tuple[int, bool]]] = {folder.stat().st_ino: {}}
        self._lock = threading.RLock()
        monkeypatch.setattr(os, "fsync", self._sync)

    def left_after_power_loss(self, *, names_survive: bool = False) -> dict[str, bytes]:
        """The files that are left, by their paths below the folder: synced names with synced contents.

        ``names_survive``: the names had reached the disk unasked, as they often do, but the contents had not.
        """
        with self._lock:
            if not names_survive:
                return dict(self._synced(self.folder.stat().st_ino, ""))
            files = [entry for entry in _below(self.folder) if not entry.is_dir()]
            start = len(f"{self.folder}/")
            return {entry.path[start:]: self._contents.get(entry.inode(), b"") for entry in files}

    def _sync(self, descriptor: int) -> None:
        with self._lock:
            self.before_sync()
            self.syncs += 1
            status = os.fstat(descriptor)
            path = self._path_of(status.st_ino)
            if stat.S_ISDIR(status.st_mode):
                self._names[status.st_ino] = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(path)}
                return
            if status.st_ino not in self._contents:
                os.link(path, self._pins / str(status.st_ino))
            self._contents[status.st_ino] = path.read_bytes()

    def _path_of(self, number: int) -> Path:
        if number == self.folder.stat().st_ino:
            return self.folder
        found = (entry.path for entry in _below(self.folder) if entry.inode() == number)
        return Path(next(found))

    def _synced(self, number: int, path: str) -> Iterator[tuple[str, bytes]]:
        for name, (inner, is_folder) in self._names.get(number, {}).items():
            if is_folder:
                yield from self._synced(inner, f"{path}{name}/")
            else:
                yield path + name, self._contents.get(inner, b"")


def write_files(files: dict[str, bytes], folder: Path) -> None:
    """Build a folder from what a disk has left."""
    folder.mkdir()
    for path, body in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)


def _below(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    """Files and folders, while others make and remove some."""
    for entry in [*os.scandir(folder)]:
        yield entry
        if entry.is_dir():
            yield from _below(entry.path)
