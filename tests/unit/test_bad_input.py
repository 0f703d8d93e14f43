"""Calls that cannot be done: an error of its own class that names the thing and says what to do; nothing changes."""

from __future__ import annotations

import itertools
import re

import pytest
from refusals import everything, refused

import lakespark
from lakespark.errors import (
    BadRequestException,
    DirtyBranchError,
    ForbiddenException,
    InvalidNameError,
    InvalidPathError,
    InvalidRefExpressionError,
    InvalidResolutionError,
    MergeConflictError,
    NameTakenError,
    NothingToCommitError,
    NothingToMergeError,
    ObjectExistsException,
    ObjectNotFoundException,
    RefMovedError,
    RefNotFoundError,
    TransactionException,
)

_names = itertools.count()


@pytest.fixture(scope="module")
def lake():
    return lakespark.Lake(f"memory://bad-input-{next(_names)}/lake", user="ann")


@pytest.fixture(scope="module")
def repo(lake):
    """Branches main, dev (which conflicts with main on ``a``), side (a merge), dirty and behind; a tag v1."""
    repo = lake.repository("analytics").create()
    main = repo.branch("main")
    main.object("a").upload("1")
    main.object("b/c").upload("1")
    main.commit("first")
    repo.branch("behind").create("main")
    dev, side = repo.branch("dev").create("main"), repo.branch("side").create("main")
    dev.object("a").upload("dev")
    dev.commit("on dev")
    side.object("s").upload("side")
    side.commit("on side")
    main.object("a").upload("main")
    main.commit("second")
    side.merge_into("main", message="merged")
    main.object("last").upload("1")
    main.commit("last")
    repo.tag("v1").create("main")
    dirty = repo.branch("dirty").create("main")
    dirty.object("d/1").upload("1")
    dirty.object("a").delete()
    return repo


MAIN_ID = "0" * 64
LONG = "x" * 1025

