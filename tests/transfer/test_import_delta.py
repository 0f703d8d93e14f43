"""Import of the current files of a Delta table."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from imported import failure

from lakespark.errors import BadRequestException


@pytest.fixture
def delta(tmp_path):
    """A Delta table in three partitions, with a file that a deletion has replaced."""
    place = str(tmp_path / "a table")
    data = pa.table(
        {
            "id": [1, 2, 3, 4],
            "p": ["x y", "a/b", None, "x y"],
            "day": [dt.date(2025, 1, n) for n in (1, 2, 3, 4)],
            "price": pa.array([Decimal("1.50")] * 4, pa.decimal128(10, 2)),
            "at": pa.array([dt.datetime(2025, 1, 1, 1, 2, 3, 456789, tzinfo=dt.UTC)] * 4, pa.timestamp("us", "UTC")),
        }
    )
    write_deltalake(place, data, partition_by=["p"])
    DeltaTable(place).delete("id = 4")
    return place


def test_the_current_files_of_a_delta_table_are_linked(main, delta):
    main.object("sales/old").upload("x")
    main.commit("before")
    status = main.import_data().delta_table(delta, "sales").run()
    assert status.ingested_objects == 3
    infos = list(main.objects())
    assert len(infos) == 3
    rows = [pq.read_table(main.object(info.path).reader()).to_pylist() for info in infos]
    assert sorted(row["id"] for file in rows for row in file) == [1, 2, 3]
    folders = {info.path.split("/")[1] for info in infos}
    assert folders == {"p=x%20y", "p=a%2Fb", "p=__HIVE_DEFAULT_PARTITION__"}


def test_files_of_a_delta_table_carry_its_schema_and_their_statistics(main, delta):
    main.import_data().delta_table(delta, "sales").run()
    entries = main.objects_table().to_pylist()
    schemas = {entry["data_schema"] for entry in entries}
    assert [field["name"] for field in json.loads(schemas.pop())["fields"]] == ["id", "p", "day", "price", "at"]
    assert not schemas
    stats = {entry["path"].split("/")[1]: json.loads(entry["data_stats"]) for entry in entries}
    found = stats["p=a%2Fb"]
    assert found["numRecords"] == 1
    wanted = {"id": 2, "day": "2025-01-02", "price": 1.5, "at": "2025-01-01T01:02:03.456Z"}
    assert found["minValues"] == found["maxValues"] == wanted
    assert found["nullCount"]["id"] == 0


def test_a_delta_table_imported_again_is_up_to_date_and_then_follows_the_table(main, delta):
    main.import_data().delta_table(delta, "sales").run()
    assert main.import_data().delta_table(delta, "sales").run().is_up_to_date
    DeltaTable(delta).delete("id = 1")
    status = main.import_data().delta_table(delta, "sales").run()
    assert (status.is_up_to_date, len(list(main.objects()))) == (False, 2)


def test_a_delta_table_that_its_files_do_not_tell_is_refused(main, tmp_path):
    place = tmp_path / "mapped"
    write_deltalake(str(place), pa.table({"id": [1]}))
    entry = place / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
    entry.write_text("\n".join(map(json.dumps, actions)))
    problem = failure(main.import_data().delta_table(place, "x"))
    assert isinstance(problem, BadRequestException)
    assert "column mapping" in str(problem)


def test_a_place_without_a_delta_table_is_refused(main, source):
    assert isinstance(failure(main.import_data().delta_table(source, "x")), BadRequestException)
