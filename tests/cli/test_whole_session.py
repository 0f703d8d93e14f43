"""One long session, as a person would have it: what each step prints, and what the lake holds afterwards."""

import pytest

import lakespark


@pytest.fixture
def tables(tmp_path):
    """A folder of files, small and large, with a name that is not ASCII."""
    folder = tmp_path / "tables"
    (folder / "flights").mkdir(parents=True)
    (folder / "airlines.csv").write_bytes(b"code,name\nUA,United\n")
    (folder / "flights" / "january.csv").write_bytes(b"day,flight\n" + b"1,UA1\n" * 1000)
    (folder / "flights" / "février.bin").write_bytes(bytes(range(256)) * 40_000)
    (folder / "empty").write_bytes(b"")
    return folder


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_from_an_empty_lake_to_a_tagged_merge_and_back(cli, tables, tmp_path):
    shown = cli("repo", "create", "lakefs://flights", "--meta", "owner=ann")
    assert "created lakefs://flights" in shown.stderr
    assert "owner:" in shown.stdout
    moved = cli("fs", "upload", "-r", "-s", tables, "lakefs://flights/main/tables")
    assert moved.stdout == ""
    assert "uploaded 4 files" in moved.stderr
    staged = cli.lines("diff", "lakefs://flights/main")
    assert [line.split()[:3] for line in staged] == [
        ["+", "added", f"tables/{name}"]
        for name in ("airlines.csv", "empty", "flights/février.bin", "flights/january.csv")
    ]
    assert all("(ann, " in line for line in staged)
    cli("commit", "lakefs://flights/main", "-m", "load", "--meta", "ticket=1234")

    cli("branch", "create", "lakefs://flights/fix", "-s", "main")
    cli.put("lakefs://flights/fix/tables/airlines.csv", "code,name\nUA,United Air Lines\n")
    cli("fs", "rm", "lakefs://flights/fix/tables/empty")
    cli("commit", "lakefs://flights/fix", "-m", "correct names")
    cli.put("lakefs://flights/main/tables/airlines.csv", "code,name\nUA,United\nDL,Delta\n")
    cli("commit", "lakefs://flights/main", "-m", "more airlines")
    assert cli.lines("diff", "lakefs://flights/main", "lakefs://flights/fix") == [
        "! conflict tables/airlines.csv",
        "- removed  tables/empty",
    ]
    assert cli.lines("diff", "lakefs://flights/main", "lakefs://flights/fix", "--two-way")[0].startswith("~ changed")

    refused = cli("merge", "lakefs://flights/fix", "lakefs://flights/main", code=3)
    assert refused.stdout.splitlines()[1].split()[:2] == ["tables/airlines.csv", "changed/changed"]
    assert refused.stderr.startswith("error: merging fix into main: 1 path changed on both sides")
    assert cli.lines("diff", "lakefs://flights/main") == []
    decide = ["--resolve", "tables/airlines.csv=source", "-m", "merge the fix"]
    cli("merge", "lakefs://flights/fix", "lakefs://flights/main", *decide)
    again = cli("merge", "lakefs://flights/fix", "lakefs://flights/main")
    assert again.stderr.startswith("already up to date")
    cli("tag", "create", "lakefs://flights/v1.0", "lakefs://flights/main")

    drawn = cli.lines("log", "lakefs://flights/main", "--graph")
    assert [line[:3] for line in drawn] == ["* " + drawn[0][2], "|\\", "* |", "| *", "|/", drawn[5][:3], drawn[6][:3]]
    assert "(main, tag: v1.0)" in drawn[0]
    assert drawn[0].endswith("ann: merge the fix")
    dot = cli("log", "lakefs://flights/main", "--dot").stdout
    assert dot.startswith("digraph history {")
    assert dot.count(" -> ") == 5

    reverted = cli("branch", "revert", "lakefs://flights/main", "v1.0", "-m", "1").stdout
    assert "Revert 'merge the fix'" in reverted
    assert "Delta" in cli("fs", "cat", "lakefs://flights/main/tables/airlines.csv").stdout
    cli("cherry-pick", "lakefs://flights/v1.0", "main", "-m", "1")
    assert "United Air Lines" in cli("fs", "cat", "lakefs://flights/main/tables/airlines.csv").stdout

    cli("fs", "rm", "-r", "lakefs://flights/main/tables")
    assert cli.lines("fs", "ls", "-r", "lakefs://flights/main/") == []
    cli("branch", "reset", "lakefs://flights/main", "--prefix", "tables/flights/", "-y")
    kept = cli.lines("fs", "ls", "-r", "lakefs://flights/main/")
    assert [line.split()[-1] for line in kept] == ["tables/flights/février.bin", "tables/flights/january.csv"]
    cli("branch", "reset", "lakefs://flights/main", "-y")
    assert cli.lines("diff", "lakefs://flights/main") == []

    cli("fs", "download", "-r", "lakefs://flights/v1.0~1/tables", tmp_path / "old")
    expected = {**contents(tables), "airlines.csv": b"code,name\nUA,United\nDL,Delta\n"}
    assert contents(tmp_path / "old") == expected