CALLS = {
    # what does not exist
    "a ref": (lambda r: r.ref("nope").get_commit(), RefNotFoundError, "ref 'nope' not found"),
    "a ref to list": (lambda r: list(r.ref("nope").objects()), RefNotFoundError, "'nope'"),
    "a ref to read": (lambda r: r.ref("nope").object("a").reader(), RefNotFoundError, "'nope'"),
    "a ref to log": (lambda r: list(r.ref("nope").log()), RefNotFoundError, "'nope'"),
    "a ref to stop at": (lambda r: list(r.ref("main").log(stop_at="nope")), RefNotFoundError, "'nope'"),
    "a ref to compare": (lambda r: list(r.ref("main").diff("nope")), RefNotFoundError, "'nope'"),
    "a ref to merge": (lambda r: r.ref("nope").merge_into("main"), RefNotFoundError, "'nope'"),
    "a ref to revert": (lambda r: r.branch("main").revert("nope"), RefNotFoundError, "'nope'"),
    "a ref to pick": (lambda r: r.branch("main").cherry_pick("nope"), RefNotFoundError, "'nope'"),
    "a ref to move to": (lambda r: r.branch("main").move_to("nope"), RefNotFoundError, "'nope'"),
    "a ref to branch off": (lambda r: r.branch("new").create("nope"), RefNotFoundError, "'nope'"),
    "a ref to tag": (lambda r: r.tag("new").create("nope"), RefNotFoundError, "'nope'"),
    "a commit": (lambda r: r.ref(MAIN_ID).get_commit(), RefNotFoundError, MAIN_ID),
    "a prefix too short": (lambda r: r.ref(r.branch("main").head.id[:3]).get_commit(), RefNotFoundError, "not found"),
    "a branch to write": (lambda r: r.branch("nope").object("x").upload("1"), RefNotFoundError, "branch 'nope'"),
    "a branch to commit": (lambda r: r.branch("nope").commit("m"), RefNotFoundError, "branch 'nope'"),
    "a branch to reset": (lambda r: r.branch("nope").reset_changes(), RefNotFoundError, "branch 'nope'"),
    "a branch to delete": (lambda r: r.branch("nope").delete(), RefNotFoundError, "branch 'nope'"),
    "a branch to merge into": (lambda r: r.ref("main").merge_into("nope"), RefNotFoundError, "branch 'nope'"),
    "a branch to transact on": (lambda r: r.branch("nope").transact().__enter__(), RefNotFoundError, "'nope'"),
    "a tag to delete": (lambda r: r.tag("nope").delete(), RefNotFoundError, "tag 'nope'"),
    "an object": (lambda r: r.ref("main").object("no/pe").stat(), ObjectNotFoundException, "lakefs://.*/main/no/pe"),
    "an object to read": (lambda r: r.ref("v1").object("nope").reader(), ObjectNotFoundException, "v1/nope"),
    "an object to delete": (lambda r: r.branch("main").object("nope").delete(), ObjectNotFoundException, "main/nope"),
    "an object to copy": (lambda r: r.ref("v1").object("x").copy("main", "y"), ObjectNotFoundException, "v1/x"),
    "a deleted object": (lambda r: r.branch("dirty").object("a").stat(), ObjectNotFoundException, "dirty/a"),
    # ref expressions
    "no such parent": (lambda r: r.ref("main^2").get_commit(), RefNotFoundError, r"'main\^2' not found: .* 1 parent"),
    "no such ancestor": (lambda r: r.ref("main~9").get_commit(), RefNotFoundError, "'main~9' not found: .* no parents"),
    "far too many": (lambda r: r.ref("main~" + "9" * 18).get_commit(), RefNotFoundError, "not found"),
    "@ of a tag": (lambda r: r.ref("v1@").get_commit(), InvalidRefExpressionError, "'@' follows a branch only"),
    # kinds mixed up
    "writing to a tag": (lambda r: r.branch("v1").object("x").upload("1"), RefNotFoundError, "'v1'.* it is a tag"),
    "committing a tag": (lambda r: r.branch("v1").commit("m"), RefNotFoundError, "'v1'.* it is a tag"),
    "merging into a tag": (lambda r: r.ref("main").merge_into("v1"), RefNotFoundError, "'v1'.* it is a tag"),
    "deleting a tag as a branch": (lambda r: r.branch("v1").delete(), RefNotFoundError, "'v1'.* it is a tag"),
    "deleting a branch as a tag": (lambda r: r.tag("dev").delete(), RefNotFoundError, "'dev'.* it is a branch"),
    "writing to a commit": (
        lambda r: r.branch(r.branch("main").head.id).object("x").upload("1"),
        InvalidNameError,
        "form of a commit id",
    ),
    "writing to an expression": (lambda r: r.branch("main~1").object("x").upload("1"), InvalidNameError, "'main~1'"),
    # names
    "a branch's name taken": (lambda r: r.branch("dev").create("main"), NameTakenError, "'dev': a branch"),
    "a branch named as a tag": (lambda r: r.branch("v1").create("main", True), NameTakenError, "'v1': a tag"),
    "a tag's name taken": (lambda r: r.tag("v1").create("main"), NameTakenError, "'v1': a tag"),
    "a tag named as a branch": (lambda r: r.tag("dev").create("main", True), NameTakenError, "'dev': a branch"),
    "a transaction's tag taken": (lambda r: _transact(r, tag="v1"), NameTakenError, "'v1': a tag"),
    "a transaction's tag": (lambda r: _transact(r, tag="a b"), InvalidNameError, "tag name 'a b'"),
    # state
    "nothing to commit": (lambda r: r.branch("main").commit("m"), NothingToCommitError, "'main': stage a change first"),
    "nothing to merge": (
        lambda r: r.ref("behind").merge_into("main"),
        NothingToMergeError,
        "'main' has all of 'behind'",
    ),
    "nothing to revert": (
        lambda r: r.branch("behind").revert("side"),
        NothingToMergeError,
        "nothing to revert: 'behind'",
    ),
    "a dirty destination": (
        lambda r: r.ref("dev").merge_into("dirty"),
        DirtyBranchError,
        r"'dirty' has 2 uncommitted changes: a \(removed by ann at 20.*Z\); d/1 \(added by ann .*\); commit or reset",
    ),
    "a dirty revert": (lambda r: r.branch("dirty").revert("main"), DirtyBranchError, "'dirty' has 2 uncommitted"),
    "a dirty pick": (lambda r: r.branch("dirty").cherry_pick("dev"), DirtyBranchError, "'dirty' has 2 uncommitted"),
    "a dirty transaction": (lambda r: r.branch("dirty").transact().__enter__(), DirtyBranchError, "'dirty' has 2"),
    "a merge into itself": (lambda r: r.branch("main").merge_into("main"), BadRequestException, "'main' into itself"),
    "a conflict": (
        lambda r: r.ref("dev").merge_into("main"),
        MergeConflictError,
        r"1 path .*\(a\); nothing was changed",
    ),
    "a moved branch": (
        lambda r: r.branch("main").move_to("dev", expected="main~1"),
        RefMovedError,
        "'main' is at .* as expected",
    ),
    "the default branch": (lambda r: r.branch("main").delete(), ForbiddenException, "'main' is the default branch"),
    "an exclusive upload": (
        lambda r: r.branch("main").object("a").upload("2", mode="x"),
        ObjectExistsException,
        "lakefs://analytics/main/a",
    ),
    "an exclusive stream": (lambda r: _stream(r, "a"), ObjectExistsException, "lakefs://analytics/main/a"),
    # parents by number
    "parent 2 of 1": (
        lambda r: r.branch("dev").revert("dev", 2),
        RefNotFoundError,
        "'dev' has no parent number 2: it has 1",
    ),
    "parent -1": (lambda r: r.branch("dev").cherry_pick("side", -1), RefNotFoundError, "no parent number -1"),
    "a merge without a parent": (
        lambda r: r.branch("behind").cherry_pick("main~1"),
        BadRequestException,
        "merge of 2 parents; say which",
    ),
    "the parent of the first": (
        lambda r: r.branch("main").revert("main~4"),
        BadRequestException,
        "is the initial commit",
    ),
    # values
    "a read mode": (lambda r: r.ref("main").object("a").reader("w"), BadRequestException, "'w': use 'r' or 'rb'"),
    "a write mode": (lambda r: r.branch("main").object("x").upload("1", mode="a"), BadRequestException, "'a': use 'w'"),
    "no contents": (
        lambda r: r.branch("main").object("x").upload(5),
        BadRequestException,
        "takes str or bytes, not int",
    ),
    "contents not UTF-8": (lambda r: r.branch("main").object("x").upload("\ud800"), BadRequestException, "UTF-8"),
    "object metadata": (
        lambda r: r.branch("main").object("x").upload("1", metadata={"k": 1}),
        BadRequestException,
        "'k'.* is a str, not 1",
    ),
    "object metadata keys": (
        lambda r: r.branch("main").object("x").upload("1", metadata={1: "v"}),
        BadRequestException,
        "is a str, not 1",
    ),
    "object metadata not UTF-8": (
        lambda r: r.branch("main").object("x").upload("1", metadata={"k": "\ud800"}),
        BadRequestException,
        "'k'.*UTF-8",
    ),
    "a content type": (
        lambda r: r.branch("main").object("x").upload("1", content_type=5),
        BadRequestException,
        "content type is a str",
    ),
    "a message": (lambda r: r.branch("dirty").commit(None), BadRequestException, "commit message is a str, not None"),
    "a message not UTF-8": (lambda r: r.branch("dirty").commit("\ud800"), BadRequestException, "message .*UTF-8"),
    "commit metadata": (
        lambda r: r.branch("dirty").commit("m", {"k": 1}),
        BadRequestException,
        "'k'.* is a str, not 1",
    ),
    "a committer": (lambda r: r.branch("dirty").commit("m", committer=5), BadRequestException, "committer is a str"),
    "a date": (
        lambda r: r.branch("dirty").commit("m", date="now"),
        BadRequestException,
        "whole unix seconds, not 'now'",
    ),
    "merge metadata": (
        lambda r: r.ref("side").merge_into("behind", metadata={1: "v"}),
        BadRequestException,
        "is a str, not 1",
    ),
    "a strategy": (
        lambda r: r.ref("dev").merge_into("main", strategy="ours"),
        BadRequestException,
        "'ours': use source-wins",
    ),
    "an engine": (lambda r: list(r.ref("main").diff("dev", engine="x")), BadRequestException, "'x': use 'auto'"),
    "Spark without a session": (
        lambda r: list(r.ref("main").diff("dev", engine="spark")),
        BadRequestException,
        "pass spark=<SparkSession>",
    ),
    "a kind of diff": (lambda r: list(r.ref("main").diff("dev", type="x")), BadRequestException, "'x': use 'two_dot'"),
    "a kind of reset": (lambda r: r.branch("dirty").reset_changes("x", "a"), BadRequestException, "'x': use 'reset'"),
    "a reset of no path": (lambda r: r.branch("dirty").reset_changes("object"), BadRequestException, "needs a path"),
    "a reset not UTF-8": (
        lambda r: r.branch("dirty").reset_changes("common_prefix", "\ud800"),
        BadRequestException,
        "UTF-8",
    ),
    "a choice": (
        lambda r: r.ref("dev").merge_into("main", resolutions={"a": "ours"}),
        InvalidResolutionError,
        "'ours' for 'a': use",
    ),
    "half an entry": (
        lambda r: r.ref("dev").merge_into("main", resolutions={"a": {"size_bytes": 1}}),
        InvalidResolutionError,
        "'a'",
    ),
    "a decided path": (
        lambda r: r.ref("dev").merge_into("main", resolutions={"": "source"}),
        InvalidPathError,
        "it is empty",
    ),
}


