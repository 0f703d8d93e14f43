"""A repository and the reference model, given the same random work, stay the same after every step.

``--hypothesis-profile=long`` runs it at length.
"""

import hashlib
import itertools
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakespark import Lake, Repository, errors
from lakespark.errors import LakesparkError, MergeConflictError
from lakespark.testing import strategies
from lakespark.testing.judge import Judge, entry_of
from lakespark.testing.model import ModelRepository
from lakespark.testing.model_state import Description, StagedOp
from lakespark.testing.trees import Entry, threshold_for

NAMES = ("main", "dev", "dev:joe-bugfix-1234", "v2.3")
CONFLICT_COLUMNS = ["path", "conflict", "base_identity", "source_identity", "destination_identity"]
KIND = "application/octet-stream"
STRATEGIES = st.sampled_from([None, "source-wins", "dest-wins"])

_lakes = itertools.count()
_metaranges: dict[str, dict[frozenset[tuple[str, str]], str]] = {}
"""For each threshold the metarange id of each contents, over all that any example has committed."""


def outcome(work: Callable[[], Any]) -> Any:
    """The value of some work, or the class of its error, with the conflicts if it has any."""
    try:
        return work()
    except MergeConflictError as error:
        rows = error.conflicts.select(CONFLICT_COLUMNS).to_pylist() if isinstance(error.conflicts, pa.Table) else None
        return MergeConflictError, rows or error.conflicts
    except LakesparkError as error:
        return type(error)


