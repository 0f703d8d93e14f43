"""Two operations in every order of their storage calls: whatever was acknowledged is there, exactly once."""

from __future__ import annotations

import itertools

import pytest

import lakespark
from lakespark.errors import (
    ConflictException,
    DirtyBranchError,
    NameTakenError,
    NothingToCommitError,
    RefNotFoundError,
)
from lakespark.operations.fsck.check import fsck
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store
from lakespark.tables import ledger as ledgers
from lakespark.tables.delta_log import DeltaLog
from lakespark.tables.ledger_rows import LEDGER_SCHEMA
from lakespark.testing.schedules import explore

pytestmark = pytest.mark.exhaustive
_names = itertools.count()
DATE = 1_700_000_000


def repository_at(store, user="ann"):
    return lakespark.Repository(None, None, OpenRepository(store, user=user, options={}))


@pytest.fixture(scope="module")
def template():
    """``main`` with one commit, ``dev`` one ahead of it; on both, something is staged."""
    url = f"memory://interleavings-{next(_names)}"
    lakespark.Lake(url).repository("analytics").create(storage_namespace=url)
    repo = repository_at(open_store(url))
    main = repo.branch("main")
    main.object("old").upload("0")
    main.commit("first", date=DATE)
    dev = repo.branch("dev").create("main")
    dev.object("on-dev").upload("1")
    dev.commit("on dev", date=DATE)
    main.object("staged").upload("1")
    dev.object("staged-on-dev").upload("1")
    return open_store(url)


@pytest.fixture(scope="module")
def clean_template(template):
    """The same with nothing staged, and a branch ``twin`` where ``main`` is."""
    url = f"memory://interleavings-{next(_names)}"
    copy = open_store(url)
    for file in template.list(""):
        copy.put(file.key, template.get(file.key))
    repo = repository_at(copy)
    repo.branch("main").reset_changes()
    repo.branch("dev").reset_changes()
    repo.branch("twin").create("main")
    return copy


def commit(branch, message="second"):
    return lambda repo: repo.branch(branch).commit(message, date=DATE)


def write(branch, path):
    return lambda repo: repo.branch(branch).object(path).upload("written")


@pytest.fixture(params=["cold", "warm"])
def run_all(request, capsys):
    """Explore, with an fsck after each schedule, and say how many there were.

    Warm handles have read all branches before; cold ones open the repository as part of their operation.
    """

    def actor_of(operation):
        def actor(store):
            repo = repository_at(store)
            if request.param == "warm":
                for branch in repo.branches():
                    list(branch.objects())
            return lambda: operation(repo)

        return actor

    def check_all(check):
        def checked(store, outcomes):
            check(repository_at(store), outcomes)
            report = fsck(OpenRepository(store, user="ann", options={}), objects=True)
            assert report.is_clean, report.findings

        return checked

    def run(template, operations, check):
        explored = explore(template, [actor_of(operation) for operation in operations], check_all(check))
        with capsys.disabled():
            print(f" {explored.schedules} schedules ({explored.redundant} more given up as equal)", end="")
        assert explored.schedules > 1

    return run


def paths(reference):
    return [entry.path for entry in reference.objects()]


def messages(branch):
    return [commit.message for commit in branch.log()]


def uncommitted(branch):
    return [change.path for change in branch.uncommitted()]


def acknowledged(outcome, *errors):
    """Whether an operation was; it may have been refused with one of these errors only."""
    if outcome.error is not None:
        assert isinstance(outcome.error, errors), outcome.error
    return outcome.error is None


def test_commit_and_commit(template, run_all):
    """One of them takes what is staged; the other finds nothing more to commit, or the very same commit."""

    def check(repo, outcomes):
        main = repo.branch("main")
        done = [outcome.value.id for outcome in outcomes if acknowledged(outcome, NothingToCommitError)]
        assert done
        assert set(done) == {main.get_commit().id}
        assert messages(main) == ["second", "first", "Repository created"]
        assert paths(main) == ["old", "staged"]
        assert not uncommitted(main)

    run_all(template, [commit("main"), commit("main")], check)


def test_two_different_commits(template, run_all):
    """One comes after the other, which has taken what is staged."""

    def check(repo, outcomes):
        main = repo.branch("main")
        ids = [outcome.value.id for outcome in outcomes if acknowledged(outcome)]
        assert sorted(ids) == sorted(commit.id for commit in main.log(max_amount=2))
        assert sorted(messages(main)[:2]) == ["second", "third"]
        assert paths(main.head) == ["old", "staged"]

    def also_if_empty(message):
        return lambda repo: repo.branch("main").commit(message, date=DATE, allow_empty=True)

    run_all(template, [also_if_empty("second"), also_if_empty("third")], check)


