"""Steps that are repeated under an idempotency key, and merges of several sources, by the command line."""

import shutil

import pytest

REPO, MAIN, DEV = "lakefs://demo", "lakefs://demo/main", "lakefs://demo/dev"
KEY = ("--idempotency-key", "step-1")
SAID = "done before under the idempotency key 'step-1': nothing was changed\n"


@pytest.fixture
def branches(demo):
    """``demo`` with branches ``north`` and ``south`` of one object each, and ``old``, which has nothing new."""
    for name in ("old", "north", "south"):
        demo("branch", "create", f"{REPO}/{name}", "-s", "main")
    for name in ("north", "south"):
        demo.put(f"{REPO}/{name}/{name}.txt", name)
        demo("commit", f"{REPO}/{name}", "-m", name)
    return demo


def operations(cli):
    return len(cli.json("op", "log", REPO))


def test_a_repeated_commit_is_the_first_one(demo):
    demo.put(f"{MAIN}/b.txt", "b")
    first = demo.json("commit", MAIN, "-m", "load", *KEY)
    demo.put(f"{MAIN}/c.txt", "c")
    again = demo("commit", MAIN, "-m", "load", *KEY)
    assert again.stderr == SAID
    assert again.stdout.startswith(f"commit {first['id']}\n")
    assert demo.json("commit", MAIN, "-m", "load", *KEY) == {**first, "repeated": True}
    assert first["repeated"] is False
    assert demo.lines("diff", MAIN)[0].startswith("+ added    c.txt")


def test_a_repeated_merge_is_the_first_one(forked):
    words = ("merge", DEV, MAIN, "--strategy", "source-wins", *KEY)
    first = forked.json(*words)
    assert (first["up_to_date"], first["repeated"]) == (False, False)
    before = operations(forked)
    again = forked(*words)
    assert (again.stderr, again.stdout.splitlines()[0]) == (SAID, f"commit {first['id']}")
    assert forked.json(*words) == {**first, "up_to_date": True, "repeated": True}
    assert operations(forked) == before


def test_a_repeated_tag_is_shown_even_when_it_is_gone(demo):
    first = demo.json("tag", "create", f"{REPO}/v1", "main", *KEY)
    assert first["repeated"] is False
    demo("tag", "delete", f"{REPO}/v1", "-y")
    again = demo("tag", "create", f"{REPO}/v1", "main", *KEY)
    assert again.stderr == SAID
    assert first["commit_id"] in again.stdout
    assert demo.json("tag", "create", f"{REPO}/v1", "main", *KEY) == {**first, "repeated": True}
    assert demo.json("tag", "list", REPO) == []


def test_a_repeated_branch_is_shown_even_when_it_is_gone(demo):
    words = ("branch", "create", f"{REPO}/new", "-s", "main", *KEY)
    first = demo.json(*words)
    assert first["repeated"] is False
    demo("branch", "delete", f"{REPO}/new", "-y")
    again = demo(*words)
    assert again.stderr == SAID
    assert first["commit_id"] in again.stdout
    assert demo.json(*words) == {**first, "repeated": True}
    assert [branch["id"] for branch in demo.json("branch", "list", REPO)] == ["main"]


@pytest.mark.parametrize("words", [("branch", "revert", MAIN, "main"), ("cherry-pick", DEV, "main")], ids=" ".join)
def test_a_repeated_revert_or_cherry_pick_is_the_first_one(forked, words):
    words = (*words, "--strategy", "source-wins", *KEY)
    first = forked.json(*words)
    assert first["repeated"] is False
    before = operations(forked)
    again = forked(*words)
    assert (again.stderr, again.stdout.splitlines()[0]) == (SAID, f"commit {first['id']}")
    assert forked.json(*words) == {**first, "repeated": True}
    assert operations(forked) == before


def test_a_repeated_import_looks_for_nothing(demo, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "one").write_text("1")
    words = ("import", "--from", "raw", "--to", f"{MAIN}/in", *KEY)
    first = demo.json(*words)
    assert (first["ingested_objects"], first["repeated"]) == (1, False)
    shutil.rmtree(tmp_path / "raw")
    again = demo(*words)
    assert (again.stderr, again.stdout.splitlines()[0]) == (SAID, f"commit {first['id']}")
    repeated = demo.json(*words)
    assert (repeated["id"], repeated["up_to_date"], repeated["repeated"]) == (first["id"], True, True)