class Lakes(RuleBasedStateMachine):
    """Drives a repository in memory and the model together."""

    @initialize(
        data=st.data(),
        paths=st.lists(strategies.paths(), min_size=4, max_size=9, unique=True),
        range_entries=st.sampled_from([1, 2, 2, 3, 3, 8000]),
    )
    def create(self, data: st.DataObject, paths: list[str], range_entries: int) -> None:
        self.paths = paths
        self.lake = Lake(f"memory://machine-{next(_lakes)}/lake", user="tests")
        self.real = self.lake.repository("machine").create(range_entries=range_entries)
        first = self.real.branch("main").get_commit()
        description = Description(first.message, first.committer, first.creation_date)
        self.model = ModelRepository(threshold_for(range_entries), description)
        self.judge = Judge(self.model)
        self.clock = 1000
        self.stored = [self.store_object(bytes([number])) for number in range(4)]
        self.begin(data)

    def begin(self, data: st.DataObject) -> None:
        """Two branches that have something in common, and something to merge."""
        self.stage_paths("main", self.paths, data)
        self.commit_branch("main", data)
        self.model.create_branch("dev", "main")
        self.real.branch("dev").create("main")
        for branch in ("dev", "main"):
            self.stage_some(branch, data)
            self.commit_branch(branch, data)

    def store_object(self, body: bytes) -> Entry:
        """An object that is in the store without being anywhere in the repository."""
        checksum = hashlib.md5(body).hexdigest()
        self.real.opened.store.put(f"data/elsewhere/{checksum}", body)
        return Entry(f"data/elsewhere/{checksum}", len(body), checksum, KIND, ())

    # -- what is drawn ---------------------------------------------------------------------------------------

    def branch(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.branches()), "branch")

    def branches(self) -> list[str]:
        """The branches, but for the hidden ones of transactions that were undone."""
        return sorted(name for name in self.model.branches if name in NAMES)

    def path(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.paths), "path")

    def some_paths(self, data: st.DataObject) -> list[str]:
        return data.draw(st.lists(st.sampled_from(self.paths), min_size=1, max_size=4, unique=True), "paths")

    def ref(self, data: st.DataObject) -> str:
        names = sorted([*self.branches(), *self.model.tags])
        commits = st.sampled_from(list(self.model.commits))  # in the order of their making: ids hold the time
        odd = strategies.ref_expressions([*names, "none"]) | commits.map(lambda commit: commit[:12])
        return data.draw(st.one_of(*[st.sampled_from(names)] * 4, commits, odd), "ref")

    def description(self, data: st.DataObject) -> Description:
        self.clock += data.draw(st.sampled_from([10, 10, 0]), "seconds")
        skew = data.draw(st.sampled_from([0, 0, 0, -35, 35]), "skew")
        message = data.draw(st.sampled_from(["one", "two"]), "message")
        committer = data.draw(st.sampled_from(["ann", "bob"]), "committer")
        metadata = data.draw(st.sampled_from([{}, {"b": "1", "a": "é"}]), "metadata")
        return Description(message, committer, self.clock + skew, metadata)

    def resolutions(self, data: st.DataObject) -> dict[str, Any]:
        choices = st.sampled_from(["source", "destination", "base", "deleted", *self.stored])
        some = st.dictionaries(st.sampled_from(self.paths), choices, min_size=1, max_size=4)
        return data.draw(st.one_of(st.just({}), st.just({}), some), "resolutions")

    def both(self, expected: Callable[[], Any], actual: Callable[[], Any]) -> Any:
        """Do the same to the model and to the repository: both give the same, or the same error."""
        wanted = outcome(expected)
        assert outcome(actual) == wanted
        rule_name = sys._getframe(1).f_code.co_name
        kind = wanted[0] if isinstance(wanted, tuple) else wanted if isinstance(wanted, type) else type(wanted)
        event(f"{rule_name}: {kind.__name__}")
        return wanted

    # -- writing ---------------------------------------------------------------------------------------------

    @rule(data=st.data(), body=strategies.contents(), metadata=strategies.metadata(), is_new=st.booleans())
    def upload(self, data: st.DataObject, body: bytes, metadata: dict[str, str], is_new: bool) -> None:
        branch, path = self.branch(data), self.path(data)
        taken = is_new and path in self.model.entries(branch)
        written = self.real.branch(branch).object(path)
        result = outcome(lambda: written.upload(body, "xb" if is_new else "wb", metadata=metadata) and "written")
        assert result == ("written" if not taken else model_error("ObjectExistsException"))
        if not taken:
            self.staged_put(branch, path)

    def staged_put(self, branch: str, path: str) -> None:
        """Tell the model of a put whose address the repository chose."""
        table = self.real.branch(branch).objects_table(prefix=path).slice(0, 1)
        row = table.to_pylist(maps_as_pydicts="strict")[0]
        assert row["path"] == path
        self.model.stage(branch, [StagedOp("put", path, entry_of(row))])

    @rule(data=st.data())
    def stage_table(self, data: st.DataObject) -> None:
        self.stage_some(self.branch(data), data)

    @rule(data=st.data(), is_first=st.booleans())
    def edit_and_commit(self, data: st.DataObject, is_first: bool) -> None:
        """What people do most: some new objects, some deleted ones, and a commit."""
        branch = self.branch(data)
        if is_first or not self.model.entries(branch):
            self.stage_some(branch, data)
        else:
            self.delete_some(branch, data)
        self.commit_branch(branch, data)

    def stage_some(self, branch: str, data: st.DataObject) -> None:
        self.stage_paths(branch, self.some_paths(data), data)

    def stage_paths(self, branch: str, paths: list[str], data: st.DataObject) -> None:
        entries = [data.draw(st.sampled_from(self.stored)) for _ in paths]
        table = pa.table({"path": paths, **{name: [getattr(e, name) for e in entries] for name in given_columns()}})
        assert self.real.branch(branch).stage(table) == len(paths)
        self.model.stage(branch, [StagedOp("put", *row) for row in zip(paths, entries, strict=True)])

    @rule(data=st.data())
    def copy(self, data: st.DataObject) -> None:
        source, path, branch, target = self.ref(data), self.path(data), self.branch(data), self.path(data)
        result = outcome(lambda: self.real.ref(source).object(path).copy(branch, target).path)
        entries = outcome(lambda: self.model.entries(source))
        entry = entries.get(path) if isinstance(entries, dict) else None
        missing = model_error("ObjectNotFoundException") if isinstance(entries, dict) else entries
        assert result == (target if entry else missing)
        if entry:
            self.model.stage(branch, [StagedOp("put", target, entry)])

    @rule(data=st.data())
    def delete_one(self, data: st.DataObject) -> None:
        branch, path = self.branch(data), self.path(data)
        is_there = path in self.model.entries(branch)
        result = outcome(lambda: self.real.branch(branch).object(path).delete())
        assert result == (None if is_there else model_error("ObjectNotFoundException"))
        if is_there:
            self.model.stage(branch, [StagedOp("delete", path)])

    @rule(data=st.data())
    def delete_many(self, data: st.DataObject) -> None:
        self.delete_some(self.branch(data), data)

    def delete_some(self, branch: str, data: st.DataObject) -> None:
        paths = self.some_paths(data)
        self.real.branch(branch).delete_objects(paths)
        self.model.stage(branch, [StagedOp("delete", path) for path in paths])

    @rule(data=st.data(), kind=st.sampled_from(["reset", "common_prefix", "object"]))
    def reset(self, data: st.DataObject, kind: Any) -> None:
        branch = self.branch(data)
        path = self.path(data) if kind == "object" else data.draw(strategies.prefixes_of(self.paths))
        self.real.branch(branch).reset_changes(kind, path)
        op = StagedOp("reset", path) if kind == "object" else StagedOp("reset-prefix", path * (kind != "reset"))
        self.model.stage(branch, [op])

    @rule(data=st.data(), allow_empty=st.sampled_from([False, False, True]))
    def commit(self, data: st.DataObject, allow_empty: bool) -> None:
        self.commit_branch(self.branch(data), data, allow_empty=allow_empty)

    def commit_branch(self, branch: str, data: st.DataObject, *, allow_empty: bool = False) -> None:
        said = self.description(data)
        self.both(
            lambda: self.model.commit(branch, said, allow_empty=allow_empty),
            lambda: self.real.branch(branch).commit(allow_empty=allow_empty, **described(said)).id,
        )

    @rule(data=st.data(), bodies=st.lists(strategies.contents(), max_size=3))
    def transact(self, data: st.DataObject, bodies: list[bytes]) -> None:
        branch, message = self.branch(data), f"transaction {len(self.model.commits)}"
        if self.model.uncommitted(branch):
            assert outcome(self.real.branch(branch).transact(message).__enter__) == model_error("DirtyBranchError")
            return
        with self.real.branch(branch).transact(message) as tx:
            self.model.create_branch(tx.id, branch)
            for body in bodies:
                path = self.path(data)
                tx.object(path).upload(body)
                put = tx.object(path).stat()
                address = self.real.opened.relative_address(put.physical_address)
                entry = Entry(address, put.size_bytes, put.checksum, put.content_type, ())
                self.model.stage(tx.id, [StagedOp("put", path, entry)])
        if not self.model.uncommitted(tx.id):
            self.model.delete_branch(tx.id)
        else:
            merged = self.real.branch(branch).get_commit()
            inner = self.real.commit(merged.parents[1]).get_commit()
            self.model.commit(tx.id, Description(message, "tests", inner.creation_date))
            with self.model.operations.one(branch, tx.id):
                self.model.merge(tx.id, branch, Description(message, "tests", merged.creation_date))
                self.model.delete_branch(tx.id)

    # -- refs ------------------------------------------------------------------------------------------------

    @rule(data=st.data(), is_tag=st.sampled_from([False, False, False, True]))
    def create_ref(self, data: st.DataObject, is_tag: bool) -> None:
        free = [name for name in NAMES if name not in self.model.branches and name not in self.model.tags]
        name, source = data.draw(st.sampled_from(free or NAMES) | st.sampled_from(NAMES), "name"), self.ref(data)
        make = self.model.create_tag if is_tag else self.model.create_branch
        handle: Any = self.real.tag(name) if is_tag else self.real.branch(name)
        self.both(lambda: make(name, source) or name, lambda: handle.create(source).id)

    @rule(name=st.sampled_from(NAMES), is_tag=st.booleans())
    def delete_ref(self, name: str, is_tag: bool) -> None:
        handle: Any = self.real.tag(name) if is_tag else self.real.branch(name)
        self.both(lambda: (self.model.delete_tag if is_tag else self.model.delete_branch)(name), handle.delete)

    @rule(data=st.data(), is_expected=st.booleans())
    def move_to(self, data: st.DataObject, is_expected: bool) -> None:
        branch, target = self.branch(data), self.ref(data)
        expected = self.ref(data) if is_expected else None
        self.both(
            lambda: self.model.move_branch(branch, target, expected),
            lambda: self.real.branch(branch).move_to(target, expected=expected).id,
        )

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        done, logged = self.model.operations.all, list(self.real.operations())
        changed = [{change.name for change in changes} for _, changes in reversed(logged)]
        assert changed == [operation.changes.keys() for operation in done]
        number = data.draw(st.sampled_from([*range(len(done))[:-8:-1], 0]), "operation")
        self.both(
            lambda: self.model.operations.undo(number),
            lambda: self.real.undo(logged[-1 - number][0].id) and None,
        )

    # -- merging ---------------------------------------------------------------------------------------------

    def clean_branch(self, data: st.DataObject) -> str:
        """A branch, most often without uncommitted changes."""
        branch = self.branch(data)
        if self.model.uncommitted(branch) and data.draw(st.sampled_from([True, True, True, False]), "is clean"):
            self.commit_branch(branch, data)
        return branch

    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        self.merge_branches(data, {}, {})

    @rule(data=st.data(), strategy=STRATEGIES, squash=st.booleans(), allow_empty=st.booleans())
    def merge_somehow(self, data: st.DataObject, strategy: Any, squash: bool, allow_empty: bool) -> None:
        how = {"strategy": strategy, "squash": squash, "allow_empty": allow_empty}
        self.merge_branches(data, self.resolutions(data), how)

    @rule(data=st.data(), amount=st.integers(1, 3), strategy=STRATEGIES)
    def merge_all(self, data: st.DataObject, amount: int, strategy: Any) -> None:
        branch, said = self.clean_branch(data), self.description(data)
        sources = [self.ref(data) for _ in range(amount)]
        self.both(
            lambda: self.model.merge_all(sources, branch, said, strategy=strategy),
            lambda: self.real.branch(branch).merge_all(sources, strategy=strategy, **described(said)),
        )

    @rule(data=st.data(), strategies=st.tuples(STRATEGIES, STRATEGIES))
    def criss_cross(self, data: st.DataObject, strategies: tuple[Any, Any]) -> None:
        """Merge two branches into each other as they were before, so that the next merge has several bases."""
        branches = [self.clean_branch(data), self.clean_branch(data)]
        heads = [self.model.branch(branch).head for branch in branches]
        for branch, other, strategy in zip(branches, reversed(heads), strategies, strict=True):
            self.merge_refs(other, branch, data, {}, {"strategy": strategy})

    def merge_branches(self, data: st.DataObject, chosen: dict[str, Any], how: dict[str, Any]) -> None:
        branch = self.clean_branch(data)
        self.merge_refs(self.ref(data), branch, data, chosen, how)

    def merge_refs(
        self, source: str, branch: str, data: st.DataObject, chosen: dict[str, Any], how: dict[str, Any]
    ) -> None:
        said = self.description(data)
        bases = outcome(lambda: self.model.merge_bases([self.model.resolve(source)], self.model.resolve(branch)))
        result = self.both(
            lambda: self.model.merge(source, branch, said, resolutions=chosen, **how),
            lambda: self.real.ref(source).merge_into(branch, resolutions=given(chosen), **how, **described(said)),
        )
        if isinstance(result, str):
            assert self.real.branch(branch).head.id == result
            event(f"merge over {len(bases)} bases")

    @rule(data=st.data(), is_revert=st.booleans())
    def reapply(self, data: st.DataObject, is_revert: bool) -> None:
        self.reapply_commit(data, None, {}, is_revert=is_revert)

    @rule(data=st.data(), strategy=STRATEGIES, is_revert=st.booleans())
    def reapply_somehow(self, data: st.DataObject, strategy: Any, is_revert: bool) -> None:
        self.reapply_commit(data, strategy, self.resolutions(data), is_revert=is_revert)

    def reapply_commit(self, data: st.DataObject, strategy: Any, chosen: dict[str, Any], *, is_revert: bool) -> None:
        branch, ref, said = self.clean_branch(data), self.ref(data), self.description(data)
        commit = self.model.commits.get(outcome(lambda: self.model.resolve(ref)))
        is_merge = commit is not None and len(commit.parents) > 1
        parent = data.draw(st.sampled_from([1, 2, 1, 2, 0, 3] if is_merge else [0, 0, 1, 2]), "parent")
        apply = self.model.revert if is_revert else self.model.cherry_pick
        handle = self.real.branch(branch)
        really: Any = handle.revert if is_revert else handle.cherry_pick
        self.both(
            lambda: apply(branch, ref, said, parent, strategy=strategy, resolutions=chosen),
            lambda: really(ref, parent, strategy=strategy, resolutions=given(chosen), **described(said)).id,
        )

    # -- reading ---------------------------------------------------------------------------------------------

    @rule(data=st.data())
    def compare(self, data: st.DataObject) -> None:
        left, right = self.ref(data), self.ref(data)
        kinds: Any = ("two_dot", "three_dot")
        for kind in kinds:
            self.both(
                lambda kind=kind: self.model.diff(left, right, kind),
                lambda kind=kind: {c.path: (c.type, c.size_bytes) for c in self.real.ref(left).diff(right, type=kind)},
            )
        self.both(
            lambda: self.model.merge_bases([self.model.resolve(left)], self.model.resolve(right)),
            lambda: [commit.id for commit in self.real.merge_bases(left, right)],
        )

    @rule(data=st.data(), first_parent=st.booleans())
    def log(self, data: st.DataObject, first_parent: bool) -> None:
        ref = self.ref(data)
        self.both(
            lambda: self.model.log(ref, first_parent=first_parent),
            lambda: [commit.id for commit in self.real.ref(ref).log(first_parent=first_parent)],
        )

    @rule(data=st.data(), delimiter=st.sampled_from(["", "/", "//", "🦆", "a"]), amount=st.sampled_from([None, 1, 2]))
    def listing(self, data: st.DataObject, delimiter: str, amount: int | None) -> None:
        ref, prefix = self.ref(data), data.draw(strategies.prefixes_of(self.paths), "prefix")
        after = data.draw(st.just("") | strategies.prefixes_of(self.paths), "after")
        how: dict[str, Any] = {"prefix": prefix, "after": after, "delimiter": delimiter}
        self.both(
            lambda: self.model.listing(ref, max_amount=amount, **how),
            lambda: [item.path for item in self.real.ref(ref).objects(max_amount=amount, **how)],
        )

    @rule(data=st.data())
    def stat(self, data: st.DataObject) -> None:
        ref, path = self.ref(data), self.path(data)
        stored = self.real.ref(ref).object(path)
        is_there = self.both(lambda: path in self.model.entries(ref), stored.exists)
        if is_there is True:
            entry, found = self.model.entries(ref)[path], stored.stat()
            assert found.physical_address == self.real.opened.full_address(entry.physical_address)
            assert (found.size_bytes, found.checksum, found.content_type) == entry[1:4]
            assert hashlib.md5(stored.reader().read()).hexdigest() == entry.checksum

    @rule(is_from_lake=st.booleans())
    def reopen(self, is_from_lake: bool) -> None:
        namespace = self.real.properties.storage_namespace
        self.real = self.lake.repository("machine") if is_from_lake else Repository.open(namespace, user="tests")
        self.judge = Judge(self.model)

    # -- what holds after every step -------------------------------------------------------------------------

    @invariant()
    def repository_is_what_the_model_says(self) -> None:
        self.judge.check(self.real)

    @invariant()
    def same_contents_have_the_same_metarange_id(self) -> None:
        for commit in self.model.commits:
            tree = self.model.commits[commit].tree
            known = _metaranges.setdefault(tree.threshold, {})
            real = self.real.commit(commit).get_commit().meta_range_id
            assert known.setdefault(frozenset(tree.identities.items()), real) == real

    def teardown(self) -> None:
        if hasattr(self, "model"):
            Judge(self.model).check(self.real)
            self.judge.check_written(self.real)


def given_columns() -> tuple[str, ...]:
    return ("physical_address", "size_bytes", "checksum")


def given(chosen: dict[str, Any]) -> dict[str, Any]:
    """Resolutions as the API takes them: entries as mappings."""
    return {
        path: {name: getattr(value, name) for name in given_columns()} if isinstance(value, Entry) else value
        for path, value in chosen.items()
    }


def described(said: Description) -> dict[str, Any]:
    return {
        "message": said.message,
        "committer": said.committer,
        "date": said.creation_date,
        "metadata": said.metadata,
    }


def model_error(name: str) -> type[LakesparkError]:
    return getattr(errors, name)


_EXAMPLES, _STEPS = (200, 60) if settings.get_current_profile_name() == "long" else (15, 30)

TestLakes = pytest.mark.exhaustive(Lakes.TestCase)
TestLakes.settings = settings(
    max_examples=_EXAMPLES,
    stateful_step_count=_STEPS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
