"""The lake's table of repositories: which name stands for which storage namespace."""

from __future__ import annotations

import contextlib
import time

import pyarrow as pa

from lakespark.errors import NameTakenError, StateUnknownError, StorageError
from lakespark.storage import Store
from lakespark.storage.probe import check_before_creating
from lakespark.tables.delta_log import DeltaLog

ROOT = "_lakespark/repositories"
CATALOG_SCHEMA = pa.schema(
    [
        ("entry", pa.int64()),
        ("op", pa.string()),
        ("name", pa.string()),
        ("storage_namespace", pa.string()),
        ("user", pa.string()),
        ("at", pa.int64()),
    ]
)


class Catalog:
    """Names to storage namespaces. Reads the table anew at each call: it is small and seldom asked."""

    def __init__(self, store: Store, *, user: str) -> None:
        self._store = store
        self._user = user

    def repositories(self) -> dict[str, str]:
        """Storage namespace by repository name, in the order of names."""
        return {name: self._full(namespace) for name, namespace in sorted(self._read(self._open()).items())}

    def attach(self, name: str, storage_namespace: str) -> None:
        """Add a row. Raises NameTakenError if the name is there."""
        while True:
            log = self._open()
            known = self._read(log).get(name)
            if known is not None:
                raise NameTakenError(f"repository {name!r} exists already, at {self._full(known)}")
            if self._put(log, "attach", name, storage_namespace.removeprefix(f"{self._store.location}/")):
                return

    def detach(self, name: str) -> None:
        """Remove a name; the contents of the repository stay."""
        while True:
            log = self._open()
            namespace = self._read(log).get(name)
            if namespace is None or self._put(log, "detach", name, namespace):
                return

    def _full(self, namespace: str) -> str:
        """A namespace as a location: those inside the lake are stored relative to it, so that it can be moved."""
        is_full = "://" in namespace or namespace.startswith("/")
        return namespace if is_full else str(self._store.location.child(namespace))

    def _open(self) -> DeltaLog:
        log = DeltaLog(self._store, ROOT, CATALOG_SCHEMA)
        log.load()
        return log

    @staticmethod
    def _read(log: DeltaLog) -> dict[str, str]:
        rows = [row for file in log.files.values() for row in log.read_rows(file).to_pylist()]
        namespaces: dict[str, str] = {}
        for row in sorted(rows, key=lambda row: int(row["entry"])):
            if row["op"] == "attach":
                namespaces[row["name"]] = row["storage_namespace"]
            else:
                namespaces.pop(row["name"], None)
        return namespaces

    def _put(self, log: DeltaLog, op: str, name: str, namespace: str) -> bool:
        row = {"op": op, "name": name, "storage_namespace": namespace, "user": self._user, "at": int(time.time())}
        rows = pa.Table.from_pylist([row], schema=CATALOG_SCHEMA)
        if log.version < 0:
            check_before_creating(self._store)
            return log.create_with(rows)
        landed = log.put_rows(log.write_file(rows), log.version + 1)
        if landed:
            with contextlib.suppress(StorageError, StateUnknownError):  # derived work: the row is in
                log.compact(lambda _: None)
        return landed
