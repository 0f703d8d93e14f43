"""The jobs through their main functions: summaries, exit codes, and repeats that find their work done."""

import ast
import json
import shutil
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from lakespark.jobs import export, import_data, merge, running

ROOT = Path(__file__).parents[2]
DEV, MAIN = "lakefs://demo/dev", "lakefs://demo/main"


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "raw"
    (folder / "sub").mkdir(parents=True)
    (folder / "one").write_text("1")
    (folder / "sub" / "two").write_text("22")
    return folder


def test_a_merge_is_done_once_and_then_up_to_date(lake, perform):
    code, done = perform(merge, DEV, MAIN, "--message", "nightly", "--meta", "run=7")
    commit = lake.repository("demo").branch("main").get_commit()
    assert (code, done["job"], done["result"], done["commit"]) == (0, "merge", "done", commit.id)
    assert (commit.message, commit.committer, commit.metadata) == ("nightly", "joe", {"run": "7"})
    code, again = perform(merge, DEV, MAIN)
    assert (code, again["result"]) == (0, "up-to-date")
    assert "nothing to merge" in again["message"]


def test_a_conflict_ends_a_merge_with_three_and_is_in_the_summary(lake, perform):
    for name in ("main", "dev"):
        branch = lake.repository("demo").branch(name)
        branch.object("a").upload(f"from {name}")
        branch.commit("change a")
    code, summary = perform(merge, DEV, MAIN)
    assert (code, summary["result"], summary["error"]["kind"]) == (3, "conflict", "merge-conflict")
    assert [row["path"] for row in summary["error"]["conflicts"]] == ["a"]
    code, summary = perform(merge, DEV, MAIN, "--strategy", "source-wins")
    assert (code, summary["decided_conflicts"]) == (0, 1)


def test_an_import_is_done_once_and_then_up_to_date(lake, perform, source):
    (source / "link").symlink_to("nowhere")
    words = ("--from", source, "--to", f"{MAIN}/raw", "--message", "load")
    code, done = perform(import_data, *words)
    main = lake.repository("demo").branch("main")
    assert (code, done["result"], done["objects"], done["commit"]) == (0, "done", 2, main.get_commit().id)
    assert [row["address"] for row in done["skipped"]] == [str(source / "link")]
    assert [info.path for info in main.objects(prefix="raw/")] == ["raw/one", "raw/sub/two"]
    code, again = perform(import_data, *words)
    assert (code, again["result"], again["commit"]) == (0, "up-to-date", done["commit"])


def test_a_merge_is_repeated_under_its_key(lake, perform):
    words = (DEV, MAIN, "--idempotency-key", "nightly-1")
    code, done = perform(merge, *words)
    assert (code, done["result"], done["repeated"]) == (0, "done", False)
    dev = lake.repository("demo").branch("dev")
    dev.object("later").upload("1")
    dev.commit("later")
    code, again = perform(merge, *words)
    assert (code, again["result"], again["repeated"], again["commit"]) == (0, "up-to-date", True, done["commit"])
    assert not lake.repository("demo").branch("main").object("later").exists()
    code, other = perform(merge, DEV, MAIN, "--idempotency-key", "nightly-2")
    assert (code, other["result"], other["repeated"]) == (0, "done", False)


def test_many_sources_are_merged_at_once_and_repeated_under_their_key(lake, perform):
    repository = lake.repository("demo")
    for name in ("north", "south"):
        branch = repository.branch(name).create("main")
        branch.object(name).upload(name)
        branch.commit(name)
    repository.branch("old").create("main")
    names = ("north", "old", "south")
    words = (*(f"lakefs://demo/{name}" for name in names), MAIN, "--idempotency-key", "load-1")
    code, done = perform(merge, *words)
    assert (code, done["result"], done["repeated"]) == (0, "done", False)
    assert [merged["source"] for merged in done["merges"]] == list(words[:3])
    log = [commit.id for commit in repository.branch("main").log(2, first_parent=True)]
    assert [merged["commit"] for merged in done["merges"]] == [log[1], None, log[0]]
    assert done["commit"] == log[0]
    for name in names:
        repository.branch(name).delete()
    code, again = perform(merge, *words)
    assert (code, again["result"], again["repeated"], again["commit"]) == (0, "up-to-date", True, done["commit"])
    assert [merged.get("bases") for merged in again["merges"]] == [merged.get("bases") for merged in done["merges"]]
    assert [merged["commit"] for merged in again["merges"]] == [merged["commit"] for merged in done["merges"]]
    assert [merged.get("decided_conflicts") for merged in again["merges"]] == [None] * 3


def test_many_sources_that_are_all_merged_are_up_to_date(perform):
    assert perform(merge, DEV, MAIN)[0] == 0
    code, again = perform(merge, DEV, "lakefs://demo/dev~1", MAIN)
    assert (code, again["result"]) == (0, "up-to-date")


def test_an_import_is_repeated_under_its_key_without_its_source(perform, source):
    words = ("--from", source, "--to", f"{MAIN}/raw", "--idempotency-key", "load-1")
    code, done = perform(import_data, *words)
    assert (code, done["result"], done["repeated"]) == (0, "done", False)
    shutil.rmtree(source)
    code, again = perform(import_data, *words)
    assert (code, again["result"], again["repeated"], again["commit"]) == (0, "up-to-date", True, done["commit"])


