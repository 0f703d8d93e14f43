"""Little else than undoing and redoing, in any order: a repository and the model stay the same after every step.

``--hypothesis-profile=long`` runs it at length.
"""

import itertools
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakespark import Lake, errors
from lakespark.errors import LakesparkError
from lakespark.testing.judge import Judge, entry_of
from lakespark.testing.model import ModelRepository
from lakespark.testing.model_operations import ModelOperation
from lakespark.testing.model_state import Description, StagedOp
from lakespark.testing.trees import threshold_for

BRANCHES, TAGS, PATHS = ("main", "dev"), ("v1",), ("a", "a/b", "é")
_lakes = itertools.count()


def outcome(work: Any) -> Any:
    """The value of some work, or the class of its error."""
    try:
        return work()
    except LakesparkError as error:
        return type(error)


class Undoing(RuleBasedStateMachine):
    """Writes, commits, merges and refs, and one step in three takes one of them back."""

    @initialize()
    def create(self) -> None:
        self.real = Lake(f"memory://undoing-{next(_lakes)}/lake", user="tests").repository("undoing").create()
        first = self.real.branch("main").get_commit()
        self.model = ModelRepository(
            threshold_for(5000), Description(first.message, first.committer, first.creation_date)
        )
        self.judge = Judge(self.model)
        self.clock = 1000
        for name in ("dev", "v1"):
            self.upload("main", "a", name.encode())
            self.commit("main")
            self.create_ref(name, "main")

    def both(self, expected: Any, actual: Any) -> None:
        wanted = outcome(expected)
        assert outcome(actual) == wanted
        event(f"{sys._getframe(1).f_code.co_name}: {wanted.__name__ if isinstance(wanted, type) else 'done'}")

    def described(self) -> tuple[Description, dict[str, Any]]:
        self.clock += 1
        return Description("work", "tests", self.clock), {"message": "work", "date": self.clock}

    @rule(branch=st.sampled_from(BRANCHES), path=st.sampled_from(PATHS), body=st.sampled_from([b"1", b"2", b"3"]))
    def upload(self, branch: str, path: str, body: bytes) -> None:
        if branch not in self.model.branches:
            return
        self.real.branch(branch).object(path).upload(body)
        row = self.real.branch(branch).objects_table(prefix=path).slice(0, 1).to_pylist(maps_as_pydicts="strict")[0]
        self.model.stage(branch, [StagedOp("put", path, entry_of(row))])

    @rule(branch=st.sampled_from(BRANCHES), path=st.sampled_from(PATHS), op=st.sampled_from(["delete", "reset"]))
    def stage(self, branch: str, path: str, op: Any) -> None:
        if branch not in self.model.branches:
            return
        handle = self.real.branch(branch)
        if op == "delete":
            handle.delete_objects(path)
        else:
            handle.reset_changes("object", path)
        self.model.stage(branch, [StagedOp(op, path)])

    @rule(branch=st.sampled_from(BRANCHES))
    def reset_all(self, branch: str) -> None:
        if branch in self.model.branches:
            self.real.branch(branch).reset_changes()
            self.model.stage(branch, [StagedOp("reset-prefix", "")])

    @rule(branch=st.sampled_from(BRANCHES))
    def commit(self, branch: str) -> None:
        said, how = self.described()
        self.both(lambda: self.model.commit(branch, said), lambda: self.real.branch(branch).commit(**how).id)

    @rule(source=st.sampled_from([*BRANCHES, *TAGS]), branch=st.sampled_from(BRANCHES))
    def merge(self, source: str, branch: str) -> None:
        said, how = self.described()
        self.both(
            lambda: self.model.merge(source, branch, said, strategy="source-wins"),
            lambda: str(self.real.ref(source).merge_into(branch, strategy="source-wins", **how)),
        )

    @rule(branch=st.sampled_from(BRANCHES), goal=st.sampled_from([*BRANCHES, *TAGS, "main~1"]))
    def move(self, branch: str, goal: str) -> None:
        self.both(lambda: self.model.move_branch(branch, goal), lambda: self.real.branch(branch).move_to(goal).id)

    @rule(name=st.sampled_from([*BRANCHES, *TAGS]), source=st.sampled_from(BRANCHES))
    def create_ref(self, name: str, source: str) -> None:
        handle: Any = self.real.tag(name) if name in TAGS else self.real.branch(name)
        make = self.model.create_tag if name in TAGS else self.model.create_branch
        self.both(lambda: make(name, source) or name, lambda: handle.create(source).id)

    @rule(name=st.sampled_from([*BRANCHES, *TAGS]))
    def delete_ref(self, name: str) -> None:
        handle: Any = self.real.tag(name) if name in TAGS else self.real.branch(name)
        remove = self.model.delete_tag if name in TAGS else self.model.delete_branch
        self.both(lambda: remove(name), handle.delete)

    @rule(name=st.sampled_from(BRANCHES))
    def restore(self, name: str) -> None:
        done = self.model.operations.all
        gone = [o for o in done if name in o.changes and o.changes[name][1] is None]
        deletions = [o.number for o in gone if self.model.operations.undone_by(o) is None]
        if name in self.model.branches:
            expected: Any = errors.NameTakenError
        elif not deletions:
            expected = errors.RefNotFoundError
        else:
            expected = outcome(lambda: self.model.operations.undo(deletions[-1]))
        assert outcome(lambda: self.real.branch(name).restore() and None) == expected

    @rule(back=st.integers(0, 8))
    def undo_any(self, back: int) -> None:
        self.undo(self.model.operations.all[-1 - back :][0])

    @rule(name=st.sampled_from([*BRANCHES, *TAGS]))
    def undo_newest(self, name: str) -> None:
        """The newest operation of a ref that is neither undone nor an undo: steps back, one after the other."""
        self.undo_last(lambda operation: name in operation.changes and operation.undoes is None)

    @rule(name=st.sampled_from([*BRANCHES, *TAGS]))
    def redo(self, name: str) -> None:
        self.undo_last(lambda operation: name in operation.changes and operation.undoes is not None)

    def undo_last(self, is_meant: Any) -> None:
        operations = self.model.operations
        found = [o for o in operations.all if is_meant(o) and operations.undone_by(o) is None]
        if found:
            self.undo(found[-1])

    def undo(self, operation: ModelOperation) -> None:
        logged = list(self.real.operations())[-1 - operation.number]
        assert {change.name for change in logged[1]} == operation.changes.keys()
        self.both(
            lambda: self.model.operations.undo(operation.number),
            lambda: self.real.undo(logged[0].id) and None,
        )

    @rule()
    def reopen(self) -> None:
        namespace = self.real.properties.storage_namespace
        self.real = type(self.real).open(namespace, user="tests")
        self.judge = Judge(self.model)

    @invariant()
    def repository_is_what_the_model_says(self) -> None:
        self.judge.check(self.real)

    @invariant()
    def the_log_says_what_was_undone(self) -> None:
        ids = [info.id for info, _ in self.real.operations()][::-1]
        for info, _ in self.real.operations():
            known = self.model.operations.all[ids.index(info.id)]
            undone_by = self.model.operations.undone_by(known)
            assert info.undone_by == (undone_by and ids[undone_by.number])
            assert info.undoes == (known.undoes and ids[known.undoes.number])

    @invariant()
    def no_token_was_current_twice(self) -> None:
        made_current = [
            change.after.token
            for _, changes in self.real.operations()
            for change in changes
            if change.after is not None and change.after.kind == "branch"
            if change.before is None or change.before.token != change.after.token
        ]
        assert len(set(made_current)) == len(made_current)


_EXAMPLES, _STEPS = (300, 60) if settings.get_current_profile_name() == "long" else (12, 25)

TestUndoing = pytest.mark.exhaustive(Undoing.TestCase)
TestUndoing.settings = settings(
    max_examples=_EXAMPLES,
    stateful_step_count=_STEPS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