def _transact(repo, *, tag, meanwhile=lambda: None):
    with repo.branch("main").transact("m", tag=tag) as tx:
        tx.object("x").upload("1")
        meanwhile()


def _stream(repo, path):
    with repo.branch("main").object(path).writer("xb") as writer:
        writer.write(b"1")


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_cannot_be_done_is_refused_by_name(repo, name):
    act, error, message = CALLS[name]
    with refused(repo, error, message):
        act(repo)


def test_a_transaction_whose_tag_is_taken_meanwhile_is_not_merged(repo):
    """Its hidden branch was made and is gone; nothing that a user sees has changed."""
    before = everything(repo)
    with pytest.raises(TransactionException, match=r"'main' was not merged: .*'late': a tag of that name"):
        _transact(repo, tag="late", meanwhile=lambda: repo.tag("late").create("main"))
    repo.tag("late").delete()
    assert everything(repo)[2:] == before[2:]


@pytest.mark.parametrize(
    "expression",
    ["", "~1", "^", "@", "main^-1", "main~-1", "main~x", "main@~1", "main@@", "main@{1}", "a b", "v..w", "x/y", "é",
     "\ud800", "main~" + "9" * 5000, ".main", "main.lock", "a\n", "a\0", "$x", None, 5],
)  # fmt: skip
def test_a_malformed_ref_expression_is_shown(repo, expression):
    with refused(repo, InvalidRefExpressionError, f"^invalid ref expression {re.escape(repr(expression))}"):
        repo.ref(expression).get_commit()


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "x~1", "a^", "a@", "$", ".a", "a..b", "a.lock", "é", "a\n", "x" * 256, "0" * 64, None]
)
def test_an_illegal_ref_name_is_shown_with_the_rule_it_breaks(repo, name):
    with refused(repo, InvalidNameError, f"invalid branch name {re.escape(repr(name))}: "):
        repo.branch(name).create("main")
    with refused(repo, InvalidNameError, f"invalid tag name {re.escape(repr(name))}: "):
        repo.tag(name).create("main")


