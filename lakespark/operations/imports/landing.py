"""One commit that links everything that an import has found: nothing is staged, nobody sees half of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lakespark.algebra import imports as imports_sql
from lakespark.engine import Engine, Frame
from lakespark.errors import NothingToCommitError
from lakespark.model import CommitRecord, Operation, RefChange
from lakespark.operations import protection, trees
from lakespark.operations.commit import check_description, idempotent, landed_before, new_commits, new_record
from lakespark.operations.merge import check_clean, moved
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import branch_state, commit_record
from lakespark.tree.metarange import Metarange, RangeRef

VERB = "import"


class Landed(NamedTuple):
    """The commit that has everything now; ``is_new`` says whether the import made it or it had it all before.

    ``is_repeated``: the import has landed under its idempotency key before, with this commit.
    """

    record: CommitRecord
    is_new: bool
    is_repeated: bool = False


def repeated(repository: OpenRepository, branch: str, idempotency_key: str | None) -> Landed | None:
    """What an import under the key has come to, or None if none has landed. Raises BadRequestException."""
    landed = landed_before(repository, idempotency_key, VERB, branch)
    return None if landed is None else _of(repository, landed)


def land(
    repository: OpenRepository,
    branch: str,
    run: Engine,
    entries: Frame,
    replaced: Sequence[str],
    *,
    message: str,
    metadata: Mapping[str, str] | None = None,
    sources: str = "",
    proceed: Callable[[], None] = lambda: None,
    idempotency_key: str | None = None,
) -> Landed:
    """Commit entries on a branch without uncommitted changes; what else is below ``replaced`` prefixes goes.

    ``run`` is the engine that has the entries. ``sources`` is noted in the ledger. ``proceed`` is asked in each try,
    and raises to give up. Raises DirtyBranchError. If the branch has just that already, no commit is made; nor is
    one if an import has landed under the idempotency key.
    """
    check_description(message, metadata, None, None)
    key = idempotent(idempotency_key, VERB, branch)
    written: dict[str, RangeRef] = {}

    def decide() -> Operation:
        protection.committable(repository, branch)
        into = check_clean(repository, branch)
        head = commit_record(repository, into.state.commit_id)
        base = repository.tree(head)
        tree = trees.apply_changes(run, base, _changes(run, base, entries, replaced), {**written, **base.by_id})
        written.update(tree.by_id)
        proceed()
        if tree.id == base.id:
            raise NothingToCommitError(f"branch {branch!r} has all of it already")
        record = new_record(repository, tree, (head,), message=message, metadata=metadata, committer=None, date=None)
        after = moved(repository, into, record.commit.id)
        changes = (RefChange(branch, into.state, after),)
        return Operation(VERB, changes, new_commits(record), (("sources", sources),))

    try:
        landed = repository.ledger.operate(decide, key=key)
    except NothingToCommitError:
        return Landed(commit_record(repository, branch_state(repository, branch).commit_id), is_new=False)
    return _of(repository, landed)


def _of(repository: OpenRepository, landed: Operation) -> Landed:
    after = landed.changes[0].after
    if after is None:
        raise AssertionError(landed.verb)
    record = commit_record(repository, after.commit_id)
    return Landed(record, is_new=not landed.is_repeated, is_repeated=landed.is_repeated)


def _changes(run: Engine, base: Metarange, entries: Frame, replaced: Sequence[str]) -> Frame:
    """A put for each entry, and a delete for each other path below a replaced prefix."""
    ranges = {ref.file: ref for prefix in replaced for ref in base.with_prefix(prefix)}
    if not ranges:
        return run.query(imports_sql.PUTS, entries=entries)
    committed = trees.below(run, run.read_ranges(list(ranges.values()), ("path",)), list(replaced))
    return run.keep(run.query(imports_sql.PUTS_AND_DELETES, entries=entries, committed=committed))