@pytest.mark.parametrize(
    "words",
    [
        ("commit", MAIN, "-m", "load"),
        ("merge", DEV, MAIN),
        ("merge", DEV, f"{DEV}~1", MAIN),
        ("tag", "create", f"{REPO}/v2", "main"),
        ("branch", "create", f"{REPO}/new", "-s", "main"),
        ("branch", "revert", MAIN, "main"),
        ("cherry-pick", DEV, "main"),
        ("import", "--from", "nowhere", "--to", MAIN),
    ],
    ids=lambda words: f"{words[0]} {words[1]} {len(words)}",
)
def test_the_key_of_another_operation_is_refused(forked, words):
    forked("tag", "create", f"{REPO}/v1", "main", *KEY)
    before = operations(forked)
    assert forked.json(*words, *KEY, code=2)["error"]["message"].startswith(
        "the idempotency key 'step-1' was used before, for tag-create of 'v1'"
    )
    assert operations(forked) == before


def test_an_operation_is_shown_with_its_key(demo):
    demo("commit", MAIN, "-m", "load", "--allow-empty", *KEY)
    logged = demo.json("op", "log", REPO, "--amount", "2")
    assert [operation["idempotency_key"] for operation in logged] == ["step-1", None]
    assert "Key:    step-1" in demo.lines("op", "show", REPO, logged[0]["id"])
    assert "Key:" not in demo("op", "show", REPO, logged[1]["id"]).stdout


def test_several_sources_are_merged_as_one_operation(branches):
    before = operations(branches)
    result = branches("merge", f"{REPO}/north", f"{REPO}/old", f"{REPO}/south", MAIN, "-m", "all", "--meta", "k=v")
    assert operations(branches) == before + 1
    assert result.stderr == "merged 2 of 3 sources into lakefs://demo/main\n"
    log = branches.json("log", MAIN, "--first-parent", "--amount", "2")
    assert [(commit["message"], commit["metadata"]) for commit in log] == [("all", {"k": "v"})] * 2
    cells = [line.split() for line in result.stdout.splitlines()]
    assert cells == [
        ["SOURCE", "COMMIT"],
        [f"{REPO}/north", log[1]["id"]],
        [f"{REPO}/old", "-"],
        [f"{REPO}/south", log[0]["id"]],
    ]


def test_several_sources_as_json_and_repeated(branches):
    words = ("merge", f"{REPO}/north", f"{REPO}/old", f"{REPO}/south", MAIN, *KEY)
    first = branches.json(*words)
    assert [row["source"] for row in first] == list(words[1:4])
    assert [(row["up_to_date"], row["repeated"]) for row in first] == [(False, False), (True, False), (False, False)]
    assert first[1]["id"] is None
    assert [first[2]["parents"][0], first[0]["message"]] == [first[0]["id"], "Merge 'north' into 'main'"]
    branches("branch", "delete", f"{REPO}/north", "-y")
    again = branches.json(*words)
    assert [row["id"] for row in again] == [row["id"] for row in first]
    assert [row["repeated"] for row in again] == [True, False, True]
    assert branches(*words).stderr == SAID


def test_several_sources_that_are_all_there_are_up_to_date(branches):
    words = ("merge", f"{REPO}/old", f"{MAIN}~1", MAIN)
    result = branches(*words)
    assert result.stderr.startswith("already up to date: nothing to merge: 'main' has all of these sources already")
    assert [(row["id"], row["up_to_date"]) for row in branches.json(*words)] == [(None, True)] * 2


def test_of_several_sources_with_a_conflict_none_is_merged(forked):
    forked("branch", "create", f"{REPO}/fine", "-s", "main")
    forked.put(f"{REPO}/fine/fine.txt", "1")
    forked("commit", f"{REPO}/fine", "-m", "fine")
    before = operations(forked)
    error = forked.json("merge", f"{REPO}/fine", DEV, MAIN, code=3)["error"]
    assert error["message"].startswith("source 2, 'dev': ")
    assert [row["path"] for row in error["conflicts"]] == ["a.txt"]
    assert operations(forked) == before
    forked("merge", f"{REPO}/fine", DEV, MAIN, "--strategy", "source-wins")
    assert forked("fs", "cat", f"{MAIN}/a.txt").stdout == "from dev\n"


@pytest.mark.parametrize("option", [("--squash",), ("--resolve", "a.txt=source")])
def test_what_is_for_one_source_only(branches, option):
    error = branches.json("merge", f"{REPO}/north", f"{REPO}/south", MAIN, *option, code=2)["error"]
    assert "for a merge of one source" in error["message"]


def test_sources_are_of_one_repository_and_there_is_one(branches):
    refused = branches("merge", f"{REPO}/north", "lakefs://other/dev", MAIN, code=2)
    assert "are in different repositories" in refused.stderr
    assert "Missing argument 'lakefs://REPO/REF...'" in branches("merge", MAIN, code=2).stderr