@pytest.mark.parametrize("name", ["", "ab", "x" * 64, "Upper", "-dash", "under_score", "a.b", "é" * 3, "a b"])
def test_an_illegal_repository_name_is_shown(lake, repo, name):
    with refused(repo, InvalidNameError, f"invalid repository name {re.escape(repr(name))}: use 3 to 63"):
        lake.repository(name).create()
    with refused(repo, InvalidNameError, f"invalid repository name {re.escape(repr(name))}"):
        lake.repository(name).branch("main").get_commit()


@pytest.mark.parametrize(
    ("path", "problem"),
    [("", "it is empty"), (LONG, "1025 bytes long"), ("é" * 513, "1026 bytes"), ("\ud800", "UTF-8"), ("a\0b", "NUL"),
     (5, "a path is a str, not int"), (b"a", "a path is a str, not bytes"), (None, "not NoneType")],
)  # fmt: skip
def test_an_illegal_path_is_shown_with_the_rule_it_breaks(repo, path, problem):
    branch = repo.branch("main")
    for act in (
        lambda: branch.object(path).upload("1"),
        lambda: repo.ref("main").object(path).stat(),
        lambda: branch.delete_objects([path]),
        lambda: branch.object("a").copy("main", path),
    ):
        with refused(repo, InvalidPathError, f"invalid path .*{problem}"):
            act()


@pytest.mark.parametrize(
    "path",
    ["a//b", "/x", "dir/", "//", ".", "..", "../x", "a/../b", "%20", "a b", " ", "é", "\U0001f600", "a\nb", "#1", "?",
     "*", "\\", "'", '"', "{x}", "x" * 1024, "\x01", "\x7f", "CON", "_delta_log/0.json", ".hidden", "~", "lakefs://a/b/c"],
)  # fmt: skip
def test_every_other_path_is_legal(repo, path):
    branch = repo.branch(f"legal-{next(_names)}").create("main")
    branch.object(path).upload(path)
    assert branch.object(path).reader("r", newline="").read() == path
    branch.commit("odd")
    assert branch.head.object(path).reader("r", newline="").read() == path
    assert path in [o.path for o in branch.head.objects(prefix=path)]
    branch.object(path).delete()
    assert not branch.object(path).exists()
    branch.delete()
