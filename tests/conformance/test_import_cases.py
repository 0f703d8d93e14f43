"""Imports of prefixes, objects, listings and Delta tables give the same trees on both engines."""

import pyarrow as pa
import pytest

from lakespark.errors import ImportManagerException, ObjectNotFoundException


@pytest.fixture
def branch(lake):
    return lake.repository("demo").create(range_entries=20).branch("main")


def table(numbers, version=0):
    return pa.table(
        {
            "address": [f"s3://bucket/in/{number % 7}/{number:03d}" for number in numbers],
            "size": [number + version for number in numbers],
            "checksum": [f"etag:{number}-{version}" for number in numbers],
        }
    )


def test_a_listing_adds_and_replaces(branch):
    branch.import_data().listing(table(range(100)), "x", base="s3://bucket/in").run()
    status = branch.import_data().listing(table(range(50, 150), 1), "x", base="s3://bucket/in").run()
    sizes = {int(info.path[-3:]): info.size_bytes for info in branch.objects()}
    assert sizes == {n: n if n < 50 else n + 1 for n in range(150)}
    assert branch.import_data().listing(table(range(50, 150), 1), "x", base="s3://bucket/in").run().is_up_to_date
    assert status.ingested_objects == 100


def test_a_prefix_replaces_what_was_below_it(branch, tmp_path):
    branch.import_data().listing(table(range(60)), "x", base="s3://bucket/in").run()
    branch.import_data().listing(table(range(60)), "xx", base="s3://bucket/in").run()
    for name in ("0/000", "3/new"):
        (tmp_path / "raw" / name).parent.mkdir(parents=True)
        (tmp_path / "raw" / name).write_text(name)
    branch.import_data().prefix(tmp_path / "raw", "x").run()
    paths = [info.path for info in branch.objects()]
    assert paths[:2] == ["x/0/000", "x/3/new"]
    assert len(paths) == 62
    assert all(path.startswith("xx/") for path in paths[2:])
    assert branch.object("x/3/new").reader("r").read() == "3/new"


def tree_in_process(branch, name, add):
    """Id of the tree that the same import makes in process, on the branch as it was before."""
    other = branch.repository.branch(name).create(f"{branch.id}~1")
    return add(other.import_data(engine="duckdb")).run().metarange_id


@pytest.fixture
def raw(tmp_path):
    """A folder of files of odd names, each of which holds its own name."""
    for name in ("a.txt", "a%20b", "sub dir/ü.txt", "x=1/part?#[1].csv", "deep/er/{c}", "_hidden", "empty"):
        (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "raw" / name).write_text(name if name != "empty" else "")
    return tmp_path / "raw"


def test_a_prefix_gives_the_tree_that_the_store_lists(branch, raw):
    branch.object("raw/old").upload("x")
    branch.object("kept").upload("x")
    branch.commit("before")
    status = branch.import_data().prefix(raw, "raw").run()
    assert status.metarange_id == tree_in_process(branch, "other", lambda manager: manager.prefix(raw, "raw"))
    files = [file for file in raw.rglob("*") if file.is_file()]
    assert {info.path for info in branch.objects()} == {
        "kept",
        *(f"raw/{f.relative_to(raw).as_posix()}" for f in files),
    }
    for file in files:
        info, known = branch.object(f"raw/{file.relative_to(raw).as_posix()}").stat(), file.stat()
        assert (info.size_bytes, info.mtime) == (known.st_size, int(known.st_mtime))
        assert info.checksum == f"stat:{known.st_mtime_ns // 1_000_000}-{known.st_size}"
    assert branch.import_data().prefix(raw, "raw").run().is_up_to_date


