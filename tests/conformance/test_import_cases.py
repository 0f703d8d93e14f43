"""Imports give the same trees on both engines."""

import pyarrow as pa
import pytest


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


@pytest.mark.spark
def test_spark_lists_a_prefix_as_the_store_does_but_for_hidden_names(spark, tmp_path):
    import lakespark

    names = ["a b.txt", "x=1/ü[1].csv", "deep/er/{c}", "100%25"]
    for name in [*names, "_SUCCESS", ".hidden"]:
        (tmp_path / "raw [1]" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "raw [1]" / name).write_text(name)
    main = lakespark.Lake(tmp_path / "lake", spark=spark).repository("demo").create().branch("main")
    status = main.import_data(engine="spark").prefix(tmp_path / "raw [1]", "in").run()
    assert status.ingested_objects == len(names)
    assert {info.path: main.object(info.path).reader("r").read() for info in main.objects()} == {
        f"in/{name}": name for name in names
    }
    listed = {info.path: (info.physical_address, info.size_bytes, info.mtime) for info in main.objects()}
    other = main.repository.branch("other").create("main~1")
    other.import_data(engine="duckdb").prefix(tmp_path / "raw [1]", "in").run()
    by_store = {info.path: (info.physical_address, info.size_bytes, info.mtime) for info in other.objects()}
    assert {path: by_store[path] for path in listed} == listed
    assert set(by_store) - set(listed) == {"in/_SUCCESS", "in/.hidden"}


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
