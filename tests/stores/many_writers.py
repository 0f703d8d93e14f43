"""What the writers of test_many_processes.py do: one step after the other, each begun and answered on a file of theirs.

A step follows from the writer's name and its number alone. So whoever takes the place of a killed writer reads the
file and knows which step has no answer, and the test knows what every writer was told.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any, NamedTuple

import lakespark
from lakespark.errors import ContentionError, NothingToCommitError, NothingToMergeError, ObjectExistsException

REPOSITORY = "analytics"
WRITERS = tuple(f"w{number}" for number in range(8))
"""Each has a branch of its own name, which it alone works on and merges into main."""
SHARED = ("shared-0", "shared-1")
"""Branches that all writers work on at once, each below a prefix of its own but for the paths that they claim."""
_WEIGHTS = {
    "upload": 10,
    "claim": 4,
    "delete": 2,
    "commit": 5,
    "merge": 3,
    "branch": 1,
    "tag": 1,
    "reset": 1,
    "undo": 2,
}
_CONTENTION_TRIES = 10


class Step(NamedTuple):
    """What a writer does: ``path`` is that of upload, claim (an exclusive upload), delete and undo (of one path)."""

    writer: str
    number: int
    verb: str
    branch: str
    path: str

    @property
    def key(self) -> str:
        """Its idempotency key, commit message, contents, or the name that it makes."""
        return f"{self.writer}-{self.number}"


class Told(NamedTuple):
    """What a writer's file says: how many steps were begun, and the answers by number. At most the last has none."""

    writer: str
    begun: int
    answers: dict[int, Any]

    def steps(self) -> list[tuple[Step, bool]]:
        """Every step with whether it was answered."""
        return [(plan(self.writer, number), number in self.answers) for number in range(self.begun)]


def plan(writer: str, number: int) -> Step:
    """A step of a writer."""
    chance = random.Random(f"{writer} {number}")
    verb = chance.choices([*_WEIGHTS], [*_WEIGHTS.values()])[0]
    branch = chance.choice(SHARED if verb == "claim" else (writer, writer, *SHARED))
    path = f"{branch}/claimed/{chance.randrange(100)}" if verb == "claim" else chance.choice(paths_of(branch, writer))
    return Step(writer, number, verb, branch, path)


def paths_of(branch: str, writer: str) -> list[str]:
    """The paths that a writer puts on a branch: nobody else does."""
    return [f"{branch}/{writer}/{number}" for number in range(10)]


def told(file: Path) -> Told:
    """What the file of a writer says."""
    lines = [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]] if file.exists() else []
    answers = {line[0]: line[1] for line in lines if len(line) > 1}
    return Told(file.stem, 1 + max((line[0] for line in lines), default=-1), answers)


def work(location: str, options: dict[str, Any], file: Path, stop: Path) -> None:
    """Steps until there is a file ``stop``, beginning with the one that has no answer yet."""
    known = told(file)
    repo = lakespark.Lake(location, user=known.writer, **options).repository(REPOSITORY)
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    number = len(known.answers)
    while not stop.exists():
        os.write(out, json.dumps([number]).encode() + b"\n")
        answer = _perform_though_contended(repo, plan(known.writer, number))
        os.write(out, json.dumps([number, answer]).encode() + b"\n")
        number += 1


def _perform_though_contended(repo: lakespark.Repository, step: Step) -> Any:
    """Repeat a step that failed, safe to repeat, because others were quicker."""
    for _ in range(_CONTENTION_TRIES):
        try:
            return perform(repo, step)
        except ContentionError as error:
            last = error
    raise last


def perform(repo: lakespark.Repository, step: Step) -> Any:
    """Do a step, perhaps again; what it was answered: an id of a commit, or None if there was nothing to do."""
    branch = repo.branch(step.branch)
    if step.verb == "upload":
        branch.object(step.path).upload(step.key)
    elif step.verb == "claim":
        return _claim(branch, step)
    elif step.verb == "delete":
        branch.delete_objects(step.path)
    elif step.verb == "undo":
        branch.reset_changes("object", step.path)
    elif step.verb == "reset" and step.branch == step.writer:
        branch.reset_changes()
    elif step.verb == "reset":
        branch.reset_changes("common_prefix", f"{step.branch}/{step.writer}/")
    elif step.verb == "branch":
        return repo.branch(step.key).create(branch, exist_ok=True).get_commit().id
    elif step.verb == "tag":
        return repo.tag(step.key).create(branch, idempotency_key=step.key).get_commit().id
    else:
        return _commit_or_merge(branch, step)
    return None


def _claim(branch: lakespark.Branch, step: Step) -> tuple[bool, str]:
    """An exclusive upload: whether it was accepted, and whose the object is then."""
    accepted = True
    try:
        branch.object(step.path).upload(step.key, mode="x")
    except ObjectExistsException:
        accepted = False
    return accepted, branch.object(step.path).reader("r").read()


def _commit_or_merge(branch: lakespark.Branch, step: Step) -> str | None:
    try:
        if step.verb == "commit":
            return branch.commit(step.key, idempotency_key=step.key).id
        return str(branch.merge_into("main", message=step.key, idempotency_key=step.key))
    except (NothingToCommitError, NothingToMergeError):
        return None
