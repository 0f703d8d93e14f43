"""``fsck``: what it prints, and the code that it ends with."""

import json

import pytest

import lakespark


@pytest.fixture
def namespace(forked):
    return forked.folder / "lake" / "demo"


def range_file(forked):
    """The range file of dev's head."""
    repo = lakespark.Lake(forked.folder / "lake").repository("demo")
    repo.opened.ledger.refresh()
    (ref,) = repo.opened.tree(repo.opened.ledger.commit(repo.ref("dev").get_commit().id)).ranges
    return ref


def test_a_whole_repository_is_clean_and_the_code_is_0(forked):
    shown = forked("fsck", "lakefs://demo")
    assert shown.stdout == ("clean: checked 2 refs, 4 commits, 4 metaranges, 3 ranges, 3 staged rows, 0 objects\n")
    assert "5 objects" in forked("fsck", "lakefs://demo", "--objects").stdout


def test_what_is_wrong_is_shown_with_its_digests_and_refs_and_the_code_is_1(forked, namespace):
    ref = range_file(forked)
    (namespace / ref.file).write_bytes(b"nonsense")
    lines = forked("fsck", "lakefs://demo", code=1).stdout.splitlines()
    assert lines[0] == f"altered range {ref.file}"
    assert f"    expected: {ref.file_sha256}" in lines
    assert "    touches:  dev" in lines
    assert lines[-1].startswith("1 error: checked 2 refs")


def test_as_json_it_is_one_document(forked, namespace):
    ref = range_file(forked)
    assert forked.json("fsck", "lakefs://demo")["is_clean"] is True
    (namespace / ref.file).unlink()
    report = forked.json("fsck", "lakefs://demo", code=1)
    assert report["is_clean"] is False
    (finding,) = report["findings"]
    assert (finding["kind"], finding["subject"], finding["name"]) == ("missing", "range", ref.file)
    assert (finding["expected"], finding["found"], finding["refs"]) == (ref.file_sha256, None, ["dev"])
    assert report["checked"]["commits"] == 4


def test_contents_are_looked_at_only_with_objects(forked, namespace):
    repo = lakespark.Lake(forked.folder / "lake").repository("demo")
    key = repo.ref("dev").object("c.txt").stat().physical_address.split("/demo/")[1]
    (namespace / key).write_bytes(b"d\n")
    forked("fsck", "lakefs://demo")
    shown = forked("fsck", "lakefs://demo", "--objects", code=1).stdout
    assert "altered object" in shown
    assert "'c.txt'" in shown
    assert "touches:  dev" in shown


def test_a_note_does_not_change_the_code(forked, namespace):
    (namespace / "_lakespark" / "thesis.txt").write_text("mine")
    shown = forked("fsck", "lakefs://demo").stdout
    assert "note: unknown file _lakespark/thesis.txt" in shown
    assert "clean, 1 note:" in shown


def test_a_repository_that_cannot_be_opened_is_still_checked(forked, namespace):
    (namespace / "_lakespark" / "format.json").write_text("{")
    forked("branch", "list", "lakefs://demo", code=1)
    shown = forked("fsck", "lakefs://demo", code=1).stdout
    assert "unreadable format file _lakespark/format.json" in shown


def test_an_unknown_repository_is_an_error(cli):
    result = cli("--json", "fsck", "lakefs://nothing", code=1)
    assert json.loads(result.stdout)["error"]["kind"] == "repository-not-found"


def test_it_changes_nothing(untouched):
    untouched("fsck", "lakefs://demo", "--objects")
