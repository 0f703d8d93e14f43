"""``import`` and ``export`` by the command line."""

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from deltalake import write_deltalake

MAIN = "lakefs://demo/main"


@pytest.fixture
def raw(demo, tmp_path):
    """A folder to import from, beside the lake; it is the current folder's ``raw``."""
    folder = tmp_path / "raw"
    (folder / "sub").mkdir(parents=True)
    (folder / "one").write_text("1")
    (folder / "sub" / "two").write_text("22")
    return folder


def test_a_folder_is_imported_as_a_commit_and_again_is_up_to_date(demo, raw):
    result = demo("import", "--from", "raw", "--to", f"{MAIN}/in", "-m", "load", "--meta", "k=v")
    assert result.stderr == "imported 2 objects into lakefs://demo/main/in\n"
    assert "    load\n" in result.stdout
    assert "k = v" in result.stdout
    assert demo("fs", "cat", f"{MAIN}/in/sub/two").stdout == "22"
    again = demo.json("import", "--from", "raw", "--to", f"{MAIN}/in")
    assert (again["up_to_date"], again["ingested_objects"], again["message"]) == (True, 2, "load")
    assert "already up to date" in demo("import", "--from", "raw", "--to", f"{MAIN}/in").stderr


def test_what_is_left_out_is_said(demo, raw):
    (raw / "to-nothing").symlink_to("nowhere")
    result = demo("import", "--from", raw, "--to", MAIN)
    assert f"left out 1 object: {raw / 'to-nothing'}: it is a link to nothing" in result.stderr
    (raw / "three").touch()
    found = demo.json("import", "--from", raw, "--to", MAIN)
    assert [row["address"] for row in found["skipped"]] == [str(raw / "to-nothing")]


def test_listings_and_delta_tables(demo, raw, tmp_path):
    pa_csv.write_csv(pa.table({"address": [str(raw / "one")], "size": [1], "checksum": ["etag:1"]}), "list.csv")
    demo("import", "--listing", "list.csv", "--from", "raw", "--to", f"{MAIN}/listed/")
    write_deltalake(str(tmp_path / "table"), pa.table({"id": [1]}))
    demo("import", "--delta", "--from", "table", "--to", f"{MAIN}/table")
    paths = [found["path"] for found in demo.json("fs", "ls", "-r", f"{MAIN}/")]
    assert paths[:3] == ["a.txt", "folder/b.txt", "listed/one"]
    assert paths[3].startswith("table/part-")


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (["--to", MAIN], 2, "bad-request"),
        (["--to", MAIN, "--from", "raw", "--listing", "x", "--delta"], 2, "bad-request"),
        (["--from", "raw"], 2, "bad-request"),
        (["--from", "raw", "--to", "demo/main"], 2, "invalid-uri"),
        (["--from", "nowhere", "--to", MAIN], 1, "object-not-found"),
        (["--from", "raw", "--to", "lakefs://demo/nope"], 1, "ref-not-found"),
        (["--listing", "raw/one", "--to", MAIN], 2, "invalid-entries"),
    ],
)
def test_mistakes_in_an_import_have_the_code_and_kind_of_their_cause(demo, raw, words, code, kind):
    assert demo.json("import", *words, code=code)["error"]["kind"] == kind
    assert len(demo.json("log", MAIN)) == 2


def test_a_ref_is_exported_and_brought_up_to_date_by_what_changed(demo, tmp_path):
    result = demo("export", MAIN, "out")
    assert result.stderr == "exported 2 files, 4 B to out (0 there already, 0 deleted)\n"
    assert (tmp_path / "out" / "folder" / "b.txt").read_text() == "b\n"
    assert demo("export", MAIN, "out").stderr == "already up to date: out\n"
    demo("fs", "rm", f"{MAIN}/a.txt")
    demo.put(f"{MAIN}/c.txt", "c\n")
    demo("commit", MAIN, "-m", "second")
    done = demo.json("export", MAIN, "out", "--since", "lakefs://demo/main~1", "--delete")
    assert (done["files"], done["deleted"], done["up_to_date"]) == (1, 1, False)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".lakespark-export.json", "c.txt", "folder"]


def test_a_folder_of_a_ref_is_exported_alone(demo, tmp_path):
    demo("export", f"{MAIN}/folder", "out", "-p", "2", "--no-progress")
    assert (tmp_path / "out" / "b.txt").read_text() == "b\n"


def test_a_target_with_other_files_needs_to_be_said(demo, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    assert demo.json("export", MAIN, "out", code=1)["error"]["kind"] == "target-not-empty"
    demo("export", MAIN, "out", "--overwrite")
    assert (tmp_path / "out" / "mine").read_text() == "mine"


def test_unsafe_paths_are_named_and_nothing_is_written(demo, tmp_path):
    demo.put(f"{MAIN}/../up", "x")
    demo("commit", MAIN, "-m", "odd")
    assert "'../up' would leave" in demo("export", MAIN, "out", code=2).stderr
    assert not (tmp_path / "out").exists()
