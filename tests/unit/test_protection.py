"""Protection rules: what they forbid on which branches, and that they hold against who races with them."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from refusals import everything, refused

import lakespark
from lakespark.errors import (
    BadRequestException,
    BranchProtectedError,
    ForbiddenException,
    ImportManagerException,
    InvalidNameError,
    NotFoundException,
    RefNotFoundError,
)
from lakespark.model import ProtectionRule
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store
from lakespark.testing.faults import FaultyStore

_names = itertools.count()
FILES = pa.table({"path": ["x"], "physical_address": ["data/x"], "size_bytes": [1], "checksum": ["etag:x"]})
BOTH = ("staging_write", "commit")


@pytest.fixture
def store():
    return open_store(f"memory://protection-{next(_names)}")


@pytest.fixture
def repo(store):
    """Main and dev have changed since they parted; something is staged on ``release-1``."""
    repo = (
        lakespark.Lake(store.location.url, user="ann").repository("demo").create(storage_namespace=store.location.url)
    )
    main = repo.branch("main")
    main.object("a").upload("1")
    main.commit("first")
    dev = repo.branch("dev").create("main")
    dev.object("b").upload("2")
    dev.commit("on dev")
    repo.branch("release-1").create("main").object("c").upload("staged")
    repo.branch("clean").create("main")
    return repo


def opened_at(store, user="bob"):
    return lakespark.Repository(None, None, OpenRepository(store, user=user, options={}))


def stream(branch):
    with branch.object("new").writer() as out:
        out.write(b"new")


def transact(branch):
    with branch.transact("together") as tx:
        tx.object("t").upload("t")


WRITES = {
    "upload": lambda branch: branch.object("new").upload("new"),
    "exclusive upload": lambda branch: branch.object("new").upload("new", mode="x"),
    "stream": stream,
    "copy": lambda branch: branch.repository.ref("dev").object("b").copy(branch.id, "copied"),
    "delete": lambda branch: branch.object("a").delete(),
    "delete many": lambda branch: branch.delete_objects(["a", "b"]),
    "stage": lambda branch: branch.stage(FILES),
    "write a table": lambda branch: branch.write(pa.table({"n": [1]}), "t/"),
    "append a table": lambda branch: branch.write(pa.table({"n": [1]}), "t/", mode="append"),
    "reset": lambda branch: branch.reset_changes(),
    "reset a prefix": lambda branch: branch.reset_changes("common_prefix", "a"),
    "reset an object": lambda branch: branch.reset_changes("object", "a"),
}
COMMITS = {
    "commit": lambda branch: branch.commit("mine"),
    "empty commit": lambda branch: branch.commit("mine", allow_empty=True),
    "cherry-pick": lambda branch: branch.cherry_pick("dev"),
    "move": lambda branch: branch.move_to("dev"),
    "delete": lambda branch: branch.delete(),
}
ALLOWED = {
    "merge": lambda branch: branch.repository.ref("dev").merge_into(branch),
    "squash merge": lambda branch: branch.repository.ref("dev").merge_into(branch, squash=True),
    "revert": lambda branch: branch.revert("main"),
    "transaction": transact,
    "branch off": lambda branch: branch.repository.branch("off").create(branch),
    "tag": lambda branch: branch.repository.tag("v1").create(branch),
    "read": lambda branch: branch.object("a").reader().read(),
}


@pytest.mark.parametrize("actions", [["staging_write"], BOTH])
@pytest.mark.parametrize("name", WRITES)
def test_writes_to_a_protected_branch_are_refused(repo, name, actions):
    repo.protect("clean", actions)
    with refused(repo, BranchProtectedError, r"branch 'clean' is protected by the rule 'clean' .* merge that into"):
        WRITES[name](repo.branch("clean"))
    WRITES[name](repo.branch("main"))


@pytest.mark.parametrize("name", WRITES)
def test_writes_are_refused_to_a_handle_that_has_not_seen_the_rule_yet(store, repo, name):
    branch = opened_at(store).branch("clean")
    assert branch.object("a").exists()
    repo.protect("clean")
    before = [item.path for item in branch.objects()]
    with pytest.raises(BranchProtectedError):
        WRITES[name](branch)
    assert [item.path for item in branch.objects()] == before


def test_no_contents_are_written_for_an_upload_that_is_refused(store, repo):
    repo.protect("main")
    before = {file.key for file in store.list("")}
    for name in ("upload", "exclusive upload", "stream", "write a table"):
        with pytest.raises(BranchProtectedError):
            WRITES[name](repo.branch("main"))
    assert {file.key for file in store.list("")} == before


@pytest.mark.parametrize("actions", [["commit"], BOTH])
@pytest.mark.parametrize("name", COMMITS)
def test_commits_on_a_protected_branch_are_refused(repo, name, actions):
    branch = "release-1" if name == "commit" else "clean"
    repo.protect(branch, actions)
    with refused(repo, BranchProtectedError, f"branch '{branch}' is protected by the rule"):
        COMMITS[name](repo.branch(branch))
    repo.unprotect(branch)
    COMMITS[name](repo.branch(branch))


def test_an_import_into_a_protected_branch_is_refused(repo):
    listing = pa.table({"address": ["s3://elsewhere/x"], "size": [3], "checksum": ["etag:x"]})
    repo.protect("clean", ["commit"])
    with refused(repo, ImportManagerException, "branch 'clean' is protected") as no:
        repo.branch("clean").import_data().listing(listing).run()
    assert type(no.value.__cause__) is BranchProtectedError
    repo.unprotect("clean")
    repo.branch("clean").import_data().listing(listing).run()


@pytest.mark.parametrize("name", ALLOWED)
def test_a_protected_branch_takes_merges_and_reverts_and_is_read(repo, name):
    repo.protect("*")
    ALLOWED[name](repo.branch("main"))


def test_a_rule_that_forbids_commits_alone_lets_everybody_stage(repo):
    repo.protect("clean", ["commit"])
    repo.branch("clean").object("x").upload("x")
    with refused(repo, BranchProtectedError, r"\(commit\)"):
        repo.branch("clean").commit("mine")


def test_a_rule_that_forbids_writes_alone_lets_what_is_staged_be_committed(repo):
    repo.protect("release-*", ["staging_write"])
    repo.branch("release-1").commit("what was there")
    assert repo.branch("release-1").head.object("c").exists()


def test_a_branch_that_is_not_there_is_not_called_protected(repo):
    repo.protect("*")
    for act in (*WRITES.values(), *COMMITS.values()):
        with pytest.raises((RefNotFoundError, lakespark.errors.ObjectNotFoundException)):
            act(repo.branch("nobody"))


def test_the_default_branch_is_still_not_deleted_for_that_reason(repo):
    repo.protect("main")
    with refused(repo, ForbiddenException, "default branch"):
        repo.branch("main").delete()


# -- patterns --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "protected"),
    [
        ("main", {"main"}),
        ("*", {"main", "dev", "release-1", "clean"}),
        ("release-*", {"release-1"}),
        ("release-?", {"release-1"}),
        ("re*1", {"release-1"}),
        ("[md]*", {"main", "dev"}),
        ("[!md]*", {"release-1", "clean"}),
        ("Main", set()),
        ("mai", set()),
        ("release", set()),
        ("main:*", set()),
    ],
)
def test_a_pattern_is_about_whole_names(repo, pattern, protected):
    repo.protect(pattern)
    found = set()
    for branch in repo.branches():
        try:
            branch.object("x").upload("x")
        except BranchProtectedError:
            found.add(branch.id)
    assert found == protected


@pytest.mark.parametrize("pattern", ["", "a b", "a/b", "é", "x" * 256, "a~", None, 7])
def test_a_pattern_that_no_branch_name_can_match_is_refused(repo, pattern):
    with refused(repo, InvalidNameError, "invalid pattern"):
        repo.protect(pattern)
    with refused(repo, InvalidNameError, "invalid pattern"):
        repo.unprotect(pattern)


@pytest.mark.parametrize("actions", [[], ["merge"], ["commit", "push"], "write"])
def test_an_unknown_action_is_refused(repo, actions):
    with refused(repo, BadRequestException, "a protection rule blocks one or more of staging_write, commit"):
        repo.protect("main", actions)


def test_rules_are_listed_in_order_and_replaced_by_pattern(store, repo):
    assert repo.protection_rules() == []
    assert repo.protect("release-*") == ProtectionRule("release-*", BOTH)
    repo.protect("main", ["commit", "staging_write", "commit"])
    repo.protect("dev", "commit")
    rules = [ProtectionRule("dev", ("commit",)), ProtectionRule("main", BOTH), ProtectionRule("release-*", BOTH)]
    assert repo.protection_rules() == rules == opened_at(store).protection_rules()
    repo.protect("main", ["commit"])
    repo.unprotect("dev")
    assert repo.protection_rules() == [ProtectionRule("main", ("commit",)), rules[2]]


def test_a_rule_that_is_there_already_makes_no_operation(repo):
    repo.protect("main")
    before = everything(repo)
    repo.protect("main")
    assert everything(repo) == before


def test_deleting_a_rule_that_is_not_there_names_those_that_are(repo):
    repo.protect("main")
    with refused(repo, NotFoundException, "no protection rule 'dev'; there are: 'main'"):
        repo.unprotect("dev")


def test_rules_are_settings_beside_those_of_the_repository(repo):
    before = repo.properties, repo.metadata
    repo.protect("main")
    assert (repo.properties, repo.metadata) == before


def test_rules_survive_compactions_and_the_snapshot(store, repo):
    repo.protect("main")
    repo.protect("gone")
    repo.unprotect("gone")
    for number in range(40):
        repo.tag(f"t{number}").create("main")
    assert opened_at(store).protection_rules() == [ProtectionRule("main", BOTH)]


# -- races -----------------------------------------------------------------------------------------------------

RACES = {**COMMITS, "undo": lambda branch: branch.repository.undo(branched_commit(branch.repository))}


def branched_commit(repo):
    return next(info.id for info, _ in repo.operations(ref="dev") if info.verb == "commit")


@pytest.mark.parametrize("name", RACES)
def test_who_races_with_a_new_rule_loses(store, repo, name):
    """The rule lands just before the entry of the other: decided on settings that no longer hold, it is refused."""
    faulty = FaultyStore(store)
    branch = {"commit": "release-1", "undo": "dev"}.get(name, "clean")
    racing = opened_at(faulty).branch(branch)
    before = repo.branch(branch).head.id
    protected = []

    def overtake(call):
        if call.method == "put_if_absent" and call.key.startswith("_lakespark/ledger") and not protected:
            protected.append(repo.protect(branch))

    faulty.on_call = overtake
    with pytest.raises(BranchProtectedError):
        RACES[name](racing)
    assert protected
    assert repo.branch(branch).head.id == before


def test_who_races_with_a_rule_about_others_lands(store, repo):
    faulty = FaultyStore(store)
    protected = []

    def overtake(call):
        if call.method == "put_if_absent" and call.key.startswith("_lakespark/ledger") and not protected:
            protected.append(repo.protect("main"))

    faulty.on_call = overtake
    opened_at(faulty).branch("release-1").commit("mine")
    assert protected
    assert repo.branch("release-1").get_commit().message == "mine"


def test_two_rules_made_at_once_are_both_there(store, repo):
    faulty = FaultyStore(store)
    others = []

    def overtake(call):
        if call.method == "put_if_absent" and call.key.startswith("_lakespark/ledger") and not others:
            others.append(repo.protect("dev"))

    faulty.on_call = overtake
    opened_at(faulty).protect("main")
    assert [rule.pattern for rule in repo.protection_rules()] == ["dev", "main"]