def test_commit_and_commit_of_two_branches(template, run_all):
    def check(repo, outcomes):
        assert all(acknowledged(outcome) for outcome in outcomes)
        for branch, path in ((repo.branch("main"), "staged"), (repo.branch("dev"), "staged-on-dev")):
            assert messages(branch)[0] == "second"
            assert path in paths(branch)
            assert not uncommitted(branch)

    run_all(template, [commit("main"), commit("dev")], check)


def test_equal_commits_of_two_branches(clean_template, run_all):
    """The same contents, parent, message and second are one commit: the ledger has its record once."""

    def check(repo, outcomes):
        (commit_id,) = {outcome.value.id for outcome in outcomes if acknowledged(outcome)}
        assert [repo.branch(name).get_commit().id for name in ("main", "twin")] == [commit_id] * 2
        assert commits_in_the_ledger(repo).count(commit_id) == 1

    def also_if_empty(branch):
        return lambda repo: repo.branch(branch).commit("second", date=DATE, allow_empty=True)

    run_all(clean_template, [also_if_empty("main"), also_if_empty("twin")], check)


def commits_in_the_ledger(repo):
    """The id of each commit record, as often as it stands there."""
    log = DeltaLog(repo.opened.store, ledgers.ROOT, LEDGER_SCHEMA)
    log.load()
    rows = [row for file in log.files.values() for row in log.read_rows(file).to_pylist()]
    return [row["name"] for row in rows if row["kind"] == "commit"]


def test_commit_and_write(template, run_all):
    """The written object is in the commit or uncommitted, and stays so in the next commit."""

    def check(repo, outcomes):
        assert all(acknowledged(outcome) for outcome in outcomes)
        main = repo.branch("main")
        assert paths(main) == ["old", "staged", "written"]
        is_committed = "written" in paths(main.head)
        assert uncommitted(main) == ([] if is_committed else ["written"])
        assert paths(main.head) == ["old", "staged"] + ["written"] * is_committed
        if not is_committed:
            main.commit("third")
            assert paths(main.head) == ["old", "staged", "written"]

    run_all(template, [commit("main"), write("main", "written")], check)


def test_two_commits_and_write(template, run_all):
    """After the second commit nobody reads the token any more that the write may have gone to."""

    def check(repo, outcomes):
        assert all(acknowledged(outcome) for outcome in outcomes)
        main = repo.branch("main")
        assert paths(main) == ["old", "staged", "written"]
        main.commit("last", allow_empty=True)
        assert paths(main.head) == ["old", "staged", "written"]

    def twice(repo):
        for message in ("second", "third"):
            repo.branch("main").commit(message, date=DATE, allow_empty=True)

    run_all(template, [twice, write("main", "written")], check)


def test_commit_and_write_of_one_path(template, run_all):
    """The write is newer than what the commit takes in, or is what it takes in."""

    def check(repo, outcomes):
        assert all(acknowledged(outcome) for outcome in outcomes)
        main = repo.branch("main")
        assert main.object("staged").reader().read() == b"written"
        assert uncommitted(main) in ([], ["staged"])

    run_all(template, [commit("main"), write("main", "staged")], check)


def test_reset_and_write(template, run_all):
    """What was staged before both is gone; the write came before the reset, or is there."""

    def check(repo, outcomes):
        assert all(acknowledged(outcome) for outcome in outcomes)
        main = repo.branch("main")
        assert uncommitted(main) in ([], ["written"])
        assert paths(main) in (["old"], ["old", "written"])

    def reset(repo):
        repo.branch("main").reset_changes()

    run_all(template, [reset, write("main", "written")], check)


def test_undo_and_write(template, run_all):
    """The commit is taken back, what it took in is uncommitted again, and so is what was written meanwhile."""

    def check(repo, outcomes):
        assert all(acknowledged(outcome) for outcome in outcomes)
        dev = repo.branch("dev")
        assert messages(dev) == ["first", "Repository created"]
        assert uncommitted(dev) == ["on-dev", "staged-on-dev", "written"]
        assert paths(dev) == ["old", "on-dev", "staged-on-dev", "written"]

    def undo(repo):
        last = next(info for info, _ in repo.operations() if info.verb == "commit")
        repo.undo(last.id)

    run_all(template, [undo, write("dev", "written")], check)


def test_merge_and_commit_of_the_source(template, run_all):
    """The merge has the source as it was before the commit or after it; the commit is on its branch."""

    def check(repo, outcomes):
        assert all(acknowledged(outcome) for outcome in outcomes)
        main, dev = repo.branch("main"), repo.branch("dev")
        assert messages(dev) == ["second", "on dev", "first", "Repository created"]
        assert paths(main) in (["old", "on-dev"], ["old", "on-dev", "staged-on-dev"])
        assert main.get_commit().parents[1] in [commit.id for commit in dev.log()][:2]

    def merge(repo):
        repo.branch("main").reset_changes()
        return repo.branch("dev").merge_into("main")

    run_all(template, [merge, commit("dev")], check)