def test_a_branch_moves_only_from_where_it_is_expected(demo):
    demo.put("lakefs://demo/main/a.txt", "more\n")
    head = demo.json("branch", "show", "lakefs://demo/main")["commit_id"]
    newer = demo.json("commit", "lakefs://demo/main", "-m", "second")["id"]
    failed = demo("branch", "move", "lakefs://demo/main", "main~2", "--expected", head, code=1)
    assert "not at" in failed.stderr
    moved = demo.json("branch", "move", "lakefs://demo/main", f"lakefs://demo/{head}", "--expected", newer)
    assert moved == {"id": "main", "commit_id": head}


def test_log_is_limited_filtered_and_cut(forked):
    main = "lakefs://demo/main"

    def messages(*options):
        return [commit["message"] for commit in forked.json("log", main, *options)]

    forked("merge", "lakefs://demo/dev", main, "--strategy", "dest-wins", "-m", "merged")
    assert set(messages()) == {"merged", "on main", "on dev", "first", "Repository created"}
    assert messages("--amount", "1") == ["merged"]
    assert messages("--first-parent") == ["merged", "on main", "first", "Repository created"]
    assert messages("--objects", "c.txt") == ["merged", "on dev"]
    assert messages("--prefixes", "folder/") == ["first"]
    assert messages("--since", "2999-01-01") == []
    assert messages("--first-parent", "--stop-at", "main~2") == ["merged", "on main", "first"]
    assert forked.lines("log", main, "--graph", "--first-parent")[1].startswith("* ")


def test_log_reads_like_gits(demo):
    demo.put("lakefs://demo/main/a.txt", "more\n")
    options = ["--meta", "k=v=w", "--committer", "ben", "--date", "2026-01-31T12:00:00Z"]
    demo("commit", "lakefs://demo/main", "-m", "title\n\nbody", *options)
    lines = demo.lines("log", "lakefs://demo/main", "--amount", "1")
    assert lines[0].startswith("commit ")
    assert lines[0].endswith(" (main)")
    assert lines[1] == "Committer: ben"
    assert lines[2].startswith("Date:      2026-0")
    assert lines[3:] == ["", "    title", "", "    body", "", "    k = v=w"]
    assert demo.json("show", "lakefs://demo/main")["creation_date"] == 1769860800


def test_the_merge_commit_shows_its_parents(forked):
    forked("merge", "lakefs://demo/dev", "lakefs://demo/main", "--strategy", "source-wins")
    known = forked.json("show", "commit", "lakefs://demo/main")
    assert f"Merge:     {' '.join(parent[:12] for parent in known['parents'])}" in forked.lines(
        "show", "lakefs://demo/main"
    )


def test_a_squash_has_one_parent(forked):
    merged = forked.json("merge", "lakefs://demo/dev", "lakefs://demo/main", "--squash", "--resolve", "a.txt=base")
    assert len(merged["parents"]) == 1
    assert merged["up_to_date"] is False
    assert forked("fs", "cat", "lakefs://demo/main/a.txt").stdout == "a\n"


def test_merge_bases_are_found(forked):
    first = forked.json("show", "lakefs://demo/main~1")["id"]
    assert forked.lines("find-merge-base", "lakefs://demo/main", "lakefs://demo/dev") == [first]
    assert [base["id"] for base in forked.json("find-merge-base", "lakefs://demo/main", "lakefs://demo/dev")] == [first]


def test_hidden_branches_are_listed_when_asked_for(demo):
    lakespark.Lake("lake").repository("demo").branch("left-over").create("main", hidden=True)
    assert [branch["id"] for branch in demo.json("branch", "list", "lakefs://demo")] == ["main"]
    assert demo.lines("branch", "list", "lakefs://demo", "--hidden")[1].split()[::2] == ["left-over", "True"]


def test_names_are_listed_by_prefix_and_amount(demo):
    for name in ("x1", "x2", "y1"):
        demo("tag", "create", f"lakefs://demo/{name}", "main")
    assert [tag["id"] for tag in demo.json("tag", "list", "lakefs://demo", "--prefix", "x")] == ["x1", "x2"]
    assert [tag["id"] for tag in demo.json("tag", "list", "lakefs://demo", "--after", "x1", "--amount", "1")] == ["x2"]
    assert demo.lines("repo", "list", "--prefix", "nothing") == []


@pytest.mark.parametrize(
    "words",
    [
        ("branch", "reset", "lakefs://demo/main"),
        ("branch", "delete", "lakefs://demo/dev"),
        ("tag", "delete", "lakefs://demo/v1"),
        ("repo", "delete", "lakefs://demo"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_undone_is_asked_about(demo, words):
    demo("branch", "create", "lakefs://demo/dev", "-s", "main")
    demo("tag", "create", "lakefs://demo/v1", "main")
    demo.put("lakefs://demo/main/a.txt", "uncommitted\n")
    before = (demo.json("branch", "list", "lakefs://demo"), demo.json("diff", "lakefs://demo/main"))
    assert "not confirmed" in demo(*words, given="n\n", code=1).stderr
    assert "--yes" in demo(*words, given="", code=1).stderr
    assert (demo.json("branch", "list", "lakefs://demo"), demo.json("diff", "lakefs://demo/main")) == before
    assert "[y/N]" in demo(*words, given="y\n").stderr


def test_reset_of_one_object_leaves_the_rest(demo):
    demo.put("lakefs://demo/main/a.txt", "changed\n")
    demo.put("lakefs://demo/main/new.txt", "new\n")
    demo("branch", "reset", "lakefs://demo/main", "--object", "a.txt", "-y")
    assert [change["path"] for change in demo.json("diff", "lakefs://demo/main")] == ["new.txt"]
