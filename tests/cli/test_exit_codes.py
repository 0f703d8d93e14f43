"""What a command line ends with, and the one line that says why."""

import json
from pathlib import Path

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner

import lakespark
from lakespark import digest, errors
from lakespark.cli.app import App
from lakespark.cli.exit_codes import MEANINGS

MAIN, DEV = "lakefs://demo/main", "lakefs://demo/dev"
FAILURES = {
    "unknown repository": (("repo", "show", "lakefs://nobody"), 1, "repository-not-found"),
    "unknown ref": (("log", "lakefs://demo/nowhere"), 1, "ref-not-found"),
    "unknown branch to write to": (("commit", "lakefs://demo/nowhere", "-m", "x"), 1, "ref-not-found"),
    "unknown tag": (("tag", "show", MAIN), 1, "ref-not-found"),
    "unknown path": (("fs", "cat", f"{MAIN}/nothing"), 1, "object-not-found"),
    "unknown path to remove": (("fs", "rm", f"{MAIN}/nothing"), 1, "object-not-found"),
    "nothing below a path to remove": (("fs", "rm", "-r", f"{MAIN}/nothing"), 1, "object-not-found"),
    "nothing below a path to download": (("fs", "download", "-r", f"{MAIN}/nothing", "out"), 1, "object-not-found"),
    "too far back": (("show", f"{MAIN}~9"), 1, "ref-not-found"),
    "no such parent": (("branch", "revert", MAIN, "main", "-m", "2"), 1, "ref-not-found"),
    "a malformed ref expression": (("log", f"{MAIN}^^x"), 2, "invalid-ref-expression"),
    "an invalid branch name": (("branch", "create", "lakefs://demo/a..b", "-s", "main"), 2, "invalid-name"),
    "an invalid repository name": (("repo", "create", "lakefs://A"), 2, "invalid-name"),
    "an invalid tag name": (("tag", "create", "lakefs://demo/.x", "main"), 2, "invalid-name"),
    "no URI at all": (("log", "main"), 2, "invalid-uri"),
    "a URI with a path where a ref is meant": (("log", f"{MAIN}/a.txt"), 2, "invalid-uri"),
    "a URI without a path": (("fs", "cat", MAIN), 2, "invalid-path"),
    "a path that is too long": (("fs", "stat", f"{MAIN}/{'x' * 1025}"), 2, "invalid-path"),
    "a taken repository name": (("repo", "create", "lakefs://demo"), 1, "name-taken"),
    "a taken branch name": (("branch", "create", DEV, "-s", "main"), 1, "name-taken"),
    "a branch name as tag": (("tag", "create", DEV, "main"), 1, "name-taken"),
    "a namespace in use": (("repo", "create", "lakefs://other", "lake/demo"), 1, "namespace-in-use"),
    "nothing to commit": (("commit", MAIN, "-m", "x"), 1, "nothing-to-commit"),
    "merging a branch into itself": (("merge", MAIN, MAIN), 2, "bad-request"),
    "merging across repositories": (("merge", "lakefs://other/main", MAIN), 2, "bad-request"),
    "a conflict": (("merge", DEV, MAIN), 3, "merge-conflict"),
    "a conflict of a cherry-pick": (("cherry-pick", DEV, "main"), 3, "merge-conflict"),
    "an unknown resolution": (("merge", DEV, MAIN, "--resolve", "a.txt=mine"), 2, "invalid-resolution"),
    "a resolution without a choice": (("merge", DEV, MAIN, "--resolve", "a.txt"), 2, "bad-request"),
    "metadata without a value": (("commit", MAIN, "-m", "x", "--meta", "k"), 2, "bad-request"),
    "a date that is none": (("log", MAIN, "--since", "yesterday"), 2, "bad-request"),
    "two dates": (("commit", MAIN, "-m", "x", "--date", "1", "--epoch-time-seconds", "1"), 2, "bad-request"),
    "no message": (("commit", MAIN), 2, "bad-request"),
    "no such option": (("log", MAIN, "--colour"), 2, "bad-request"),
    "no such verb": (("branch", "rename"), 2, "bad-request"),
    "an amount of nothing": (("log", MAIN, "--amount", "0"), 2, "bad-request"),
    "two ways of drawing": (("log", MAIN, "--dot", "--graph"), 2, "bad-request"),
    "a graph with gaps": (("log", MAIN, "--graph", "--objects", "a.txt"), 2, "bad-request"),
    "reset of two things": (("branch", "reset", MAIN, "-y", "--prefix", "a", "--object", "b"), 2, "bad-request"),
    "a two-way diff of one ref": (("diff", MAIN, "--two-way"), 2, "bad-request"),
    "stdin without a name": (("fs", "upload", "-s", "-", f"{MAIN}/"), 2, "bad-request"),
    "deleting the default branch": (("branch", "delete", MAIN, "-y"), 1, "forbidden"),
    "reverting the first commit": (("branch", "revert", MAIN, "main~2"), 2, "bad-request"),
    "a file that is not there": (("fs", "upload", "-s", "nothing", f"{MAIN}/x"), 1, "error"),
    "a folder that is not there": (("fs", "upload", "-r", "-s", "nothing", f"{MAIN}/x"), 2, "bad-request"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_one_line_with_the_documented_code_and_changes_nothing(untouched, name):
    words, code, kind = FAILURES[name]
    result = untouched(*words, "--json", code=code)
    assert json.loads(result.stdout)["error"]["kind"] == kind
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert result.stderr.count("error: ") == 1


def test_a_merge_into_a_dirty_branch_names_what_is_uncommitted(forked):
    forked.put(f"{MAIN}/a.txt", "uncommitted\n")
    assert "a.txt (changed by ann" in forked("merge", DEV, MAIN, code=1).stderr


def test_an_ambiguous_commit_id_lists_candidates(demo):
    head = lakespark.Lake("lake").repository("demo").branch("main").get_commit()

    def commit_id(second):
        fields = {"committer": "ann", "message": "x", "metarange": head.meta_range_id, "metadata": {}}
        return digest.commit_id(creation_date=second, parents=[head.id], **fields)

    seconds = {}
    pair = next((seconds[start], n) for n in range(10_000) if seconds.setdefault(start := commit_id(n)[:4], n) != n)
    for number, second in enumerate(pair):
        demo("branch", "create", f"lakefs://demo/b{number}", "-s", "main")
        demo("commit", f"lakefs://demo/b{number}", "-m", "x", "--allow-empty", "--epoch-time-seconds", second)
    ids = sorted(map(commit_id, pair))
    assert demo.json("show", f"lakefs://demo/{ids[0][:4]}", code=1)["error"]["candidates"] == ids


def test_nothing_to_do_is_done(forked):
    up_to_date = forked("merge", f"{MAIN}~1", MAIN)
    assert up_to_date.stdout == ""
    assert up_to_date.stderr.startswith("already up to date: ")
    assert forked.json("merge", f"{MAIN}~1", MAIN)["up_to_date"] is True
    assert forked("cherry-pick", MAIN, "main").stderr.startswith("already up to date: ")


def classes(root=errors.LakesparkError):
    return [root, *(each for child in root.__subclasses__() for each in classes(child))]


def raised(kind):
    if kind is errors.AmbiguousRefError:
        return kind("two of them", ["a", "b"])
    if kind is errors.MergeConflictError:
        return kind("a conflict", pa.table({"path": pa.array([], pa.string())}))
    return kind("what went wrong")


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_every_class_of_error_ends_with_its_code(kind, as_json):
    @click.command(cls=App, invoke_without_command=True)
    def failing():
        raise raised(kind)

    result = CliRunner().invoke(failing, ["--json"] if as_json else ["--user", "ann"])
    expected = 2 if issubclass(kind, errors.BadRequestException) else 1
    expected = {errors.NothingToMergeError: 0, errors.MergeConflictError: 3}.get(kind, expected)
    assert result.exit_code == expected
    if as_json and expected:
        assert json.loads(result.stdout)["error"]["kind"] == kind.kind
    assert result.stderr.startswith("error: " if expected else "" if as_json else "already up to date: ")


def test_what_nobody_expected_is_one_line_too():
    @click.command(cls=App, invoke_without_command=True)
    def failing():
        raise KeyError("that")

    result = CliRunner(env={"LAKESPARK_TRACEBACK": None}).invoke(failing, ["--user", "ann"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: unexpected KeyError: 'that' (with LAKESPARK_TRACEBACK=1")
    shown = CliRunner(env={"LAKESPARK_TRACEBACK": "1"}).invoke(failing, ["--user", "ann"])
    assert isinstance(shown.exception, KeyError)


def test_a_message_of_several_lines_becomes_one():
    @click.command(cls=App, invoke_without_command=True)
    def failing():
        raise errors.StorageError("cannot write\nno space \x1b[31mleft")

    result = CliRunner().invoke(failing, ["--user", "ann"])
    assert result.stderr == "error: cannot write no space \\x1b[31mleft\n"


def test_help_and_the_page_list_the_same_codes(cli):
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    shown = cli("--help").stdout
    for code, meaning in MEANINGS.items():
        assert f"  {code}  {meaning}" in shown
        assert f"| {code} | {meaning} |" in page


def test_a_group_without_a_verb_shows_its_help(cli):
    for words in ([], ["branch"], ["fs"]):
        result = cli(*words, code=2)
        assert result.stdout == ""
        assert result.stderr.startswith(" ".join(["Usage: lakespark", *words]))