def test_merge_and_commit_of_the_destination(template, run_all):
    """The merge is refused while something is staged, or comes after the commit; nothing of either is lost."""

    def check(repo, outcomes):
        is_merged = acknowledged(outcomes[0], DirtyBranchError)
        assert acknowledged(outcomes[1])
        main = repo.branch("main")
        assert paths(main.head) == ["old"] + ["on-dev"] * is_merged + ["staged"]
        assert messages(main)[-3:] == ["second", "first", "Repository created"] or is_merged
        assert not uncommitted(main)

    def merge(repo):
        return repo.branch("dev").merge_into("main")

    run_all(template, [merge, commit("main")], check)


def test_merge_and_empty_commit_of_the_destination(clean_template, run_all):
    """Nothing is staged, so that the merge is never refused: the two come one after the other."""

    def check(repo, outcomes):
        assert all(acknowledged(outcome) for outcome in outcomes)
        main = repo.branch("main")
        assert paths(main.head) == ["old", "on-dev"]
        assert outcomes[1].value.id in [commit.id for commit in main.log()]
        assert repo.branch("dev").get_commit().id in [commit.id for commit in main.log()]

    def merge(repo):
        return repo.branch("dev").merge_into("main")

    def empty(repo):
        return repo.branch("main").commit("empty", date=DATE, allow_empty=True)

    run_all(clean_template, [merge, empty], check)


def test_merge_and_write_to_the_destination(clean_template, run_all):
    """A write that comes while a merge lands stays uncommitted on the merged branch."""

    def check(repo, outcomes):
        is_merged = acknowledged(outcomes[0], DirtyBranchError)
        assert acknowledged(outcomes[1])
        main = repo.branch("main")
        assert uncommitted(main) == ["written"]
        assert paths(main.head) == ["old"] + ["on-dev"] * is_merged

    def merge(repo):
        return repo.branch("dev").merge_into("main")

    run_all(clean_template, [merge, write("main", "written")], check)


def test_create_and_create_of_one_name(template, run_all):
    def check(repo, outcomes):
        won = [acknowledged(outcome, NameTakenError) for outcome in outcomes]
        assert sorted(won) == [False, True]
        source = ("main", "dev")[won.index(True)]
        assert repo.branch("new").get_commit().id == repo.ref(f"{source}@").get_commit().id

    def create(source):
        return lambda repo: repo.branch("new").create(source)

    run_all(template, [create("main"), create("dev")], check)


def test_create_of_a_branch_and_of_a_tag_of_one_name(template, run_all):
    def check(repo, outcomes):
        assert sorted(acknowledged(outcome, NameTakenError) for outcome in outcomes) == [False, True]
        names = [branch.id for branch in repo.branches()] + [tag.id for tag in repo.tags()]
        assert names.count("new") == 1

    def create_branch(repo):
        repo.branch("new").create("main")

    def create_tag(repo):
        repo.tag("new").create("main")

    run_all(template, [create_branch, create_tag], check)


def test_commit_and_branch_delete(template, run_all):
    """The branch is gone; a commit that was acknowledged came before, and its operation says so."""

    def check(repo, outcomes):
        is_committed = acknowledged(outcomes[0], RefNotFoundError)
        assert acknowledged(outcomes[1])
        assert [branch.id for branch in repo.branches()] == ["main"]
        verbs = [info.verb for info, _ in repo.operations()][: 1 + is_committed]
        assert verbs == ["branch-delete", "commit"][: 1 + is_committed]

    def delete(repo):
        repo.branch("dev").delete()

    run_all(template, [commit("dev"), delete], check)


def test_two_exclusive_uploads_of_one_path(template, run_all):
    def check(repo, outcomes):
        won = [acknowledged(outcome, ConflictException) for outcome in outcomes]
        assert sorted(won) == [False, True]
        assert repo.branch("main").object("new").reader().read() == (b"1", b"2")[won.index(True)]

    def upload(contents):
        return lambda repo: repo.branch("main").object("new").upload(contents, mode="x")

    run_all(template, [upload("1"), upload("2")], check)


def test_two_commits_under_one_idempotency_key(template, run_all):
    def check(repo, outcomes):
        assert len({outcome.value.id for outcome in outcomes if acknowledged(outcome)}) == 1
        assert messages(repo.branch("main")) == ["second", "first", "Repository created"]

    def keyed(repo):
        return repo.branch("main").commit("second", idempotency_key="load-1")

    run_all(template, [keyed, keyed], check)