def test_listings_and_delta_tables_are_imported_as_well(lake, perform, source, tmp_path):
    rows = pa.table({"address": [str(source / "one")], "size": [1], "checksum": ["etag:1"]})
    pq.write_table(rows, tmp_path / "listing.parquet")
    write_deltalake(str(tmp_path / "table"), pa.table({"id": [1]}))
    listing = ("--listing", tmp_path / "listing.parquet", "--from", source, "--to", f"{MAIN}/listed")
    assert perform(import_data, *listing)[0] == 0
    assert perform(import_data, "--delta", "--from", tmp_path / "table", "--to", f"{MAIN}/table")[0] == 0
    paths = [info.path for info in lake.repository("demo").branch("main").objects()]
    assert paths[:2] == ["a", "listed/one"]
    assert paths[2].startswith("table/part-")


def test_an_export_is_done_once_and_then_up_to_date(lake, perform, tmp_path):
    code, done = perform(export, DEV, tmp_path / "out")
    assert (code, done["result"], done["files"]) == (0, "done", 2)
    assert (tmp_path / "out" / "b").read_text() == "b"
    code, again = perform(export, DEV, tmp_path / "out")
    assert (code, again["result"], again["unchanged"]) == (0, "up-to-date", 2)
    dev = lake.repository("demo").branch("dev")
    dev.object("a").delete()
    dev.commit("without a")
    code, changed = perform(export, DEV, tmp_path / "out", "--since", "dev~1", "--delete")
    assert (code, changed["result"], changed["deleted"]) == (0, "done", 1)


FAILURES = {
    "no such branch": (merge, [DEV, "lakefs://demo/nope"], 1, "ref-not-found"),
    "the key of another operation": (merge, [DEV, MAIN, "--idempotency-key", "used"], 2, "bad-request"),
    "no such repository": (export, ["lakefs://nope/main", "out"], 1, "repository-not-found"),
    "two repositories": (merge, [DEV, "lakefs://other/main"], 2, "bad-request"),
    "no URI": (merge, ["dev", "main"], 2, "invalid-uri"),
    "no pair": (merge, [DEV, MAIN, "--meta", "x"], 2, "bad-request"),
    "nothing to import": (import_data, ["--to", MAIN], 2, "bad-request"),
    "an empty place": (import_data, ["--to", MAIN, "--from", "nowhere"], 1, "object-not-found"),
    "deletion in full": (export, [DEV, "out", "--delete"], 2, "bad-request"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_have_the_exit_code_and_kind_of_the_command_line(lake, perform, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    lake.repository("demo").tag("v1").create("main", idempotency_key="used")
    job, words, code, kind = FAILURES[name]
    ended, summary = perform(job, *words)
    assert (ended, summary["result"], summary["error"]["kind"]) == (code, "failed", kind)


@pytest.mark.parametrize("job", [merge, import_data, export])
def test_a_mistake_in_the_command_line_ends_with_two(job, capsys):
    with pytest.raises(SystemExit) as ended:
        job.main(["--no-such-option"])
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_the_lake_is_found_in_the_environment(lake, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LAKESPARK_LAKE", raising=False)
    assert merge.main(["--engine", "duckdb", DEV, MAIN]) == 2
    monkeypatch.setenv("LAKESPARK_LAKE", lake.location)
    assert merge.main(["--engine", "duckdb", DEV, MAIN]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["result"] == "done"


def test_an_unexpected_failure_is_a_summary_as_well(capsys):
    def run(_spark, _args):
        raise LookupError("lost")

    args = running.parser_of("job", None).parse_args(["--engine", "duckdb"])
    assert running.perform("job", run, args) == 1
    assert json.loads(capsys.readouterr().out)["error"] == {"kind": "error", "message": "lost"}


@pytest.mark.parametrize("code", [0, 1, 3])
def test_success_returns_and_everything_else_leaves_the_process(code):
    if not code:
        running.leave(lambda: code)
        return
    with pytest.raises(SystemExit) as ended:
        running.leave(lambda: code)
    assert ended.value.code == code


def entry_points():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def test_every_job_has_an_entry_point_and_a_script_for_spark_submit():
    named = {target.split(":")[0] for target in entry_points().values()}
    for job in (merge, import_data, export):
        assert job.__name__ in named
        name = job.__name__.rsplit(".", 1)[-1]
        script = (ROOT / "jobs" / f"{name}.py").read_text()
        assert f"from {job.__name__} import entry" in script
        for text in (script, Path(job.__file__).read_text()):
            doc = ast.get_docstring(ast.parse(text))
            assert "spark-submit" in doc
            assert f"jobs/{name}.py" in doc


@pytest.mark.spark
def test_jobs_run_on_a_session_and_leave_it_to_its_caller(perform, source, spark, tmp_path):
    assert perform(merge, DEV, MAIN, engine="auto")[1]["result"] == "done"
    code, done = perform(import_data, "--from", source, "--to", f"{MAIN}/raw", engine="spark")
    assert (code, done["objects"]) == (0, 2)
    assert perform(export, MAIN, tmp_path / "out", engine="auto")[1]["files"] == 4
    assert spark.range(1).count() == 1
