"""Repositories for fsck to look at, and what damages or forges their files."""

from __future__ import annotations

import dataclasses
import itertools
import json

import pyarrow as pa
import pyarrow.parquet as pq

from lakespark import digest
from lakespark.model import Operation, RefChange, RefState
from lakespark.operations.fsck.check import fsck
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store
from lakespark.tables import ledger as ledgers
from lakespark.tables import ledger_rows
from lakespark.tables.delta_log import DeltaLog
from lakespark.tables.log_entry import sealed, stripped
from lakespark.tables.staging import STAGING_SCHEMA

_names = itertools.count()


def build(lake, place):
    """Branches main, dev and old, the tag v1 on dev's first commit, and objects staged on main."""
    repo = lake.repository("analytics").create(place)
    main = repo.branch("main")
    main.object("a").upload("one")
    main.object("b").upload("two")
    main.commit("first")
    dev = repo.branch("dev").create("main")
    dev.object("a").upload("other")
    dev.commit("on dev")
    repo.tag("v1").create("dev")
    old = repo.branch("old").create("main~1")
    old.object("z").upload("four")
    old.commit("on old")
    main.object("staged").upload("three")
    return repo


def checked(repo, **how):
    """The report of a new handle, which has cached nothing."""
    store = open_store(repo.opened.store.location, **repo.opened.options)
    return fsck(OpenRepository(store, user="ann", options={}), **how)


def errors(repo, **how):
    return checked(repo, **how).errors


def head(repo, ref):
    record = repo.opened.ledger.commit(repo.ref(ref).get_commit().id)
    assert record is not None
    return record


def range_of(repo, ref):
    (found,) = repo.opened.tree(head(repo, ref)).ranges
    return found


def body_of(repo, key):
    return repo.opened.store.get(key)


DAMAGES = {
    "missing": lambda body: None,
    "empty": lambda body: b"",
    "cut short": lambda body: body[: len(body) // 2],
    "longer": lambda body: body + b"\0",
    "one bit": lambda body: body[: len(body) // 2] + bytes([body[len(body) // 2] ^ 1]) + body[len(body) // 2 + 1 :],
}


def damage(repo, key, how):
    """Spoil a file; the SHA-256 of what is there now, or None."""
    store = repo.opened.store
    body = DAMAGES[how](store.get(key))
    if body is None:
        store.delete(key)
        return None
    store.put(key, body)
    return digest.hash_bytes(body)


# -- tables ----------------------------------------------------------------------------------------------------


def ledger_log(repo):
    """The log of the ledger, read anew."""
    return _loaded(repo, ledgers.ROOT, ledger_rows.LEDGER_SCHEMA)


def staging_log(repo, branch):
    """Folder and log of a branch's staging table."""
    repo.opened.ledger.refresh()
    root = f"_lakespark/staging/{repo.opened.ledger.ref(branch).token}"
    return root, _loaded(repo, root, STAGING_SCHEMA)


def _loaded(repo, root, schema):
    log = DeltaLog(repo.opened.store, root, schema)
    log.load()
    return log


def entry_key(number, root=ledgers.ROOT):
    return f"{root}/_delta_log/{number:020d}.json"


def without_snapshot(repo):
    repo.opened.store.delete(ledgers.SNAPSHOT)


def rewrite_entry(repo, log, number, change):
    """Change the only add action of a log entry, and make the entry's digest right; that action."""
    store, key = repo.opened.store, entry_key(number, log._root)
    actions = [json.loads(line) for line in stripped(store.get(key)).splitlines()]
    (add,) = [action["add"] for action in actions if "add" in action]
    change(add)
    store.put(key, sealed("\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()))
    return add


def rewrite_file(repo, log, file, change):
    """Change the table in a file that one entry adds, and make right what that entry says of it."""
    store, key = repo.opened.store, f"{log._root}/{file.name}"
    body = parquet(change(pq.read_table(pa.BufferReader(store.get(key)))))
    store.put(key, body)

    def add(action):
        action["size"] = len(body)
        action["tags"]["sha256"] = digest.hash_bytes(body)

    without_repeated_rows(repo, log, file.first)
    rewrite_entry(repo, log, file.first, add)


def without_repeated_rows(repo, log, number):
    """Take the rows out of a log entry that repeats them."""
    store, key = repo.opened.store, entry_key(number, log._root)
    first, line_end, rest = stripped(store.get(key)).partition(b"\n")
    info = json.loads(first)
    info["commitInfo"].pop("rows", None)
    store.put(key, sealed(json.dumps(info, separators=(",", ":")).encode() + line_end + rest))


def parquet(table):
    """A table as the bytes of a file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


# -- trees -----------------------------------------------------------------------------------------------------


class Forger:
    """Writes trees that break a rule, with all digests of files right, and commits them."""

    def __init__(self, repo):
        self.repo = repo

    def range(self, rows, **said):
        """A range file with a reference that says the truth but for what is given."""
        from lakespark.tree.range_files import hash_range, range_file

        key = f"_lakespark/ranges/{next(_names):032x}/000000.parquet"
        ref, body = range_file(key, rows, hash_range(rows))
        self.repo.opened.store.put(key, body)
        return dataclasses.replace(ref, **said)

    def emptied(self, ref):
        """The reference of a range for a file without entries."""
        body = parquet(entries())
        self.repo.opened.store.put(ref.file, body)
        return dataclasses.replace(ref, file_sha256=digest.hash_bytes(body))

    def commit(self, ranges, threshold="0" * 32, metarange=None):
        """Land a commit of these ranges on a new branch; its metarange's file, which may be that of another tree."""
        from lakespark.operations.commit import new_record
        from lakespark.tree.metarange import Metarange

        opened = self.repo.opened
        parent = head(self.repo, "main")
        tree = Metarange(threshold, tuple(ranges))
        record = new_record(opened, tree, (parent,), message="forged", metadata=None, committer=None, date=None)
        record = dataclasses.replace(record, metarange=metarange or record.metarange)

        def decide():
            state = RefState("branch", record.commit.id, opened.new_staging())
            return Operation("forge", (RefChange("forged", None, state),), (record,))

        opened.ledger.operate(decide)
        return record.metarange.file


def entries(*paths, **columns):
    """Rows of entries whose identities are right, but for columns that are given."""
    count = len(paths)
    rows = {
        "path": list(paths),
        "identity": [digest.entry_identity(1, "c" * 32, "text/plain", {})] * count,
        "physical_address": [f"data/x/{path}" for path in paths],
        "size_bytes": [1] * count,
        "checksum": ["c" * 32] * count,
        "mtime": [0] * count,
        "content_type": ["text/plain"] * count,
        "metadata": [{}] * count,
        "data_schema": [None] * count,
        "data_stats": [None] * count,
    }
    from lakespark.entries import ENTRY_SCHEMA

    return pa.Table.from_pydict({**rows, **columns}, schema=ENTRY_SCHEMA)
