"""What one call of the command line was asked globally, and the handles that it works with."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lakespark.cli.output import JsonOutput, Output, TextOutput
from lakespark.cli.settings import find_settings
from lakespark.errors import BadRequestException
from lakespark.uri import LakeUri, parse_ref

if TYPE_CHECKING:
    from lakespark.branch import Branch
    from lakespark.lake import Lake
    from lakespark.model import Commit, Operation, RefState
    from lakespark.reference import Reference
    from lakespark.repository import Repository


@dataclass
class Session:
    """The global options as given, before or after the verb."""

    lake: str | None = None
    user: str | None = None
    config: str | None = None
    json: bool = False

    @cached_property
    def output(self) -> Output:
        """Where to print."""
        return JsonOutput() if self.json else TextOutput()

    @cached_property
    def opened_lake(self) -> Lake:
        """The lake. Raises BadRequestException if none is named."""
        from lakespark.lake import Lake

        settings = find_settings(self.lake, self.user, self.config, os.environ)
        return Lake(settings.lake, user=settings.user, **settings.storage)

    def repository(self, uri: LakeUri) -> Repository:
        """The repository of a URI."""
        return self.opened_lake.repository(uri.repository)

    def reference(self, uri: LakeUri) -> Reference:
        """The ref of a URI that has one."""
        return self.repository(uri).ref(uri.ref or "")

    def branch(self, uri: LakeUri) -> Branch:
        """The branch of a URI that has one."""
        return self.repository(uri).branch(uri.ref or "")


def ref_of(text: str, beside: LakeUri) -> str:
    """A ref expression from one, or from a URI, which must be in the repository of another one."""
    if "://" not in text:
        return text
    uri = parse_ref(text)
    same_repository(uri, beside)
    return uri.ref or ""


def same_repository(uri: LakeUri, other: LakeUri) -> None:
    """Raises BadRequestException for URIs of two repositories."""
    if uri.repository != other.repository:
        raise BadRequestException(f"{uri} and {other} are in different repositories: this works within one")


def landed_before(ref: Reference, key: str | None, verb: str) -> Operation | None:
    """What was done to a ref under an idempotency key already, or None. Raises BadRequestException for a wrong key."""
    from lakespark.operations import commit

    return commit.landed_before(ref.repository.opened, key, verb, ref.id)


def show_made(session: Session, branch: Branch, key: str | None, verb: str, make: Callable[[], Commit]) -> None:
    """Have a commit made under an idempotency key, if any, and print it, and whether it was made before."""
    from lakespark.cli import text

    is_repeated = landed_before(branch, key, verb) is not None
    made = make()
    if is_repeated:
        session.output.message(text.repeated(key))
    session.output.value({**made._asdict(), "repeated": is_repeated}, text.commit(made))


def ref_states(repository: Repository) -> dict[str, RefState]:
    """Every branch and tag with its state, in order of name, from one look at the repository."""
    repository.opened.ledger.refresh()
    return dict(sorted(repository.opened.ledger.refs().items()))


def names_by_commit(repository: Repository) -> dict[str, list[str]]:
    """Names of branches and tags by the commit that they point at, hidden ones left out."""
    names: dict[str, list[str]] = {}
    for name, state in ref_states(repository).items():
        if not state.hidden:
            names.setdefault(state.commit_id, []).append(f"tag: {name}" if state.kind == "tag" else name)
    return names
