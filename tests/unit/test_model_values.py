"""Ids, the values that the package hands out, its errors and its names."""

import hashlib
import importlib
import inspect
import json
import pickle
import pkgutil
import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakespark
from lakespark import Lake, MergeResult, digest, errors
from lakespark.algebra.identity import WITH_IDENTITY
from lakespark.engine.duckdb import DuckDBEngine
from lakespark.entries import ENTRY_SCHEMA
from lakespark.model import Commit
from lakespark.storage import open_store
from lakespark.testing import strategies, trees
from lakespark.tree import metarange
from lakespark.tree.range_files import hash_range

FORMAT = (Path(__file__).parents[2] / "docs" / "format.md").read_text()

HELLO = digest.entry_identity(5, "5d41402abc4b2a76b9719d911017c592", "application/octet-stream", {})
HELLO_TEXT = digest.entry_identity(5, "5d41402abc4b2a76b9719d911017c592", "text/plain", {"b": "2", "a": "é"})
THRESHOLD = metarange.threshold_for(8000)
RANGE = digest.hash_fields(["a.txt", HELLO, "ä/b", HELLO_TEXT])
METARANGE = digest.metarange_id(THRESHOLD, [RANGE])

VECTORS = {
    "entry": (HELLO, "2119bbfe52b2d2008d063f85ff816a64d9d1ae028716140501079cc0937b2d0b"),
    "entry with metadata": (HELLO_TEXT, "42739c63b676403a0e6ae5e1be8330522fd3c612fd7cab2e1adeeceecb6f3600"),
    "range": (RANGE, "80a9c406f98bfa4ff4a07b7b45574fd3811cd9ef212f203fe5a9ccc4a821aeef"),
    "threshold": (THRESHOLD, "00083126e978d4fdf3b645a1cac08312"),
    "metarange": (METARANGE, "7a8f7412b4382d3bc3db89752f709ba2b953b243148e4831254233ba78e63d95"),
    "empty metarange": (
        digest.metarange_id(THRESHOLD, []),
        "89b6c0496d239d896cf8d585b3ab67f13417c28292053e00c35dd1ab58da6c09",
    ),
    "commit": (
        digest.commit_id(
            committer="ann",
            message="first",
            metarange=METARANGE,
            creation_date=1700000000,
            metadata={"k": "v"},
            parents=["0" * 64],
        ),
        "00f165af5406379539691937cd4da20324cba59e2c9d9705a06b31100cc464ac",
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_ids_are_those_of_the_format_page(name):
    """Computed, written here, and written in ``docs/format.md``: the same."""
    computed, expected = VECTORS[name]
    assert computed == expected
    assert f"`{expected}`" in FORMAT


def test_the_encoding_is_lengths_and_bytes():
    fields = ["", "a", "é🦆", 0, 1234567890, "line\nfeed"]
    assert digest.encode(fields) == b"0:1:a6:\xc3\xa9\xf0\x9f\xa6\x861:010:12345678909:line\nfeed"


@given(st.lists(st.text()))
def test_fields_can_be_read_back_from_their_encoding(fields):
    """So no two sequences of fields have one encoding."""
    encoded, found = digest.encode(fields), []
    while encoded:
        length, encoded = encoded.split(b":", 1)
        found.append(encoded[: int(length)].decode())
        encoded = encoded[int(length) :]
    assert found == fields


def engine():
    """The in-process engine over an empty store."""
    return DuckDBEngine(open_store("memory://values"))


def as_table(entries):
    """Entries without identities as a table, each at a path of its own."""
    rows = [
        {**entry._asdict(), "path": str(number), "mtime": 0, "metadata": list(entry.metadata)}
        for number, entry in enumerate(entries)
    ]
    return pa.Table.from_pylist(rows, schema=ENTRY_SCHEMA)


def any_entry():
    """Entries with any text in them."""
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
    return st.builds(
        trees.Entry,
        physical_address=st.just("data/x"),
        size_bytes=st.integers(0, 2**63 - 1),
        checksum=text,
        content_type=text,
        metadata=st.dictionaries(text, text, max_size=4).map(lambda pairs: tuple(sorted(pairs.items()))),
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(any_entry() | strategies.entries(), min_size=1, max_size=20))
def test_identity_is_the_same_in_sql_in_python_and_in_the_model(entries):
    """With metadata in whatever order it was given."""
    run = engine()
    found = run.collect(run.query(WITH_IDENTITY, entries=as_table(entries)))["identity"].to_pylist()
    reordered = [dict(reversed(entry.metadata)) for entry in entries]
    assert found == [
        digest.entry_identity(entry.size_bytes, entry.checksum, entry.content_type, metadata)
        for entry, metadata in zip(entries, reordered, strict=True)
    ]
    assert found == [entry.identity for entry in entries]


@settings(max_examples=40, deadline=None)
@given(st.lists(strategies.paths(), min_size=1, max_size=12, unique=True), st.integers(0, 2))
def test_a_range_id_is_the_hash_of_its_encoded_pairs(paths, start):
    """Of whole tables and of slices of them."""
    paths, start = sorted(paths), min(start, len(paths) - 1)
    identities = [hashlib.sha256(path.encode()).hexdigest() for path in paths]
    rows = pa.table({"path": paths, "identity": identities}).slice(start)
    pairs = list(zip(paths, identities, strict=True))[start:]
    assert hash_range(rows) == digest.hash_fields([text for pair in pairs for text in pair])


def test_a_path_that_looks_like_another_entry_is_another_range():
    """One path with a line feed and an identity in it, against the two paths that it pretends to be."""
    disguised = f"a64:{HELLO}\n1:b"
    one = pa.table({"path": [disguised], "identity": [HELLO]})
    two = pa.table({"path": ["a", "b"], "identity": [HELLO, HELLO]})
    joined = pa.table({"path": [f"a64:{HELLO}1:b"], "identity": [HELLO]})
    assert len({hash_range(one), hash_range(two), hash_range(joined)}) == 3


@pytest.mark.parametrize("mean", [1, 2, 3, 8000, 10**9, 2**128])
def test_thresholds_are_hex_of_one_length_and_like_the_models(mean):
    assert metarange.threshold_for(mean) == trees.threshold_for(mean)
    assert re.fullmatch("[0-9a-f]{32}", metarange.threshold_for(mean))


@given(strategies.paths(), st.sampled_from([1, 2, 3, 8000]))
def test_a_cut_depends_on_the_md5_of_the_path(path, mean):
    threshold = metarange.threshold_for(mean)
    assert metarange.is_cut(path, threshold) == trees.is_cut(path, threshold)


# -- values ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def merged():
    """The result of a merge."""
    repository = Lake("memory://values/lake").repository("values").create()
    source = repository.branch("dev").create("main")
    source.object("a").upload("a")
    source.commit("a")
    return source.merge_into("main", message="merged", metadata={"k": "v"}, date=7)


def test_a_merge_result_is_the_commit_id_as_a_str(merged):
    assert isinstance(merged, str)
    assert isinstance(merged, MergeResult)
    assert json.loads(json.dumps({"merge": merged})) == {"merge": str(merged)}
    assert {str(merged): 1}[merged] == 1
    assert merged == merged.commit.id


def test_a_merge_result_says_what_is_known_of_the_merge(merged):
    assert (merged.commit.message, merged.commit.metadata, merged.commit.creation_date) == ("merged", {"k": "v"}, 7)
    assert merged.bases == (merged.commit.parents[0],)
    assert merged.conflicts.num_rows == 0


def test_values_can_be_pickled_and_compared(merged):
    assert pickle.loads(pickle.dumps(merged.commit)) == merged.commit
    assert isinstance(merged.commit, Commit)
    assert merged.commit._fields[:6] == ("id", "parents", "committer", "message", "creation_date", "meta_range_id")


# -- errors ------------------------------------------------------------------------------------------------------


def classes():
    """Every error class of the module by its own name."""
    found = [value for _, value in inspect.getmembers(errors, inspect.isclass)]
    return {value.__name__: value for value in found if issubclass(value, errors.LakesparkError)}


def drawn():
    """Name, parent's name and remark of each line of the tree in the docstring."""
    above = []
    for line in errors.__doc__.splitlines():
        match = re.match(r"^    ([ │├└─]*)(\w+) {2,}?(?:.*)|^    ([ │├└─]*)(\w+)$", line)
        if match:
            marks, name = (match[1], match[2]) if match[2] else (match[3], match[4])
            depth = len(marks) // 4
            above[depth:] = [name]
            yield name, above[depth - 1] if depth else None, line


def test_the_tree_in_the_docstring_is_that_of_the_classes():
    known = classes()
    lines = list(drawn())
    assert sorted(name for name, _, _ in lines) == sorted(known)
    for name, parent, _ in lines:
        assert known[name].__bases__[0].__name__ == (parent or "Exception")


def test_builtin_errors_are_subclassed_where_the_tree_says_so():
    """A handler for the builtin error that one would catch anyway catches ours."""
    said = {name: re.search(r"also an? (\w+)", line) for name, _, line in drawn()}
    for name, value in classes().items():
        others = [base.__name__ for base in value.__bases__[1:]]
        assert others == ([said[name][1]] if said[name] else []), name


def test_kinds_are_unique_and_in_kebab_case():
    kinds = [value.__dict__["kind"] for value in classes().values()]
    assert len(set(kinds)) == len(kinds)
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", kind) for kind in kinds)


def test_an_error_is_described_with_what_its_class_adds():
    ambiguous = errors.AmbiguousRefError("which?", ["abc1", "abc2"])
    assert errors.describe(ambiguous) == {"kind": "ambiguous-ref", "message": "which?", "candidates": ["abc1", "abc2"]}
    conflict = errors.MergeConflictError("both", pa.table({"path": ["a"]}))
    assert errors.describe(conflict) == {"kind": "merge-conflict", "message": "both", "conflicts": [{"path": "a"}]}
    assert errors.describe(ValueError("x")) == {"kind": "error", "message": "x"}


# -- names -------------------------------------------------------------------------------------------------------


def test_every_public_name_is_there_once_and_in_order():
    """What ``__all__`` says is what a reader finds, and nothing else but modules."""
    assert sorted(set(lakespark.__all__)) == sorted(lakespark.__all__)
    assert lakespark.__all__ == sorted(lakespark.__all__, key=lambda name: (name[0].islower(), name))
    public = {name for name in dir(lakespark) if not name.startswith("_")}
    modules = {module.name for module in pkgutil.iter_modules(lakespark.__path__)}
    others = public - set(lakespark.__all__) - modules
    assert not [name for name in others if getattr(getattr(lakespark, name), "__module__", "").startswith("lakespark")]
    assert all(hasattr(lakespark, name) for name in lakespark.__all__)


def test_a_public_name_is_the_very_object_of_its_module():
    for name in lakespark.__all__:
        value = getattr(lakespark, name)
        if inspect.ismodule(value):
            assert value.__name__ == f"lakespark.{name}"
        else:
            assert getattr(importlib.import_module(value.__module__), name) is value
            assert value.__name__ == name
