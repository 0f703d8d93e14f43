"""The metadata of a repository as tables says what the repository itself says, on both engines."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import chispa
import duckdb
import pyarrow as pa
import pytest

from lakespark import Branch, Lake, Repository, inspection
from lakespark.errors import BadRequestException, RefNotFoundError
from lakespark.operations import locating, path_history

COMMITS = (
    "id string, number long, parents array<string>, first_parent string, committer string, message string, "
    "creation_date long, metadata map<string,string>, meta_range_id string"
)
REFS = "name string, kind string, commit_id string, hidden boolean"
OPERATIONS = (
    "number long, verb string, user string, at long, details map<string,string>, ref string, kind string, "
    "before_commit_id string, after_commit_id string, id string, undone_by string, idempotency_key string"
)
ENTRIES = (
    "path string, identity string, physical_address string, size_bytes long, checksum string, mtime long, "
    "content_type string, metadata map<string,string>, data_schema string, data_stats string"
)
CHANGES = (
    "path string, type string, before_identity string, before_size_bytes long, before_physical_address string, "
    "after_identity string, after_size_bytes long, after_physical_address string"
)
UNCOMMITTED = f"{CHANGES}, written_by string, written_at long"
HISTORY = f"commit_id string, {CHANGES}"
LOCATIONS = "path string, kind string, name string, commit_id string, uncommitted boolean"
SCHEMAS = {
    COMMITS: inspection.COMMITS_SCHEMA,
    REFS: inspection.REFS_SCHEMA,
    OPERATIONS: inspection.OPERATIONS_SCHEMA,
    ENTRIES: inspection.ENTRIES_SCHEMA,
    CHANGES: inspection.CHANGES_SCHEMA,
    UNCOMMITTED: inspection.UNCOMMITTED_SCHEMA,
    HISTORY: inspection.HISTORY_SCHEMA,
    LOCATIONS: inspection.LOCATIONS_SCHEMA,
}
"""The columns as Spark has them, and as Arrow has them."""

Check = Callable[[Any, str, Sequence[dict[str, Any]]], None]


@pytest.fixture
def session(request: pytest.FixtureRequest, engine: str) -> Any:
    """What to inspect with: a session, or nothing for Arrow."""
    return request.getfixturevalue("spark") if engine == "spark" else None


@pytest.fixture
def check(session: Any) -> Check:
    """Compares a table with rows; Arrow tables in their order too."""

    def check_arrow(table: pa.Table, columns: str, rows: Sequence[dict[str, Any]]) -> None:
        assert table.schema == SCHEMAS[columns]
        assert table.to_pylist(maps_as_pydicts="strict") == list(rows)

    def check_spark(df: Any, columns: str, rows: Sequence[dict[str, Any]]) -> None:
        expected = session.createDataFrame([tuple(row[name] for name in df.columns) for row in rows], columns)
        keys = [name for name, kind in expected.dtypes if not kind.startswith("map")]
        chispa.assert_df_equality(df, expected, ignore_nullable=True, transforms=[lambda df: df.sort(keys)])

    return check_arrow if session is None else check_spark


@pytest.fixture
def repo(lake: Lake) -> Repository:
    """A history with a merge, a removed object, an unreachable commit, a tag and a copy."""
    repo = lake.repository("demo").create(range_entries=3)
    main = repo.branch("main")
    for number in range(8):
        main.object(f"p/{number}").upload(f"{number}")
    commit(main, "first", 1)
    repo.tag("v1").create("main")
    dev = repo.branch("dev").create("main")
    dev.object("p/3").upload("three", metadata={"a": "b"})
    dev.object("q/new").upload("new")
    commit(dev, "on dev", 2)
    main.object("p/4").delete()
    main.object("p/0").copy("main", "z/copy")
    commit(main, "on main", 3)
    dev.merge_into(main, message="merge", date=1_700_000_004, engine="duckdb")
    lost = repo.branch("lost").create("v1")
    lost.object("p/3").upload("lost")
    commit(lost, "lost", 5)
    lost.delete()
    return repo


def commit(branch: Branch, message: str, second: int, **how: Any) -> str:
    return branch.commit(message, date=1_700_000_000 + second, engine="duckdb", **how).id


def stage_some(main: Branch) -> None:
    """Something uncommitted of each kind, and an upload that makes no difference."""
    main.object("p/0").upload("nought")
    main.object("p/1").delete()
    main.object("p/2").upload("2")
    main.object("p/9").upload("9")


def all_commits(repo: Repository) -> list[Any]:
    """Commits by their messages, the newest first."""
    rows = repo.inspect().commits().to_pylist()
    return [repo.commit(row["id"]).get_commit() for row in rows]


def entry_rows(repo: Repository, ref: str, prefix: str = "") -> list[dict[str, Any]]:
    rows = repo.ref(ref).objects_table(prefix=prefix).to_pylist(maps_as_pydicts="strict")
    address = repo.opened.full_address
    return [{**row, "physical_address": address(row["physical_address"])} for row in rows]


def change_rows(repo: Repository, left: str, right: str, prefix: str = "") -> list[dict[str, Any]]:
    """The difference of two listings."""
    before, after = ({row["path"]: row for row in entry_rows(repo, ref, prefix)} for ref in (left, right))
    return change_rows_of(before, after)


def change_rows_of(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for path in sorted(before.keys() | after.keys()):
        sides = {"before": before.get(path, {}), "after": after.get(path, {})}
        if sides["before"].get("identity") != sides["after"].get("identity"):
            kind = "added" if path not in before else "removed" if path not in after else "changed"
            names = ("identity", "size_bytes", "physical_address")
            values = {f"{side}_{name}": row.get(name) for side, row in sides.items() for name in names}
            rows.append({"path": path, "type": kind, **values})
    return rows


def history_rows(repo: Repository, commits: Sequence[Any], prefix: str = "") -> list[dict[str, Any]]:
    """The difference of each commit's listing from its first parent's."""
    rows = []
    for made in commits:
        before = {row["path"]: row for row in entry_rows(repo, made.parents[0], prefix)} if made.parents else {}
        after = {row["path"]: row for row in entry_rows(repo, made.id, prefix)}
        rows += [{"commit_id": made.id, **row} for row in change_rows_of(before, after)]
    return rows


def test_commits_are_all_that_were_made_with_parents_before_children(repo: Repository, session: Any, check: Check):
    main = repo.branch("main")
    main.object("x").upload("x")
    made = commit(main, "with metadata", 6, metadata={"ticket": "12", "a": "é"}, committer="ben")
    rows = [made._asdict() | {"parents": list(made.parents)} for made in all_commits(repo)]
    numbers = [repo.opened.ledger.commit(row["id"]).number for row in rows]
    assert numbers == sorted(numbers, reverse=True)
    assert [row["message"] for row in rows] == [
        "with metadata", "lost", "merge", "on main", "on dev", "first", "Repository created",
    ]  # fmt: skip
    assert (rows[0]["id"], rows[0]["metadata"], rows[0]["committer"]) == (made, {"ticket": "12", "a": "é"}, "ben")
    first = [{"first_parent": row["parents"][0] if row["parents"] else None} for row in rows]
    expected = [{**row, **more, "number": number} for row, more, number in zip(rows, first, numbers, strict=True)]
    names = inspection.COMMITS_SCHEMA.names
    check(repo.inspect(session).commits(), COMMITS, [{name: row[name] for name in names} for row in expected])


def test_refs_are_branches_and_tags_with_those_of_transactions(repo: Repository, session: Any, check: Check):
    main = repo.branch("main")
    with main.transact("work") as tx:
        rows = [
            ("dev", "branch", repo.branch("dev").head.id, False),
            ("main", "branch", main.head.id, False),
            (tx.id, "branch", main.head.id, True),
            ("v1", "tag", repo.tag("v1").get_commit().id, False),
        ]
        names = inspection.REFS_SCHEMA.names
        check(repo.inspect(session).refs(), REFS, [dict(zip(names, row, strict=True)) for row in rows])


def test_operations_have_a_row_for_each_ref_that_they_changed(repo: Repository, session: Any, check: Check):
    repo.undo(next(info.id for info, _ in repo.operations(ref="dev")))
    with repo.branch("main").transact("work", tag="done") as tx:
        tx.object("t").upload("t")
    rows = []
    for info, changes in repo.operations():
        for change in changes:
            states = {"before_commit_id": change.before, "after_commit_id": change.after}
            ids = {name: state and state.commit_id for name, state in states.items()}
            rows.append({**info._asdict(), "ref": change.name, "kind": (change.after or change.before).kind, **ids})
    assert [(row["verb"], row["kind"]) for row in rows[:3]] == [
        ("merge", "branch"),
        ("merge", "branch"),
        ("merge", "tag"),
    ]
    assert any(row["before_commit_id"] is None for row in rows)
    assert any(row["after_commit_id"] is None for row in rows)
    assert [row["verb"] for row in rows if row["undone_by"] is not None] == ["commit"]
    names = inspection.OPERATIONS_SCHEMA.names
    check(repo.inspect(session).operations(), OPERATIONS, [{name: row[name] for name in names} for row in rows])


@pytest.mark.parametrize(
    ("ref", "prefix"), [("main", ""), ("main@", ""), ("v1", "p/"), ("main~1", "p/4"), ("main", "p/")]
)
def test_entries_are_the_listing_of_a_ref(repo: Repository, session: Any, check: Check, ref: str, prefix: str):
    stage_some(repo.branch("main"))
    rows = entry_rows(repo, ref, prefix)
    assert ("p/9" in {row["path"] for row in rows}) == (ref == "main")
    check(repo.inspect(session).entries(ref, prefix), ENTRIES, rows)


def test_addresses_are_full_urls_wherever_the_object_is(repo: Repository, session: Any, tmp_path: Any):
    inside, outside = "data/by hand/p=100%2F/part", (tmp_path / "50% off.csv").as_uri()
    repo.branch("main").stage(
        pa.table(
            {"path": ["a", "b"], "physical_address": [inside, outside], "size_bytes": [1, 1], "checksum": ["1", "2"]}
        )
    )
    table = rows_of(repo.inspect(session).entries("main"))
    addresses = {row["path"]: row["physical_address"] for row in table}
    assert addresses["a"] == repo.branch("main").object("a").stat().physical_address
    assert addresses["a"].endswith("/demo/data/by hand/p=100%252F/part")
    assert addresses["b"] == outside


def rows_of(table: Any) -> list[dict[str, Any]]:
    arrow: pa.Table = table if isinstance(table, pa.Table) else table.toArrow()
    return arrow.to_pylist()


@pytest.mark.parametrize("case", [("v1", "main", ""), ("main", "v1", "p/"), ("main~2", "dev", "")])
def test_changes_have_both_sides(repo: Repository, session: Any, check: Check, case: tuple[str, str, str]):
    left, right, prefix = case
    stage_some(repo.branch("main"))  # makes no difference: commits are compared
    rows = change_rows(repo, *(repo.ref(ref).get_commit().id for ref in (left, right)), prefix)
    two_dot = repo.ref(left).diff(right, prefix=prefix, type="two_dot", engine="duckdb")
    assert [(row["type"], row["path"]) for row in rows] == [(change.type, change.path) for change in two_dot] != []
    check(repo.inspect(session).changes(left, right, prefix), CHANGES, rows)


def test_uncommitted_says_what_differs_from_the_commit_and_who_wrote_it(repo: Repository, session: Any, check: Check):
    main = repo.branch("main")
    stage_some(main)
    written = {change.path: (change.written_by, change.written_at) for change in main.uncommitted()}
    rows = [
        {**row, **dict(zip(("written_by", "written_at"), written[row["path"]], strict=True))}
        for row in change_rows(repo, "main@", "main")
    ]
    assert [(row["type"], row["path"]) for row in rows] == [("changed", "p/0"), ("removed", "p/1"), ("added", "p/9")]
    check(repo.inspect(session).uncommitted("main"), UNCOMMITTED, rows)
    check(repo.inspect(session).uncommitted("main", "p/1"), UNCOMMITTED, rows[1:2])


@pytest.mark.parametrize("path", ["p/3", "p/4", "z/copy", "nothing"])
def test_history_of_a_path_is_that_of_its_prefix_at_this_path(repo: Repository, session: Any, check: Check, path: str):
    """Point look-ups for a path, joins of whole ranges for a prefix: the same rule."""
    rows = history_rows(repo, all_commits(repo), path)
    assert {row["path"] for row in rows} <= {path}
    check(repo.inspect(session).history(path), HISTORY, rows)
    check(repo.inspect(session).history(prefix=path), HISTORY, rows)


def test_history_of_everything_is_every_commit_against_its_first_parent(repo: Repository, session: Any, check: Check):
    rows = history_rows(repo, all_commits(repo))
    changed = {(row["commit_id"], row["path"]) for row in rows}
    assert (repo.branch("main").head.id, "q/new") in changed  # a merge is shown where it brought something
    check(repo.inspect(session).history(), HISTORY, rows)


def test_history_of_a_ref_is_that_of_what_it_reaches(repo: Repository, session: Any, check: Check):
    reached = {made.id for made in repo.ref("main").log()}
    commits = [made for made in all_commits(repo) if made.id in reached]
    assert {"lost"} == {made.message for made in all_commits(repo)} - {made.message for made in commits}
    check(repo.inspect(session).history("p/3", ref="main"), HISTORY, history_rows(repo, commits, "p/3"))
    logged = [made.id for made in repo.ref("main").log(objects=["p/3"])]
    assert [row["commit_id"] for row in rows_of(repo.inspect().history("p/3", ref="main"))] == logged
    check(repo.inspect(session).history(prefix="p/", ref="v1"), HISTORY, history_rows(repo, commits[-2:], "p/"))


@pytest.mark.parametrize("entries", [1, 10])
def test_work_in_process_is_the_same_in_however_many_queries(
    repo: Repository, engine: str, monkeypatch: Any, entries: int
):
    address = repo.tag("v1").object("p/0").stat().physical_address
    whole = repo.inspect().history(), repo.inspect().locate(address)
    for module in (path_history, locating):
        monkeypatch.setattr(module, "BATCH_ENTRIES", entries)
    assert (repo.inspect().history(), repo.inspect().locate(address)) == whole


def locations(*rows: tuple[str, str, str, str, bool]) -> list[dict[str, Any]]:
    return [dict(zip(inspection.LOCATIONS_SCHEMA.names, row, strict=True)) for row in rows]


def test_locate_finds_every_branch_tag_and_commit_that_holds_an_object(repo: Repository, session: Any, check: Check):
    merge, on_main, on_dev, first, lost = ids(repo, "merge", "on main", "on dev", "first", "lost")
    address = repo.tag("v1").object("p/0").stat().physical_address
    repo.branch("clean").create("main")
    main = repo.branch("main")
    main.object("p/0").upload("other")
    repo.tag("v1").object("p/0").copy("main", "again")
    rows = locations(
        ("p/0", "branch", "clean", merge, False),
        ("z/copy", "branch", "clean", merge, False),
        ("p/0", "branch", "dev", on_dev, False),
        ("again", "branch", "main", merge, True),
        ("z/copy", "branch", "main", merge, False),
        ("p/0", "tag", "v1", first, False),
        ("p/0", "commit", lost, lost, False),
        ("p/0", "commit", merge, merge, False),
        ("z/copy", "commit", merge, merge, False),
        ("p/0", "commit", on_main, on_main, False),
        ("z/copy", "commit", on_main, on_main, False),
        ("p/0", "commit", on_dev, on_dev, False),
        ("p/0", "commit", first, first, False),
    )
    check(repo.inspect(session).locate(address), LOCATIONS, rows)
    check(repo.inspect(session).locate(repo.opened.relative_address(address)), LOCATIONS, rows)


def ids(repo: Repository, *messages: str) -> list[str]:
    made = {made.message: made.id for made in all_commits(repo)}
    return [made[message] for message in messages]


def test_an_object_is_located_however_its_address_is_written(lake: Lake, session: Any, tmp_path: Path):
    """In the store's own form, as a path, percent-encoded, and as the entry has it."""
    main = lake.repository("demo").create().branch("main")
    outside = tmp_path / "50% off & more.csv"
    addresses = {"inside": "data/by hand/p=100%2F/part", "uri": outside.as_uri(), "foreign": "ftp://host/x%20y"}
    columns = {
        "path": [*addresses],
        "physical_address": [*addresses.values()],
        "size_bytes": [1] * 3,
        "checksum": ["1"] * 3,
    }
    main.stage(pa.table(columns))
    namespace = Path(lake.repository("demo").properties.storage_namespace)
    ways = {
        "inside": [
            addresses["inside"],
            str(namespace / addresses["inside"]),
            (namespace / addresses["inside"]).as_uri(),
        ],
        "uri": [addresses["uri"]],
        "foreign": [addresses["foreign"]],
    }
    inspect = lake.repository("demo").inspect(session)
    for path, written in ways.items():
        for address in written:
            assert [row["path"] for row in rows_of(inspect.locate(address))] == [path], address


