"""``op log``, ``op show``, ``op undo``, ``branch restore`` and ``branch-protect``, as a person sees them."""

import pytest

REPO, MAIN, DEV = "lakefs://demo", "lakefs://demo/main", "lakefs://demo/dev"


def newest(cli, *options):
    return cli.json("op", "log", REPO, "--amount", "1", *options)[0]


def test_the_log_has_a_line_for_each_operation(forked):
    lines = forked.lines("op", "log", REPO)
    heads = {row["id"]: row["commit_id"][:12] for row in forked.json("branch", "list", REPO)}
    assert [line.split("  ")[1] for line in lines] == ["4", "3", "2", "1", "0"]
    assert [line.split("  ")[4] for line in lines] == [
        "commit",
        "commit",
        "branch-create",
        "commit",
        "repository-create",
    ]
    assert lines[0].endswith(f"-> {heads['main']}")
    assert lines[2].endswith(f"dev: - -> {forked.json('log', MAIN)[1]['id'][:12]}")
    assert all(line.split("  ")[3] == "ann" for line in lines)


def test_the_log_is_filtered_by_ref_and_by_user(forked):
    forked("tag", "create", f"{REPO}/v1", "main", "--user", "bob")
    assert [row["verb"] for row in forked.json("op", "log", REPO, "--ref", "dev")] == ["commit", "branch-create"]
    assert [row["verb"] for row in forked.json("op", "log", REPO, "--by", "bob")] == ["tag-create"]
    assert [row["number"] for row in forked.json("op", "log", REPO, "--amount", "2")] == [5, 4]
    assert forked.json("op", "log", REPO, "--ref", "nobody") == []


def test_an_operation_is_shown_with_its_refs_before_and_after(forked):
    forked("merge", DEV, MAIN, "--strategy", "source-wins")
    logged = newest(forked)
    shown = forked("op", "show", REPO, logged["id"][:8]).stdout
    merged, parent = (commit["id"] for commit in forked.json("log", MAIN, "--amount", "2", "--first-parent"))
    assert shown.startswith(f"operation {logged['id']}\nNumber: 5\nWhat:   merge\nUser:   ann\n")
    assert f"Changed:\n    main: {parent[:12]} -> {merged[:12]}\n" in shown
    assert shown.endswith(f"Commits:\n    {merged}\n")
    change = forked.json("op", "show", REPO, "5")["changes"][0]
    assert (change["name"], change["before"]["commit_id"], change["after"]["commit_id"]) == ("main", parent, merged)
    assert change["after"]["kind"] == "branch"
    assert change["after"]["token"]


def test_a_merge_is_undone_and_redone(forked):
    forked("merge", DEV, MAIN, "--strategy", "source-wins")
    undone = forked("op", "undo", REPO, newest(forked)["id"])
    assert undone.stderr.startswith("undid ")
    assert "What:   undo" in undone.stdout
    assert forked("fs", "cat", f"{MAIN}/a.txt").stdout == "from main\n"
    lines = forked.lines("op", "log", REPO, "--amount", "2")
    assert "(undoes " in lines[0]
    assert "(undone by " in lines[1]
    forked("op", "undo", REPO, newest(forked)["id"])
    assert forked("fs", "cat", f"{MAIN}/a.txt").stdout == "from dev\n"


def test_an_undone_commit_leaves_its_changes_uncommitted(forked):
    made = forked.json("op", "undo", REPO, newest(forked, "--ref", "main")["id"])
    assert (made["verb"], made["changes"][0]["name"]) == ("undo", "main")
    assert [line[:10] for line in forked.lines("diff", MAIN)] == ["~ changed "]


def test_an_undo_that_came_too_late_names_what_to_undo_first(forked):
    first = newest(forked, "--ref", "main")
    forked("commit", MAIN, "-m", "again", "--allow-empty")
    failed = forked.json("op", "undo", REPO, first["id"], code=1)["error"]
    assert failed["kind"] == "ref-moved"
    assert failed["operations"] == [newest(forked)["id"]]
    refused = forked("op", "undo", REPO, first["id"], code=1).stderr
    assert refused.startswith(f"error: cannot undo {first['id'][:12]} (commit by ann): changed since were main by ")


@pytest.mark.parametrize(("verb", "name"), [("show", "nothing"), ("undo", "nothing"), ("undo", "99")])
def test_an_operation_that_is_not_there(forked, verb, name):
    assert forked.json("op", verb, REPO, name, code=1)["error"]["kind"] == "operation-not-found"


def test_the_creation_is_not_undone(demo):
    assert demo.json("op", "undo", REPO, "0", code=1)["error"]["kind"] == "forbidden"


def test_a_deleted_branch_is_restored_with_what_was_uncommitted(forked):
    forked.put(f"{DEV}/new.txt", "new")
    forked("branch", "delete", DEV, "-y")
    restored = forked("branch", "restore", DEV)
    assert restored.stderr == f"restored branch {DEV}\n"
    assert forked("fs", "cat", f"{DEV}/new.txt").stdout == "new"
    assert len(forked.lines("diff", DEV)) == 1
    assert forked.json("branch", "restore", DEV, code=1)["error"]["kind"] == "name-taken"
    assert forked.json("branch", "restore", f"{REPO}/never", code=1)["error"]["kind"] == "ref-not-found"


def test_a_protected_branch_takes_merges_only(forked):
    assert forked.lines("branch-protect", "list", REPO) == []
    added = forked("branch-protect", "add", REPO, "ma*")
    assert added.stderr == f"protected 'ma*' of {REPO}: staging_write, commit\n"
    assert forked.lines("branch-protect", "list", REPO) == ["PATTERN  FORBIDDEN", "ma*      staging_write, commit"]
    for words in (
        ("fs", "rm", f"{MAIN}/a.txt"),
        ("commit", MAIN, "-m", "x", "--allow-empty"),
        ("branch", "move", MAIN, "dev"),
        ("branch", "reset", MAIN, "-y"),
    ):
        assert forked.json(*words, code=1)["error"]["kind"] == "branch-protected"
    forked("merge", DEV, MAIN, "--strategy", "source-wins")
    deleted = forked("branch-protect", "delete", REPO, "ma*")
    assert deleted.stderr == f"deleted the protection rule 'ma*' of {REPO}\n"
    forked("fs", "rm", f"{MAIN}/a.txt")


def test_a_rule_may_forbid_one_thing_alone(demo):
    demo("branch-protect", "add", REPO, "main", "--action", "commit")
    assert demo.json("branch-protect", "list", REPO) == [{"pattern": "main", "actions": ["commit"]}]
    demo.put(f"{MAIN}/new.txt", "new")
    assert demo.json("commit", MAIN, "-m", "x", code=1)["error"]["kind"] == "branch-protected"


def test_mistakes_in_rules(demo):
    assert demo.json("branch-protect", "add", REPO, "a b", code=2)["error"]["kind"] == "invalid-name"
    assert (
        demo.json("branch-protect", "add", REPO, "main", "--action", "push", code=2)["error"]["kind"] == "bad-request"
    )
    assert demo.json("branch-protect", "delete", REPO, "main", code=1)["error"]["kind"] == "not-found"
