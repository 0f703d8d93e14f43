"""Data on stdout, as text or as one JSON document; messages on stderr."""

import json

MAIN, DEV = "lakefs://demo/main", "lakefs://demo/dev"
PRINTING = [
    ("repo", "create", "lakefs://another"),
    ("repo", "list"),
    ("repo", "show", "lakefs://another"),
    ("repo", "delete", "lakefs://another", "-y"),
    ("repo", "list", "--prefix", "another"),
    ("branch", "create", "lakefs://demo/new", "-s", "main~1"),
    ("branch", "list", "lakefs://demo", "--hidden"),
    ("branch", "show", MAIN),
    ("branch", "move", "lakefs://demo/new", "main"),
    ("branch", "revert", "lakefs://demo/new", "main"),
    ("branch", "delete", "lakefs://demo/new", "-y"),
    ("tag", "create", "lakefs://demo/v1", "main"),
    ("tag", "list", "lakefs://demo"),
    ("tag", "show", "lakefs://demo/v1"),
    ("tag", "delete", "lakefs://demo/v1", "-y"),
    ("diff", MAIN, DEV),
    ("diff", MAIN, DEV, "--two-way"),
    ("find-merge-base", MAIN, DEV),
    ("cherry-pick", DEV, "main", "--strategy", "dest-wins"),
    ("merge", DEV, MAIN, "--strategy", "source-wins"),
    ("merge", DEV, MAIN),
    ("log", MAIN),
    ("log", MAIN, "--graph"),
    ("show", MAIN),
    ("fs", "upload", "-s", "file", f"{MAIN}/"),
    ("fs", "upload", "-r", "-s", "in", f"{MAIN}/in"),
    ("diff", MAIN),
    ("commit", MAIN, "-m", "files"),
    ("diff", MAIN),
    ("fs", "ls", f"{MAIN}/"),
    ("fs", "ls", "-r", f"{MAIN}/"),
    ("fs", "stat", f"{MAIN}/a.txt"),
    ("fs", "download", f"{MAIN}/a.txt", "a.txt"),
    ("fs", "download", "-r", f"{MAIN}/", "out"),
    ("fs", "rm", f"{MAIN}/a.txt"),
    ("fs", "rm", "-r", f"{MAIN}/folder"),
    ("branch", "reset", MAIN, "-y"),
]


def test_every_verb_prints_one_json_document(forked, tmp_path):
    (tmp_path / "file").write_text("file")
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "file").write_text("deep")
    for words in PRINTING:
        assert isinstance(json.loads(forked(*words, "--json").stdout), dict | list), words


def test_the_global_options_stand_before_or_after_the_verb(demo):
    places = [("--json", "branch", "list"), ("branch", "--json", "list"), ("branch", "list", "--json")]
    assert len({demo(*words, "lakefs://demo").stdout for words in places}) == 1
    assert demo.json("--user", "zoe", "commit", MAIN, "-m", "x", "--allow-empty", "--user", "ben")["committer"] == "ben"
    elsewhere = demo("repo", "list", "--lake", demo.folder / "elsewhere")
    assert (elsewhere.stdout, elsewhere.stderr) == ("", "")


def test_the_conflicts_of_a_merge_are_data(forked):
    error = forked.json("merge", DEV, MAIN, code=3)["error"]
    assert error["kind"] == "merge-conflict"
    (conflict,) = error["conflicts"]
    assert (conflict["path"], conflict["conflict"]) == ("a.txt", "changed/changed")
    assert (conflict["base_size_bytes"], conflict["source_size_bytes"]) == (2, 9)
    text = forked("merge", DEV, MAIN, code=3)
    heading, row = text.stdout.splitlines()
    assert heading.split() == ["PATH", "CONFLICT", "BASE", "SOURCE", "DESTINATION"]
    assert row.split()[0] == "a.txt"
    assert text.stderr.count("\n") == 1


def test_a_listing_in_json_has_folders_and_objects(demo):
    found = demo.json("fs", "ls", f"{MAIN}/")
    assert [(item["path_type"], item["path"]) for item in found] == [("object", "a.txt"), ("common_prefix", "folder/")]
    assert found[0]["size_bytes"] == 2


def test_a_diff_in_json_says_who_and_when(demo):
    demo.put(f"{MAIN}/a.txt", "other\n")
    (change,) = demo.json("diff", MAIN)
    assert (change["type"], change["path"], change["written_by"]) == ("changed", "a.txt", "ann")
    assert change["written_at"] > 1_700_000_000


def test_what_a_terminal_would_obey_is_escaped(demo):
    demo.put(f"{MAIN}/red\x1b[31m\n", "x")
    demo("commit", MAIN, "-m", "tab\tand \x1b]0;title\x07", "--committer", "a\nb")
    assert "red\\x1b[31m\\n" in demo("fs", "ls", f"{MAIN}/").stdout
    shown = demo("show", MAIN).stdout
    assert "tab\tand \\x1b]0;title\\x07" in shown
    assert "Committer: a\\nb\n" in shown
    assert demo.json("fs", "ls", f"{MAIN}/red")[0]["path"] == "red\x1b[31m\n"


def test_a_date_beyond_the_calendar_is_shown(demo):
    demo("commit", MAIN, "-m", "far", "--allow-empty", "--epoch-time-seconds", 10**15)
    assert f"Date:      {10**15} s since 1970" in demo.lines("show", MAIN)


def test_dot_escapes_messages_and_leaves_out_edges_to_what_is_not_shown(demo):
    demo("commit", MAIN, "-m", 'say "hi" \\ or', "--allow-empty")
    dot = demo("log", MAIN, "--dot", "--amount", "2").stdout
    assert '\\nsay \\"hi\\" \\\\ or\\n' in dot
    assert dot.count(" -> ") == 1


def test_contents_come_as_they_are(demo, tmp_path):
    body = bytes(range(256)) * 9000
    (tmp_path / "body").write_bytes(body)
    demo("fs", "upload", "-s", "body", f"{MAIN}/body", "--json")
    assert demo("fs", "cat", f"{MAIN}/body").stdout_bytes == body
    assert demo("--json", "fs", "cat", f"{MAIN}/body").stdout_bytes == body
