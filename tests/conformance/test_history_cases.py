"""A history of commits and merges: what differs between any two of them, and what each did, as the reference model."""

import random
from typing import Any, NamedTuple

import chispa
import pyarrow as pa
import pytest

from lakespark import Repository
from lakespark.inspection import CHANGES_SCHEMA, HISTORY_SCHEMA
from lakespark.testing.model import ModelRepository
from lakespark.testing.model_state import Description, StagedOp
from lakespark.testing.trees import Entry, threshold_for

RANGE_ENTRIES = 4
FOLDERS = ("", "a/", "a/b/", "ü/")
PATHS = [f"{folder}{number:02d}" for folder in FOLDERS for number in range(8)]
COMMITS = 6

Rows = list[dict[str, Any]]


class Pair(NamedTuple):
    """A repository and the model of it, with the commits of both in the order of their making."""

    real: Repository
    model: ModelRepository
    commits: list[str]


def change_rows(model: ModelRepository, left: str, right: str, prefix: str = "") -> Rows:
    """Both sides of each change between two commits of the model."""
    before, after = (model.commits[commit].tree.entries for commit in (left, right))
    rows = []
    for path in sorted(before.keys() | after.keys()):
        sides = before.get(path), after.get(path)
        if path.startswith(prefix) and side(sides[0])[0] != side(sides[1])[0]:
            kind = "added" if sides[0] is None else "removed" if sides[1] is None else "changed"
            values = (path, kind, *side(sides[0]), *side(sides[1]))
            rows.append(dict(zip(CHANGES_SCHEMA.names, values, strict=True)))
    return rows


def side(entry: Entry | None) -> tuple[Any, ...]:
    """Identity, size and address."""
    return (None,) * 3 if entry is None else (entry.identity, entry.size_bytes, entry.physical_address)


def history_rows(model: ModelRepository, commits: list[str], prefix: str = "") -> Rows:
    """What each commit of the model changed, against its first parent."""
    return [
        {"commit_id": commit, **row}
        for commit in commits
        for parent in model.commits[commit].parents[:1]
        for row in change_rows(model, parent, commit, prefix)
    ]


