"""fsck on metaranges, ranges and entries: damaged, swapped, and forged with all digests of files right."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsck_cases import DAMAGES, Forger, body_of, damage, entries, errors, head, range_of

from lakespark import digest

# -- trees -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_range_is_named_by_its_digest_and_the_refs_it_touches(repo_anywhere, how):
    ref = range_of(repo_anywhere, "main")
    found = damage(repo_anywhere, ref.file, how)
    (finding,) = errors(repo_anywhere)
    assert finding.kind == ("missing" if found is None else "altered")
    assert (finding.subject, finding.name) == ("range", ref.file)
    assert (finding.expected, finding.found) == (ref.file_sha256, found)
    assert finding.refs == ("dev", "main", "v1")
    assert "restore" in finding.mend


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_metarange_is_named_by_its_digest_and_the_refs_it_touches(repo, how):
    file = head(repo, "dev").metarange
    found = damage(repo, file.file, how)
    (finding,) = errors(repo)
    assert finding.kind == ("missing" if found is None else "altered")
    assert (finding.subject, finding.name) == ("metarange", file.file)
    assert (finding.expected, finding.found) == (file.sha256, found)
    assert finding.refs == ("dev", "v1")


def test_two_ranges_with_their_files_swapped_are_both_named(repo):
    store, (one, other) = repo.opened.store, (range_of(repo, "dev"), range_of(repo, "old"))
    bodies = store.get(one.file), store.get(other.file)
    store.put(one.file, bodies[1])
    store.put(other.file, bodies[0])
    found = {finding.name: finding for finding in errors(repo)}
    assert set(found) == {one.file, other.file}
    assert (found[one.file].expected, found[one.file].found) == (one.file_sha256, other.file_sha256)
    assert f"it holds range {other.range_id}" in found[one.file].problem
    assert found[one.file].refs == ("dev", "v1")
    assert found[other.file].refs == ("old",)


def test_a_range_written_anew_with_the_same_entries_is_told_apart(repo):
    ref = range_of(repo, "dev")
    sink = pa.BufferOutputStream()
    pq.write_table(pq.read_table(pa.BufferReader(body_of(repo, ref.file))), sink, compression="none")
    repo.opened.store.put(ref.file, sink.getvalue().to_pybytes())
    (finding,) = errors(repo)
    assert finding.kind == "altered"
    assert "the right ones all the same" in finding.problem


def test_two_metaranges_with_their_files_swapped_are_both_named(repo):
    store, (one, other) = repo.opened.store, (head(repo, "dev"), head(repo, "old"))
    bodies = [store.get(record.metarange.file) for record in (one, other)]
    for record, body in zip((other, one), bodies, strict=True):
        store.put(record.metarange.file, body)
    found = {finding.name: finding for finding in errors(repo)}
    assert set(found) == {one.metarange.file, other.metarange.file}
    assert f"it holds the tree {other.commit.meta_range_id}, not" in found[one.metarange.file].problem
    assert found[other.metarange.file].refs == ("old",)


def test_a_metarange_written_anew_with_the_same_ranges_is_told_apart_and_its_ranges_are_checked(repo):
    file, ref = head(repo, "old").metarange.file, range_of(repo, "old")
    sink = pa.BufferOutputStream()
    pq.write_table(pq.read_table(pa.BufferReader(body_of(repo, file))), sink, compression="none")
    repo.opened.store.put(file, sink.getvalue().to_pybytes())
    damage(repo, ref.file, "missing")
    found = {finding.name: finding for finding in errors(repo)}
    assert set(found) == {file, ref.file}
    assert "it lists the right ranges all the same" in found[file].problem


def test_everything_that_is_wrong_is_in_one_report(repo_anywhere):
    damage(repo_anywhere, range_of(repo_anywhere, "main").file, "one bit")
    damage(repo_anywhere, range_of(repo_anywhere, "old").file, "missing")
    damage(repo_anywhere, head(repo_anywhere, "dev").metarange.file, "empty")
    repo_anywhere.opened.store.delete(
        repo_anywhere.branch("main").object("staged").stat().physical_address.split("/ns/")[1]
    )
    found = {(finding.kind, finding.subject) for finding in errors(repo_anywhere, objects=True)}
    assert found == {("altered", "range"), ("missing", "range"), ("altered", "metarange"), ("missing", "object")}


def test_a_forged_tree_without_a_fault_is_clean(repo):
    """The forger itself breaks no rule."""
    forger = Forger(repo)
    forger.commit([forger.range(entries("a", "b"))])
    assert errors(repo) == ()


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"min_path": "0"}, "another first path"),
        ({"max_path": "c"}, "another last path"),
        ({"count": 3}, "another number of entries"),
        ({"bytes": 7}, "another sum of sizes"),
        ({"range_id": "0" * 64}, "another range id"),
    ],
)
def test_a_range_that_is_not_what_its_metarange_says_is_inconsistent(repo, said, problem):
    forger = Forger(repo)
    ref = forger.range(entries("a", "b"), **said)
    forger.commit([ref])
    (finding,) = errors(repo)
    assert (finding.kind, finding.name, finding.refs) == ("inconsistent", ref.file, ("forged",))
    assert problem in finding.problem


def test_a_metarange_of_another_tree_than_the_commit_says_is_named(repo):
    other = head(repo, "dev")
    file = Forger(repo).commit([range_of(repo, "old")], metarange=other.metarange)
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject, finding.name) == ("altered", "metarange", file)
    assert (finding.found, finding.refs) == (other.commit.meta_range_id, ("forged",))


def test_a_range_without_entries_is_inconsistent(repo):
    forger = Forger(repo)
    ref = forger.emptied(forger.range(entries("a", "b")))
    forger.commit([ref])
    found = errors(repo)
    assert {(finding.kind, finding.name) for finding in found} == {("inconsistent", ref.file)}
    assert [finding.found for finding in found if finding.problem == "it has no entries"] == ["0"]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (entries("b", "a"), "do not ascend"),
        (entries("a", "a"), "do not ascend"),
        (entries("a", "b", identity=["0" * 64] * 2), "'a': its identity is"),
        (entries("a", "b", size_bytes=[1, 2]), "'b': its identity is"),
        (entries("a", "b", checksum=["c" * 32, None]), "'b': checksum is null"),
        (entries("a", "b", metadata=[None, {}]), "'a': metadata is null"),
        (entries("a", "b", physical_address=["", "x"]), "'a': it has no physical address"),
        (entries("", "b"), "'': not a legal path"),
        (entries("a", "b" * 1025), "not a legal path"),
        (entries("a\0", "b"), "a path with a NUL character"),
        (entries("a", "b", size_bytes=[-1, 2]), "'a': its size is negative"),
    ],
)
def test_entries_that_cannot_be_are_inconsistent(repo, rows, problem):
    forger = Forger(repo)
    ref = forger.range(rows)
    forger.commit([ref])
    found = errors(repo)
    assert {finding.name for finding in found} == {ref.file}
    assert any(problem in finding.problem for finding in found), found


@pytest.mark.parametrize("count", [20, 3000])
def test_large_and_small_ranges_are_judged_alike(repo, count):
    """By Python and by SQL: one wrong identity among many, with metadata of all kinds, is found by its path."""
    metadata = [{}, {"k": "v"}, {"b": "2", "a": "é"}]
    paths = [f"p{number:05d}ü" for number in range(count)]
    maps = [metadata[number % 3] for number in range(count)]
    identities = [digest.entry_identity(1, "c" * 32, "text/plain", pairs) for pairs in maps]
    forger = Forger(repo)
    forger.commit([forger.range(entries(*paths, metadata=maps, identity=identities))])
    assert errors(repo) == ()
    identities[count - 2] = "0" * 64
    repo.branch("forged").delete()
    forger.commit([forger.range(entries(*paths, metadata=maps, identity=identities))])
    (finding,) = errors(repo)
    assert paths[count - 2] in finding.problem


def md5(path):
    return hashlib.md5(path.encode()).hexdigest()


@pytest.mark.parametrize("count", [20, 3000])
def test_a_range_ends_at_every_path_below_the_threshold_and_at_no_other(repo, count):
    paths = [f"p{number:05d}" for number in range(count)]
    lowest = min(paths[5:-5], key=md5)
    threshold = f"{int(md5(lowest), 16) + 1:032x}"
    at = paths.index(lowest) + 1
    if md5(paths[-1]) < threshold or any(md5(path) < threshold for path in paths[:5]):
        threshold = f"{int(md5(lowest), 16) + 1:032x}"
    forger = Forger(repo)
    forger.commit([forger.range(entries(*paths[:at])), forger.range(entries(*paths[at:]))], threshold)
    assert errors(repo) == ()
    repo.branch("forged").delete()
    file = forger.range(entries(*paths))
    forger.commit([file], threshold)
    (finding,) = errors(repo)
    assert (finding.name, finding.refs) == (file.file, ("forged",))
    assert "goes on after a path at which a range must end" in finding.problem
    repo.branch("forged").delete()
    tree = forger.commit([forger.range(entries(*paths[: at - 1])), forger.range(entries(*paths[at - 1 :]))], "0" * 32)
    (finding,) = errors(repo)
    assert (finding.subject, finding.name) == ("metarange", tree)
    assert "where none may end but the last" in finding.problem


def test_ranges_out_of_order_are_inconsistent(repo):
    forger = Forger(repo)
    always = "f" * 32
    tree = forger.commit([forger.range(entries("b")), forger.range(entries("a"))], always)
    (finding,) = errors(repo)
    assert (finding.kind, finding.name) == ("inconsistent", tree)
    assert "is not before" in finding.problem
