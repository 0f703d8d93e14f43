"""The promises of the store, each with what keeps it taken out of the code, and the tests that must notice."""

from __future__ import annotations

from typing import NamedTuple

INTERLEAVINGS = "tests/exhaustive/test_interleavings.py"
DELTA_LOG = "lakespark/tables/delta_log.py"
LEDGER_STATE = "lakespark/tables/ledger_state.py"


class Mutant(NamedTuple):
    """``old``, which stands once in a file, and what takes its place; and the arguments of a pytest that must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = (
    # -- compare-and-swap
    Mutant(
        "a log entry overwrites another's",
        DELTA_LOG,
        "if self._store.put_if_absent(key, body):\n                    return True",
        "self._store.put(key, body)\n                return True",
        (INTERLEAVINGS, "-k=create_and_create or two_different or exclusive"),
    ),
    Mutant(
        "what an operation expects of refs is not looked at",
        LEDGER_STATE,
        "return refs_hold and is_new",
        "return is_new",
        (INTERLEAVINGS, "-k=create_and_create or two_different or empty_commit"),
    ),
    Mutant(
        "what it expects of settings is not looked at",
        LEDGER_STATE,
        "is_new and self.settings == settings",
        "is_new",
        ("tests/unit/test_protection.py",),
    ),
    Mutant(
        "its idempotency key is not looked at",
        "lakespark/tables/ledger.py",
        "and (key is None or self.landed(key) is None)",
        "",
        ("tests/unit/test_idempotency.py", "-k=race"),
    ),
    Mutant(
        "a commit may stand in the ledger twice",
        LEDGER_STATE,
        "refs_hold and is_new and",
        "refs_hold and",
        (INTERLEAVINGS, "-k=equal_commits"),
    ),
    # -- writes
    Mutant(
        "the staging token is not looked at again",
        "lakespark/operations/writes.py",
        "return branch_state(repository, branch).token == token",
        "return True",
        (INTERLEAVINGS, "tests/unit/test_faults.py", "-k=two_commits_and_write or overtaken"),
    ),
    # -- lost responses
    Mutant(
        "a lost response counts as a lost race",
        DELTA_LOG,
        "return found == body",
        "return False",
        ("tests/unit/test_tables.py", "tests/unit/test_faults.py", "-k=lost or (after and again)"),
    ),
    Mutant(
        "another writer's entry counts as one's own",
        DELTA_LOG,
        "return found == body",
        "return True",
        ("tests/unit/test_tables.py", "-k=lost or racing or stale"),
    ),
    # -- fsck
    Mutant(
        "fsck: the digests of ranges and metaranges are not looked at",
        "lakespark/operations/fsck/trees.py",
        "if found == ref.sha256:",
        "if True:",
        ("tests/unit/test_fsck_trees.py",),
    ),
    Mutant(
        "fsck: the digests of table files are not looked at",
        "lakespark/operations/fsck/tables.py",
        "if found != file.sha256:",
        "if False:",
        ("tests/unit/test_fsck_tables.py", "tests/unit/test_fsck_staging.py"),
    ),
    Mutant(
        "fsck: the digests of log entries are not looked at",
        "lakespark/tables/log_entry.py",
        "if stated != found:",
        "if False:",
        ("tests/unit/test_fsck_tables.py",),
    ),
    Mutant(
        "fsck: the digests of contents are not looked at",
        "lakespark/operations/fsck/objects.py",
        "if known is not None and found != known.expected:",
        "if False:",
        ("tests/unit/test_fsck_objects.py",),
    ),
)