@pytest.fixture
def pair(lake: Any) -> Pair:
    """Commits of random puts and deletes on two branches, each of which is merged into the other."""
    random_ = random.Random(7)
    real = lake.repository("demo").create(range_entries=RANGE_ENTRIES)
    first = real.branch("main").get_commit()
    model = ModelRepository(
        threshold_for(RANGE_ENTRIES), Description(first.message, first.committer, first.creation_date)
    )
    made = Pair(real, model, [first.id])

    def commit(branch: str, paths: list[str], gone: list[str]) -> None:
        entries = [
            Entry(f"s3://b/{random_.random()}", 1, f"etag:{random_.randrange(3)}", "text/plain", ()) for _ in paths
        ]
        columns = {name: [getattr(entry, name) for entry in entries] for name in Entry._fields[:-1]}
        real.branch(branch).stage(pa.table({"path": paths, **columns}))
        real.branch(branch).delete_objects(gone)
        model.stage(branch, [StagedOp("put", *row) for row in zip(paths, entries, strict=True)])
        model.stage(branch, [StagedOp("delete", path) for path in gone])
        done = real.branch(branch).commit(f"on {branch}", engine="duckdb").get_commit()
        made.commits.append(model.commit(branch, Description(done.message, done.committer, done.creation_date)))

    def merge(source: str, destination: str) -> None:
        real.branch(source).merge_into(destination, strategy="source-wins", message="merge", engine="duckdb")
        done = real.branch(destination).get_commit()
        said = Description(done.message, done.committer, done.creation_date)
        made.commits.append(model.merge(source, destination, said, strategy="source-wins"))

    commit("main", PATHS, [])
    real.branch("dev").create("main")
    model.create_branch("dev", "main")
    for _ in range(COMMITS // 2):
        for branch in ("main", "dev"):
            chosen = random_.sample(PATHS, 9)
            commit(branch, chosen[:6], chosen[6:])
    merge("dev", "main")
    commit("main", PATHS[:1], [])
    merge("main", "dev")
    assert [record["id"] for record in real.inspect().commits().to_pylist()] == made.commits[::-1]
    return made


@pytest.fixture
def same(request: pytest.FixtureRequest, engine: str) -> Any:
    """Compares a table of the engine with rows, in whatever order."""

    def same_arrow(table: pa.Table, rows: Rows) -> None:
        assert sorted(table.to_pylist(), key=str) == sorted(rows, key=str)

    def same_spark(df: Any, rows: Rows) -> None:
        schema = HISTORY_SCHEMA if "commit_id" in df.columns else CHANGES_SCHEMA
        expected = request.getfixturevalue("spark").createDataFrame(pa.Table.from_pylist(rows, schema))
        chispa.assert_df_equality(df, expected, ignore_row_order=True, ignore_nullable=True)

    return same_arrow if engine == "duckdb" else same_spark


@pytest.fixture
def inspect(request: pytest.FixtureRequest, engine: str, pair: Pair) -> Any:
    """The tables of the repository, of the engine."""
    return pair.real.inspect(request.getfixturevalue("spark") if engine == "spark" else None)


def test_changes_between_commits_are_those_of_the_model(pair: Pair, inspect: Any, same: Any):
    numbers = [(0, -1), (1, 4), (-1, 2), (3, 3), (-2, -1)]
    for left, right in ((pair.commits[a], pair.commits[b]) for a, b in numbers):
        same(inspect.changes(left, right), change_rows(pair.model, left, right))
    left, right = pair.commits[1], pair.commits[-1]
    same(inspect.changes(left, right, "a/"), change_rows(pair.model, left, right, "a/"))
    diff = pair.real.ref(left).diff(right, type="two_dot")
    assert {row.path: (row.type, row.size_bytes) for row in diff} == pair.model.diff(left, right, "two_dot")


def test_the_history_of_a_prefix_is_what_each_commit_of_the_model_changed(pair: Pair, inspect: Any, same: Any):
    rows = history_rows(pair.model, pair.commits)
    assert len({row["commit_id"] for row in rows}) > COMMITS
    same(inspect.history(), rows)
    same(inspect.history(prefix="a/b/"), history_rows(pair.model, pair.commits, "a/b/"))
    reached = [commit for commit in pair.commits if commit in pair.model.ancestors([pair.commits[3]])]
    same(inspect.history(prefix="ü/", ref=pair.commits[3]), history_rows(pair.model, reached, "ü/"))


@pytest.mark.parametrize("path", ["00", "a/03", "a/b/07", "ü/01", "nothing"])
def test_the_history_of_a_path_is_what_each_commit_of_the_model_did_there(
    pair: Pair, inspect: Any, same: Any, path: str
):
    rows = [row for row in history_rows(pair.model, pair.commits) if row["path"] == path]
    same(inspect.history(path), rows)
    logged = [commit.id for commit in pair.real.ref("dev").log(objects=[path])]
    assert set(logged) <= {row["commit_id"] for row in rows}


@pytest.mark.parametrize(
    ("objects", "prefixes"),
    [(["a/03", "00", "nothing"], []), ([], ["a/b/", "ü/"]), (["00"], ["a/b/"]), (["nothing"], ["none/"])],
)
def test_a_log_shows_what_changed_one_of_several_paths_or_prefixes(pair: Pair, objects: list[str], prefixes: list[str]):
    rows = history_rows(pair.model, pair.commits)
    changed = {row["commit_id"] for row in rows if row["path"] in objects or row["path"].startswith(tuple(prefixes))}
    dev = pair.real.ref("dev")
    whole = [commit.id for commit in dev.log()]
    assert [commit.id for commit in dev.log(objects=objects, prefixes=prefixes)] == [c for c in whole if c in changed]