def test_a_delta_table_gives_the_same_tree_and_replaces_what_was_there(branch, tmp_path):
    from deltalake import DeltaTable, write_deltalake

    place = str(tmp_path / "a table")
    rows = pa.table({"id": [1, 2, 3, 4], "p": ["x y", "a/b", None, "x y"]})
    write_deltalake(place, rows, partition_by=["p"])
    branch.object("sales/old").upload("x")
    branch.commit("before")
    first = branch.import_data().delta_table(place, "sales").run()
    assert first.ingested_objects == 3
    assert first.metarange_id == tree_in_process(branch, "other", lambda manager: manager.delta_table(place, "sales"))
    DeltaTable(place).delete("id = 2")
    branch.import_data().delta_table(place, "sales").run()
    assert [info.path.rsplit("/", 1)[0] for info in branch.objects()] == [
        "sales/p=__HIVE_DEFAULT_PARTITION__",
        "sales/p=x%20y",
    ]


def test_several_sources_make_one_commit_that_is_told_of_step_by_step(branch, raw):
    seen = []
    manager = branch.import_data(
        "mixed", {"ticket": "7"}, on_status=lambda now: seen.append((now.step, now.ingested_objects))
    )
    manager.prefix(raw / "deep", "files").object(raw / "a%20b", "one").listing(
        table(range(30)), "x", base="s3://bucket/in"
    )
    status = manager.run()
    assert [info.path for info in branch.objects()][:2] == ["files/er/{c}", "one"]
    assert branch.object("one").reader("r").read() == "a%20b"
    assert (status.step, status.ingested_objects, status.skipped_objects) == ("done", 32, 0)
    assert [commit.message for commit in branch.log()] == ["mixed", "Repository created"]
    assert seen[-1] == ("writing", 32)
    assert {step for step, _ in seen[:-1]} == {"finding"}
    counts = [count for _, count in seen]
    assert counts == sorted(counts)


def test_a_path_of_two_sources_is_refused_and_nothing_is_changed(branch, raw):
    manager = branch.import_data().object(raw / "a.txt", "x").object(raw / "a%20b", "x")
    with pytest.raises(ImportManagerException, match=r"stands more than once \(2 in all\): 'x'"):
        manager.run()
    assert len(list(branch.log())) == 1


def test_a_place_without_objects_is_refused_and_removes_nothing(branch, raw, tmp_path):
    branch.import_data().prefix(raw, "raw").run()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImportManagerException) as caught:
        branch.import_data().prefix(tmp_path / "empty", "raw").run()
    assert isinstance(caught.value.__cause__, ObjectNotFoundException)
    assert len(list(branch.objects())) == 7


@pytest.mark.spark
def test_an_imported_delta_table_reads_as_the_table_does(spark, tmp_path):
    """With its partition values, and with files skipped by the statistics that were imported."""
    import datetime as dt
    from decimal import Decimal

    from deltalake import DeltaTable, write_deltalake

    import lakespark

    rows = pa.table(
        {
            "id": list(range(40)),
            "town": ["a/b", "c d", None, "100%"] * 10,
            "day": [dt.date(2025, 1, 1 + n % 28) for n in range(40)],
            "price": pa.array([Decimal(n) / 4 for n in range(40)], pa.decimal128(10, 2)),
            "at": pa.array(
                [dt.datetime(2025, 1, 1, 0, n, 3, 456789, dt.UTC) for n in range(40)], pa.timestamp("us", "UTC")
            ),
            "inner": [{"n": n} for n in range(40)],
        }
    )
    for half in (rows.slice(0, 20), rows.slice(20)):
        write_deltalake(str(tmp_path / "table"), half, partition_by=["town"], mode="append")
    DeltaTable(tmp_path / "table").delete("id = 7")
    main = lakespark.Lake(tmp_path / "lake", spark=spark).repository("demo").create().branch("main")
    main.import_data().delta_table(tmp_path / "table", "sales").run()
    df = main.read(spark, "sales/")
    wanted = [row for row in rows.to_pylist() if row["id"] != 7]
    found = df.select(*rows.column_names).orderBy("id").toArrow().to_pylist()
    assert found == wanted
    assert df.where("price >= 9.75 or at > timestamp'2025-01-01 00:39:00Z'").count() == 1
    assert df.where("town = '100%' and inner.n < 8 and day < date'2025-01-06'").count() == 1
