"""The reference model: a repository in plain Python, slow and simple, to judge the real one by.

It holds every branch, tag and commit in dicts, decides everything path by path over whole trees, and raises the
errors of ``lakespark.errors``. Its commit ids and metarange ids are those of a real repository that was given
the same work, so a test compares with ``==``. Times of entries are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from lakespark.errors import (
    BadRequestException,
    DirtyBranchError,
    InvalidResolutionError,
    LakesparkError,
    MergeConflictError,
    NothingToMergeError,
    RefNotFoundError,
)
from lakespark.testing import merging
from lakespark.testing.model_state import Description, ModelBranch, ModelState, differences
from lakespark.testing.trees import Entry, Tree

Resolution = Entry | str


class ModelRepository(ModelState):
    """A repository: its state, and what is worked out from it. ``threshold`` is where ranges are cut."""

    # -- history -------------------------------------------------------------------------------------------

    def ancestors(self, tips: Iterable[str]) -> set[str]:
        """Every commit that can be reached, the tips included."""
        seen: set[str] = set()
        pending = list(tips)
        while pending:
            commit = pending.pop()
            if commit not in seen:
                seen.add(commit)
                pending.extend(self.commits[commit].parents)
        return seen

    def reachable(self) -> set[str]:
        """Every commit that a branch or tag reaches."""
        return self.ancestors([*(branch.head for branch in self.branches.values()), *self.tags.values()])

    def merge_bases(self, left: Iterable[str], right: str) -> list[str]:
        """The common ancestors that are ancestors of no other, the oldest first."""
        common = self.ancestors(left) & self.ancestors([right])
        lesser = self.ancestors(parent for commit in common for parent in self.commits[commit].parents)
        return sorted(common - lesser, key=lambda commit: (self._date(commit), self.commits[commit].number))

    def log(self, expression: str, *, first_parent: bool = False) -> list[str]:
        """Commits, each after all its children, otherwise the newest first."""
        parents = {commit: self.commits[commit].parents for commit in self.commits}
        if first_parent:
            parents = {commit: several[:1] for commit, several in parents.items()}
        start = self.resolve(expression)
        waiting, pending = {start}, [start]
        while pending:
            fresh = set(parents[pending.pop()]) - waiting
            waiting |= fresh
            pending.extend(fresh)
        shown: list[str] = []
        while waiting:
            ready = [c for c in waiting if not any(c in parents[child] for child in waiting)]
            shown.append(max(ready, key=lambda commit: (self._date(commit), self.commits[commit].number)))
            waiting.remove(shown[-1])
        return shown

    def _date(self, commit: str) -> int:
        return self.commits[commit].creation_date

    # -- diff and merge ------------------------------------------------------------------------------------

    def diff(self, left: str, right: str, kind: Literal["two_dot", "three_dot"]) -> dict[str, tuple[str, int | None]]:
        """Type of change and size on the right of each path that the right side changed."""
        ours, theirs = (self.commits[self.resolve(side)].tree for side in (left, right))
        if kind == "two_dot":
            return differences(ours.entries, theirs.entries)
        base = self._base(self.merge_bases([self.resolve(left)], self.resolve(right)))
        changes = {}
        for path, outcome in merging.three_way(base, theirs.identities, ours.identities).items():
            entry = theirs.entries.get(path)
            kind_of = "added" if path not in base else "removed" if entry is None else "changed"
            if outcome != "same":
                changes[path] = ("conflict" if outcome == "conflict" else kind_of, entry and entry.size_bytes)
        return changes

    def merge(
        self,
        source: str,
        destination: str,
        description: Description,
        *,
        strategy: str | None = None,
        resolutions: Mapping[str, Resolution] | None = None,
        squash: bool = False,
        allow_empty: bool = False,
    ) -> str:
        """Merge a ref expression into a clean branch. The id of the merge commit."""
        into, resolutions = self._clean(destination), resolutions or {}
        given = self.resolve(source)
        if source == destination:
            raise BadRequestException(source)
        bases = self.merge_bases([given], into.head)
        if bases == [given] and not allow_empty and not resolutions:
            raise NothingToMergeError(source)
        theirs = self.commits[given].tree
        tree, is_change = self._merge_trees(bases, theirs, self.head(destination), strategy, resolutions)
        if not is_change and not allow_empty:
            raise NothingToMergeError(source)
        return self.land(destination, tree, (into.head,) if squash else (into.head, given), description)

    def merge_all(
        self, sources: Sequence[str], destination: str, description: Description, *, strategy: str | None = None
    ) -> list[str | None]:
        """Merge ref expressions one by one as one operation: all or none. The id of each merge, None for no change."""
        before, known = self._clean(destination), set(self.commits)
        given = {source: self.resolve(source) for source in sources}
        try:
            with self.operations.one(destination):
                found = [
                    self._merge_next(source, given[source], destination, description, strategy) for source in sources
                ]
                if not any(found):
                    raise NothingToMergeError(destination)
        except LakesparkError:
            self.branches[destination] = before
            self.abandoned |= {self.commits.pop(commit).tree.file for commit in set(self.commits) - known}
            raise
        return found

    def _merge_next(
        self, source: str, given: str, destination: str, description: Description, strategy: str | None
    ) -> str | None:
        if source == destination:
            raise BadRequestException(source)
        try:
            return self.merge(given, destination, description, strategy=strategy)
        except NothingToMergeError:
            return None

    def revert(self, branch: str, expression: str, description: Description, parent: int = 0, **how: Any) -> str:
        """Undo a commit: a merge of its parent with the commit itself as the base."""
        return self._reapply(branch, expression, description, parent, is_revert=True, **how)

    def cherry_pick(self, branch: str, expression: str, description: Description, parent: int = 0, **how: Any) -> str:
        """Repeat a commit: a merge of the commit with its parent as the base."""
        return self._reapply(branch, expression, description, parent, is_revert=False, **how)

    def _reapply(
        self,
        branch: str,
        expression: str,
        description: Description,
        parent: int,
        *,
        is_revert: bool,
        strategy: str | None = None,
        resolutions: Mapping[str, Resolution] | None = None,
        allow_empty: bool = False,
    ) -> str:
        given = self.commits[self.resolve(expression)]
        if not given.parents or (parent == 0 and len(given.parents) > 1):
            raise BadRequestException(expression)
        if not 0 <= parent <= len(given.parents):
            raise RefNotFoundError(expression)
        before = self.commits[given.parents[max(parent, 1) - 1]]
        base, source = (given, before) if is_revert else (before, given)
        into, ours = self._clean(branch), self.head(branch)
        tree, _ = self._merge_trees([base.id], source.tree, ours, strategy, resolutions or {})
        if tree.id == ours.id and not allow_empty:
            raise NothingToMergeError(expression)
        return self.land(branch, tree, (into.head,), description)

    def _clean(self, name: str) -> ModelBranch:
        if self.uncommitted(name):
            raise DirtyBranchError(name)
        return self.branch(name)

    def _involved(self, bases: Sequence[str]) -> set[str]:
        """The bases, and the bases that they are merged over."""
        deeper = [self.merge_bases(bases[:number], bases[number]) for number in range(1, len(bases))]
        return set(bases).union(*map(self._involved, deeper))

    def _base(self, bases: Sequence[str]) -> Mapping[str, object]:
        """The identities of the base; of several bases, of the one that they merge into, the oldest first."""
        base: Mapping[str, object] = self.commits[bases[0]].tree.identities
        for number in range(1, len(bases)):
            deeper = self._base(self.merge_bases(bases[:number], bases[number]))
            base = merging.merge_bases_into_one(deeper, self.commits[bases[number]].tree.identities, base)
        return base

    def _merge_trees(
        self,
        bases: Sequence[str],
        theirs: Tree,
        ours: Tree,
        strategy: str | None,
        resolutions: Mapping[str, Resolution],
    ) -> tuple[Tree, bool]:
        """The merged tree, and whether the merge has anything to say."""
        if len(bases) == 1 and self.commits[bases[0]].tree.id == ours.id and not resolutions:
            return (ours if theirs == ours else theirs), theirs.id != ours.id
        base = self._base(bases)
        outcomes = merging.three_way(base, theirs.identities, ours.identities)
        left = {path: outcome for path, outcome in outcomes.items() if path not in resolutions}
        conflicts = [path for path, outcome in left.items() if outcome == "conflict"]
        if conflicts and strategy is None:
            raise MergeConflictError("conflicts", [_conflict(path, base, theirs, ours) for path in conflicts])
        taken = ("source", "conflict") if strategy == "source-wins" else ("source",)
        changes = {path: theirs.entries.get(path) for path, outcome in left.items() if outcome in taken}
        for path, resolution in resolutions.items():
            if resolution != "destination":
                changes[path] = self._resolved(path, resolution, base, bases, theirs)
        return self._tree_after(ours, changes, (ours, theirs), (ours, theirs)), bool(left or resolutions)

    def _resolved(
        self, path: str, resolution: Resolution, base: Mapping[str, object], bases: Sequence[str], theirs: Tree
    ) -> Entry | None:
        if isinstance(resolution, Entry):
            return resolution
        value, entry = base.get(path), theirs.entries.get(path)
        if resolution == "source" or (resolution == "base" and entry is not None and entry.identity == value):
            return entry
        if resolution == "deleted" or value is None:
            return None
        trees = (self.commits[commit].tree.entries for commit in self._involved(bases))
        found = [tree[path] for tree in trees if path in tree and tree[path].identity == value]
        if not found:
            raise InvalidResolutionError(path)
        return min(found)


def _conflict(path: str, base: Mapping[str, object], theirs: Tree, ours: Tree) -> dict[str, str | None]:
    was = base.get(path)
    sides = theirs.identities.get(path), ours.identities.get(path)
    return {
        "path": path,
        "conflict": merging.describe(was, *sides),
        "base_identity": was if isinstance(was, str) else None,
        "source_identity": sides[0],
        "destination_identity": sides[1],
    }
