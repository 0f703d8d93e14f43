"""What a repository may hold after the steps of the writers in many_writers.py, from what each was told.

A step without an answer, the last of a killed writer, has been done or has not. Values are keys of steps, None for
no object. Others may commit a writer's paths on a shared branch at any moment, so that there ``committed`` has more
than one possible value until the writer's own commit is answered.
"""

from __future__ import annotations

from collections.abc import Iterable

from many_writers import SHARED, Step, Told, paths_of

Values = dict[str, frozenset[str | None]]


class Expected:
    """The possible values of one writer's paths: on the branch, in its head, and, for its own branch, in main."""

    def __init__(self, told: Told) -> None:
        self._paths = {branch: paths_of(branch, told.writer) for branch in (told.writer, *SHARED)}
        nothing = frozenset({None})
        self.visible: Values = {path: nothing for paths in self._paths.values() for path in paths}
        self.committed: Values = dict(self.visible)
        self.merged: Values = dict.fromkeys(self._paths[told.writer], nothing)
        for step, is_answered in told.steps():
            before = (dict(self.visible), dict(self.committed), dict(self.merged))
            self._apply(step)
            if not is_answered:
                for now, then in zip((self.visible, self.committed, self.merged), before, strict=True):
                    now.update({path: values | then[path] for path, values in now.items()})

    def _apply(self, step: Step) -> None:
        paths = self._paths[step.branch]
        if step.verb == "upload":
            self.visible[step.path] = frozenset({step.key})
        elif step.verb == "delete":
            self.visible[step.path] = frozenset({None})
        elif step.verb == "undo":
            self.visible[step.path] = self.committed[step.path]
        elif step.verb == "reset":
            self.visible.update({path: self.committed[path] for path in paths})
        elif step.verb == "commit":
            self.committed.update({path: self.visible[path] for path in paths})
        elif step.verb == "merge" and step.branch == step.writer:
            self.merged.update({path: self.committed[path] for path in paths})
        if step.branch in SHARED:
            self.committed.update({path: self.committed[path] | self.visible[path] for path in paths})


def landed(everybody: Iterable[Told], *verbs: str, branch: str | None = None) -> tuple[dict[str, str], set[str]]:
    """The ids by key that steps of these kinds (on a branch) were answered, and the keys that have no answer."""
    answered, unanswered = {}, set()
    for told in everybody:
        for step, is_answered in told.steps():
            if step.verb not in verbs or branch not in (None, step.branch):
                continue
            if not is_answered:
                unanswered.add(step.key)
            elif told.answers[step.number] is not None:
                answered[step.key] = told.answers[step.number]
    return answered, unanswered


def claims(everybody: Iterable[Told]) -> dict[tuple[str, str], list[tuple[Step, bool, str]]]:
    """By branch and path: each answered claim, whether it was accepted, and whose the object was said to be."""
    found: dict[tuple[str, str], list[tuple[Step, bool, str]]] = {}
    for told in everybody:
        for step, is_answered in told.steps():
            if step.verb == "claim" and is_answered:
                found.setdefault((step.branch, step.path), []).append((step, *told.answers[step.number]))
    return found
