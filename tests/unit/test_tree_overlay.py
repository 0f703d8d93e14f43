"""A tree after changes is the tree of its contents, whatever it was made from, and keeps the files that it can."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakespark.engine.duckdb import DuckDBEngine
from lakespark.entries import ENTRY_COLUMNS, ENTRY_SCHEMA
from lakespark.operations import trees
from lakespark.operations.tree_steps import apply_in_steps
from lakespark.storage import open_store
from lakespark.testing import strategies
from lakespark.testing.judge import entries_of
from lakespark.testing.trees import Entry, Range, Tree, after_changes, cut, threshold_for, untouched
from lakespark.tree.metarange import Metarange, read_metarange, read_ranges_at, write_metarange

CHANGE_SCHEMA = pa.schema([pa.field("op", pa.string()), *ENTRY_SCHEMA])
PATHS = [f"{letter}{number}" for letter in "abc" for number in range(12)]

_numbers = itertools.count()


def rows_of(changes):
    """Changes (an entry, or None for a delete, by path) as a table."""
    rows = [
        {"op": "put", "path": path, "identity": entry.identity, "mtime": 0, **entry._asdict()}
        if entry
        else {"op": "delete", "path": path}
        for path, entry in changes.items()
    ]
    return pa.Table.from_pylist(rows, schema=CHANGE_SCHEMA)


def write(engine, base, changes, reuse=None):
    return trees.apply_changes(engine, base, rows_of(changes), base.by_id if reuse is None else reuse)


def modelled(tree, entries):
    """The model of a tree whose range files are numbered in order."""
    runs = [Range(number, run) for number, run in enumerate(cut(entries, tree.threshold))]
    assert [run.id for run in runs] == [ref.range_id for ref in tree.ranges]
    return Tree(0, tree.threshold, tuple(runs))


def changes_of(paths):
    """Puts and deletes of some paths."""
    return st.dictionaries(st.sampled_from(paths), st.none() | strategies.entries(), min_size=1, max_size=8)


@st.composite
def trees_and_changes(draw):
    """A mean range size, entries to begin with, and changes to lay over them one after the other."""
    paths = draw(st.just(PATHS) | st.lists(strategies.paths(), min_size=5, max_size=20, unique=True))
    absent = draw(st.sets(st.sampled_from(paths)))
    entry = draw(strategies.entries())
    entries = {path: entry for path in sorted(paths) if path not in absent}
    mean = draw(st.sampled_from([1, 2, 3, 5, 8000]))
    return mean, entries, draw(st.lists(changes_of(paths), min_size=1, max_size=4))


@settings(max_examples=60, deadline=None)
@given(trees_and_changes(), st.sampled_from([1, 4, 1_000_000]))
def test_the_tree_depends_on_the_contents_and_untouched_ranges_keep_their_files(drawn, at_once):
    """Ranges, ids, limits, counts and sizes as in the model, and the model's idea of what is not written again.

    However many entries are written at once.
    """
    mean, entries, steps = drawn
    store = open_store(f"memory://overlay-{next(_numbers)}")
    engine, threshold = DuckDBEngine(store), threshold_for(mean)
    engine.entries_at_once = at_once
    tree, now = Metarange(threshold, ()), {}
    for changes in [entries, *steps]:
        before, kept = tree, {run.id for run in untouched(modelled(tree, now), changes)}
        tree, now = write(engine, before, changes), after_changes(now, changes)
        expected = modelled(tree, now)
        assert tree.id == expected.id
        for ref, run in zip(tree.ranges, expected.ranges, strict=True):
            size = sum(entry.size_bytes for _, entry in run.entries)
            limits = (run.entries[0][0], run.entries[-1][0], len(run.entries), size)
            assert (ref.min_path, ref.max_path, ref.count, ref.bytes) == limits
        known = {ref.range_id: ref for ref in before.ranges}
        assert kept <= {ref.range_id for ref in tree.ranges}
        assert all(ref == known[ref.range_id] for ref in tree.ranges if ref.range_id in known)
        found = {path: identity for path, identity, _ in entries_of(engine.read_ranges(tree.ranges, ENTRY_COLUMNS))}
        assert list(found.items()) == [(path, entry.identity) for path, entry in now.items()]
        assert read_metarange(store, write_metarange(store.put, tree)) == tree


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_range_that_loses_its_cut_is_written_together_with_the_next(at_once):
    """Though no more entries should be written at once."""
    entry = Entry("data/somewhere/1", 1, "etag:x", "text/plain", ())
    engine = DuckDBEngine(open_store(f"memory://overlay-{next(_numbers)}"))
    full = write(engine, Metarange(threshold_for(3), ()), {f"{number:03d}": entry for number in range(100)})
    changes = {full.max_paths[4]: None, full.max_paths[7]: None, "050": entry}
    expected = write(engine, full, changes)
    engine.entries_at_once = at_once
    assert write(engine, full, changes).id == expected.id


@settings(max_examples=60, deadline=None)
@given(trees_and_changes())
def test_changes_in_steps_make_the_trees_that_they_make_one_after_the_other(drawn):
    """Where no two steps change one path: the same ids, and no file is written for a range that was there before."""
    mean, entries, steps = drawn
    engine = DuckDBEngine(open_store(f"memory://overlay-{next(_numbers)}"))
    base = write(engine, Metarange(threshold_for(mean), ()), entries)
    places = {path: step for step, changes in reversed([*enumerate(steps, 1)]) for path in changes}
    steps = [
        {path: entry for path, entry in changes.items() if places[path] == n} for n, changes in enumerate(steps, 1)
    ]
    together = pa.concat_tables(
        [
            rows_of(changes).append_column("step", pa.array([n] * len(changes), pa.int64()))
            for n, changes in enumerate(steps, 1)
        ]
    )
    before = expected = base
    for changes, found in zip(steps, apply_in_steps(engine, base, together, [{}] * len(steps)), strict=True):
        expected = write(engine, expected, changes) if changes else expected
        assert found.id == expected.id
        assert [ref.max_path for ref in found.ranges] == [ref.max_path for ref in expected.ranges]
        assert all(ref == before.by_id[ref.range_id] for ref in found.ranges if ref.range_id in before.by_id)
        before = found


@settings(max_examples=40, deadline=None)
@given(trees_and_changes(), st.data())
def test_finding_and_comparing_read_only_what_they_need(drawn, data):
    """Look-ups by path and prefix, and differences between two trees, against whole dicts."""
    mean, entries, steps = drawn
    store = open_store(f"memory://overlay-{next(_numbers)}")
    engine = DuckDBEngine(store)
    left = write(engine, Metarange(threshold_for(mean), ()), entries)
    right = write(engine, left, steps[0])
    now = after_changes(entries, steps[0])
    paths = sorted({*entries, *now, "none"})
    prefix = data.draw(strategies.prefixes_of(paths))
    for path in paths:
        ref = right.find(path)
        entry = None if ref is None else engine.reader.entry(ref, path)
        assert (entry and entry["identity"]) == (now[path].identity if path in now else None)
    assert read_ranges_at(store, write_metarange(store.put, right), paths) == tuple(map(right.find, paths))
    differences = engine.collect(trees.changes_between(engine, left, right, prefix)).to_pylist()
    identities = [{path: entry.identity for path, entry in side.items()} for side in (entries, now)]
    assert {row["path"]: (row["left_identity"], row["right_identity"]) for row in differences} == {
        path: (identities[0].get(path), identities[1].get(path))
        for path in paths
        if path.startswith(prefix) and identities[0].get(path) != identities[1].get(path)
    }
    below = {path for ref in right.with_prefix(prefix) for path in paths if ref.min_path <= path <= ref.max_path}
    assert {path for path in now if path.startswith(prefix)} <= below


@pytest.mark.parametrize("mean", [3, 8000])
def test_an_equal_put_takes_its_new_address_with_it_only_where_the_range_is_written(mean):
    """It is no change by itself; in a range that is written anyway, and where nothing is reused, it counts."""
    engine = DuckDBEngine(open_store(f"memory://overlay-{next(_numbers)}"))
    tree = write(engine, Metarange(threshold_for(mean), ()), {path: entry_at("data/old") for path in PATHS})
    ref = next(ref for ref in tree.ranges if ref.count > 1)
    again, neighbour = {ref.max_path: entry_at("data/new")}, ref.min_path

    def address(changed):
        return engine.reader.entry(changed.find(ref.max_path), ref.max_path)["physical_address"]

    assert write(engine, tree, again) == tree
    taken_in = write(engine, tree, again, reuse={})
    assert (taken_in.id, address(taken_in)) == (tree.id, "data/new")
    changed = write(engine, tree, again | {neighbour: entry_at("data/other", size=2)})
    assert changed.id != tree.id
    assert address(changed) == "data/new"


def entry_at(address, size=1):
    """An entry at an address, otherwise like any other of its size."""
    return Entry(address, size, "etag:x", "text/plain", ())