def test_empty_tables_have_their_columns_too(lake: Lake, session: Any, check: Check):
    repo = lake.repository("empty").create()
    inspect = repo.inspect(session)
    check(inspect.entries("main"), ENTRIES, [])
    check(inspect.changes("main", "main"), CHANGES, [])
    check(inspect.uncommitted("main"), UNCOMMITTED, [])
    check(inspect.history("nothing"), HISTORY, [])
    check(inspect.history(prefix="nothing/"), HISTORY, [])
    check(inspect.locate("data/nothing"), LOCATIONS, [])


def test_what_was_given_does_not_change_with_the_branch(repo: Repository, session: Any, check: Check):
    main, inspect = repo.branch("main"), repo.inspect(session)
    stage_some(main)
    entries, uncommitted = entry_rows(repo, "main"), rows_of(repo.inspect().uncommitted("main"))
    before = inspect.entries("main"), inspect.uncommitted("main"), inspect.commits()
    commits = rows_of(repo.inspect().commits())
    main.object("p/5").delete()
    commit(main, "later", 9)
    check(before[0], ENTRIES, entries)
    check(before[1], UNCOMMITTED, uncommitted)
    assert len(rows_of(before[2])) == len(commits) == len(rows_of(inspect.commits())) - 1


def test_tables_are_joined_in_sql(repo: Repository, session: Any):
    inspect = repo.inspect(session)
    tables = {"history": inspect.history(prefix="p/"), "commits": inspect.commits(), "refs": inspect.refs()}
    sql = """
        select r.name, h.path, h.type, c.message
        from refs r join commits c on c.id = r.commit_id join history h on h.commit_id = c.id
        order by r.name, h.path
    """
    if session is None:
        with duckdb.connect() as connection:
            for name, table in tables.items():
                connection.register(name, table)
            rows = connection.sql(sql).fetchall()
    else:
        for name, df in tables.items():
            df.createOrReplaceTempView(name)
        rows = [tuple(row) for row in session.sql(sql).collect()]
    found = [("dev", "p/3", "changed", "on dev"), ("main", "p/3", "changed", "merge")]
    assert rows == found + [("v1", f"p/{number}", "added", "first") for number in range(8)]


def test_what_cannot_be_asked_is_refused(repo: Repository, session: Any):
    inspect = repo.inspect(session)
    with pytest.raises(BadRequestException, match="path or of a prefix"):
        inspect.history("p/0", prefix="p/")
    with pytest.raises(BadRequestException, match="physical address"):
        inspect.locate("")
    for ask in (inspect.entries, inspect.uncommitted, lambda ref: inspect.history(ref=ref)):
        with pytest.raises(RefNotFoundError):
            ask("none")
