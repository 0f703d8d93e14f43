"""State of the reference model: branches, tags, staging areas and commits, in dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Literal, NamedTuple

from lakespark import refspec
from lakespark.errors import (
    AmbiguousRefError,
    ForbiddenException,
    InvalidRefExpressionError,
    NameTakenError,
    NothingToCommitError,
    RefMovedError,
    RefNotFoundError,
)
from lakespark.testing.model_operations import ModelOperations
from lakespark.testing.trees import Changes, Entry, Range, Tree, after_changes, cut, hash_of, untouched

Op = Literal["put", "delete", "delete-prefix", "reset", "reset-prefix"]
_SHORTEST_PREFIX = 4


class ModelCommit(NamedTuple):
    """A commit with its whole tree. ``number`` counts commits in the order of their making."""

    number: int
    id: str
    parents: tuple[str, ...]
    committer: str
    message: str
    creation_date: int
    metadata: Mapping[str, str]
    tree: Tree


class Description(NamedTuple):
    """What a commit is described with. ``creation_date`` is in unix seconds."""

    message: str
    committer: str = "tests"
    creation_date: int = 0
    metadata: Mapping[str, str] = {}


class StagedOp(NamedTuple):
    """One staged row. Those of a prefix have it as their path; only a put has an entry."""

    op: Op
    path: str
    entry: Entry | None = None

    def covers(self, path: str) -> bool:
        """Whether the row says something of a path."""
        return path.startswith(self.path) if self.op.endswith("-prefix") else path == self.path


class ModelBranch:
    """A branch: its head and what is staged on it, in the order of writing."""

    def __init__(self, head: str) -> None:
        self.head = head
        self.staged: list[StagedOp] = []


class ModelState:
    """Refs, staging areas and commits. ``threshold`` is where ranges are cut."""

    def __init__(self, threshold: str, initial: Description, default_branch: str = "main") -> None:
        self.default_branch = default_branch
        self.commits: dict[str, ModelCommit] = {}
        self.tags: dict[str, str] = {}
        self._files = count()
        self.ranges_written = 0
        self.abandoned: set[int] = set()
        """Files of trees that were written for commits that never came to be."""
        self.operations = ModelOperations(self)
        self.branches: dict[str, ModelBranch] = {}
        tree = Tree(next(self._files), threshold, ())
        with self.operations.one(default_branch):
            self.put_branch(default_branch, self._record(tree, (), initial))

    # -- refs ----------------------------------------------------------------------------------------------

    def resolve(self, expression: str) -> str:
        """The commit id that a ref expression stands for."""
        parsed = refspec.parse(expression)
        if parsed.committed and parsed.base not in self.branches:
            self._find(parsed.base)
            raise InvalidRefExpressionError(f"{expression!r}: '@' follows a branch only")
        commit = self._find(parsed.base)
        for step in parsed.steps:
            repeats, number = (step.count, 1) if step.kind == "~" else (min(step.count, 1), step.count)
            for _ in range(repeats):
                parents = self.commits[commit].parents
                if number > len(parents):
                    raise RefNotFoundError(expression)
                commit = parents[number - 1]
        return commit

    def _find(self, name: str) -> str:
        if name in self.commits:
            return name
        if name in self.branches:
            return self.branches[name].head
        if name in self.tags:
            return self.tags[name]
        found = [commit for commit in self.commits if commit.startswith(name)] if len(name) >= _SHORTEST_PREFIX else []
        if len(found) > 1:
            raise AmbiguousRefError(name, found)
        if not found:
            raise RefNotFoundError(name)
        return found[0]

    def branch(self, name: str) -> ModelBranch:
        """A branch by name."""
        if name not in self.branches:
            raise RefNotFoundError(name)
        return self.branches[name]

    def put_branch(self, name: str, head: str, staged: Iterable[StagedOp] = ()) -> None:
        """Have a branch be in just this state."""
        branch = self.branches[name] = ModelBranch(head)
        branch.staged.extend(staged)

    def create_branch(self, name: str, source: str) -> None:
        """A new branch at a ref expression."""
        head = self.resolve(source)
        self._check_free(name)
        with self.operations.one(name):
            self.put_branch(name, head)

    def create_tag(self, name: str, source: str) -> None:
        """A new tag at a ref expression."""
        target = self.resolve(source)
        self._check_free(name)
        with self.operations.one(name):
            self.tags[name] = target

    def delete_branch(self, name: str) -> None:
        """Delete a branch with what is staged on it."""
        self.branch(name)
        if name == self.default_branch:
            raise ForbiddenException(name)
        with self.operations.one(name):
            del self.branches[name]

    def delete_tag(self, name: str) -> None:
        """Delete a tag."""
        if name not in self.tags:
            raise RefNotFoundError(name)
        with self.operations.one(name):
            del self.tags[name]

    def move_branch(self, name: str, target: str, expected: str | None = None) -> str:
        """Point a branch at a ref expression; what is staged stays."""
        branch = self.branch(name)
        if expected is not None and branch.head != self.resolve(expected):
            raise RefMovedError(name)
        head = self.resolve(target)
        with self.operations.one(name):
            branch.head = head
        return head

    def _check_free(self, name: str) -> None:
        if name in self.branches or name in self.tags:
            raise NameTakenError(name)

    # -- staging -------------------------------------------------------------------------------------------

    def stage(self, branch: str, ops: Iterable[StagedOp]) -> None:
        """Append rows to what is staged."""
        self.branch(branch).staged.extend(ops)

    def changes(self, branch: str) -> dict[str, Entry | None]:
        """What is staged, folded: for each path the newest row that covers it, unless that is a reset."""
        state = self.branch(branch)
        own = {op.path for op in state.staged if not op.op.endswith("-prefix")}
        changes: dict[str, Entry | None] = {}
        for path in sorted(own | self.head(branch).entries.keys()):
            newest = next((op for op in reversed(state.staged) if op.covers(path)), None)
            if newest is not None and not newest.op.startswith("reset"):
                changes[path] = newest.entry
        return changes

    def uncommitted(self, branch: str) -> dict[str, tuple[str, int | None]]:
        """Type of change and new size of each path that staging really changes."""
        committed = self.head(branch).entries
        staged = after_changes(committed, self.changes(branch))
        return differences(committed, staged)

    def head(self, branch: str) -> Tree:
        """The committed tree of a branch."""
        return self.commits[self.branch(branch).head].tree

    def entries(self, expression: str) -> dict[str, Entry]:
        """The entries at a ref expression, with what is staged if it is a bare branch name."""
        tree = self.commits[self.resolve(expression)].tree
        return after_changes(tree.entries, self.changes(expression) if expression in self.branches else {})

    def listing(
        self, expression: str, *, prefix: str = "", after: str = "", delimiter: str = "", max_amount: int | None = None
    ) -> list[str]:
        """Paths and, with a delimiter, folders."""
        paths = [path for path in self.entries(expression) if path.startswith(prefix)]
        items = sorted({folded(path, prefix, delimiter) for path in paths})
        return [item for item in items if item > after][:max_amount]

    # -- commits -------------------------------------------------------------------------------------------

    def commit(self, branch: str, description: Description, *, allow_empty: bool = False) -> str:
        """Commit what is staged; with ``allow_empty`` new addresses of equal contents are taken in as well."""
        state = self.branch(branch)
        base = self.head(branch)
        tree = self._tree_after(base, self.changes(branch), () if allow_empty else (base,), (base,))
        if tree.id == base.id and not allow_empty:
            raise NothingToCommitError(branch)
        return self.land(branch, tree, (state.head,), description)

    def land(self, branch: str, tree: Tree, parents: tuple[str, ...], description: Description) -> str:
        """A commit of a tree, which the branch is at now with nothing staged; its id."""
        with self.operations.one(branch):
            self.put_branch(branch, self._record(tree, parents, description))
        return self.branches[branch].head

    def _record(self, tree: Tree, parents: tuple[str, ...], description: Description) -> str:
        """Keep a commit; if there is one of that id already, that one stays."""
        message, committer, date, metadata = description
        pairs = [text for key in sorted(metadata) for text in (key, metadata[key])]
        made = hash_of(committer, message, tree.id, date, len(metadata), *pairs, len(parents), *parents)
        if made not in self.commits:
            number = len(self.commits)
            self.commits[made] = ModelCommit(number, made, parents, committer, message, date, metadata, tree)
        return made

    def _tree_after(self, base: Tree, changes: Changes, reuse: Sequence[Tree], same: Sequence[Tree]) -> Tree:
        """A tree after changes: ranges that they leave alone are kept, and so are equal ones of ``reuse``.

        ``same``: trees whose file serves again if the ranges are theirs.
        """
        known = {part.id: part for tree in reversed(reuse) for part in tree.ranges}
        known |= {part.id: part for part in untouched(base, changes)}
        runs = [Range(-1, run) for run in cut(after_changes(base.entries, changes), base.threshold)]
        ranges = tuple(known.get(run.id) or self._written(run) for run in runs)
        found = next((tree for tree in same if tree.ranges == ranges), None)
        return found or Tree(next(self._files), base.threshold, ranges)

    def _written(self, run: Range) -> Range:
        self.ranges_written += 1
        return run._replace(file=next(self._files))


def folded(path: str, prefix: str, delimiter: str) -> str:
    """The path itself or, if the delimiter stands behind the prefix, the folder up to there."""
    if not delimiter or delimiter not in path[len(prefix) :]:
        return path
    return path[: path.index(delimiter, len(prefix)) + len(delimiter)]


def differences(left: Mapping[str, Entry], right: Mapping[str, Entry]) -> dict[str, tuple[str, int | None]]:
    """Type of change and size on the right of each path that differs."""
    found: dict[str, tuple[str, int | None]] = {}
    for path in sorted({*left, *right}):
        if path not in left:
            found[path] = ("added", right[path].size_bytes)
        elif path not in right:
            found[path] = ("removed", None)
        elif left[path].identity != right[path].identity:
            found[path] = ("changed", right[path].size_bytes)
    return found
