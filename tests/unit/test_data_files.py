"""Data files without Spark: partition values in paths, statistics in footers, Arrow tables written, views."""

import datetime as dt
import io
import itertools
import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakespark
from lakespark.errors import BadRequestException, ObjectExistsException
from lakespark.operations import data_files, schemas
from lakespark.operations.views import ViewFile, write_view
from lakespark.storage import open_store
from lakespark.testing.faults import FaultyStore

_numbers = itertools.count()
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NAMES = TEXT.filter(bool)


@pytest.fixture
def main():
    """The branch of a new repository in memory."""
    lake = lakespark.Lake(f"memory://data-files-{next(_numbers)}/lake", user="ann")
    return lake.repository("analytics").create().branch("main")


def statistics(table, **how):
    """Statistics from the footer of a file that pyarrow makes of a table."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **how)
    return json.loads(data_files.parquet_statistics(pq.read_metadata(pa.BufferReader(sink.getvalue()))))


def contents(branch, prefix):
    """Rows below a prefix as lakespark's own readers give them: file by file, partition values from the paths."""
    rows = []
    for found in branch.objects(prefix=prefix):
        with branch.object(found.path).reader() as file:
            table = pq.read_table(pa.BufferReader(file.read()))
        values = data_files.partition_values(found.path.removeprefix(prefix))
        rows += [{**row, **values} for row in table.to_pylist()]
    return rows


class TestPartitionPaths:
    @settings(max_examples=100, deadline=None)
    @given(st.dictionaries(NAMES, st.none() | NAMES, max_size=3))
    def test_values_come_back_from_their_path(self, values):
        """Any text, in the order of the columns."""
        path = data_files.partition_path(values) + "part.parquet"
        assert list(data_files.partition_values(path).items()) == list(values.items())
        assert path.count("/") == len(values)

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (None, "__HIVE_DEFAULT_PARTITION__"),
            ("", "__HIVE_DEFAULT_PARTITION__"),
            (True, "true"),
            (7, "7"),
            (dt.date(2024, 2, 29), "2024-02-29"),
            ("a b/c=d", "a b%2Fc%3Dd"),
            ("ü ", "ü "),
            ("\n#%'*:?[]^{\"\\", "%0A%23%25%27%2A%3A%3F%5B%5D%5E%7B%22%5C"),
            (dt.datetime.fromisoformat("2024-02-29T01:00"), "2024-02-29 01%3A00%3A00"),
            (dt.datetime.fromisoformat("2024-02-29T01:00:00.5+01:00"), "2024-02-29 00%3A00%3A00.500000Z"),
        ],
    )
    def test_values_are_written_as_spark_reads_them(self, value, text):
        assert data_files.partition_path({"p": value}) == f"p={text}/"

    def test_other_folders_are_no_partitions(self):
        found = data_files.partition_values("sub/=x/year=2024/day%3D=a%2Fb/name=file.parquet")
        assert found == {"year": "2024", "day=": "a/b"}

    @pytest.mark.parametrize(
        ("path", "is_data"),
        [
            ("part.parquet", True),
            ("sub/part.parquet", True),
            ("year=2024/part.parquet", True),
            ("_year=2024/part.parquet", True),
            ("_SUCCESS", False),
            (".part.crc", False),
            ("year=2024/_metadata", False),
            ("_temporary/0/part.parquet", False),
            (".hidden=1/part.parquet", False),
            ("_name=value", False),
        ],
    )
    def test_hidden_files_are_no_data(self, path, is_data):
        assert data_files.is_data_file(path) is is_data

    def test_a_prefix_is_that_of_a_folder(self):
        assert [data_files.folder_prefix(prefix) for prefix in ("", "t", "t/")] == ["", "t/", "t/"]
        assert [data_files.partition_folder(path) for path in ("a", "p=1/a")] == ["", "p=1/"]


class TestStatistics:
    def test_bounds_are_over_all_row_groups(self):
        table = pa.table({"n": [5, None, -3, 8], "s": ["b", "a", None, "ü"], "flag": [True, True, False, None]})
        assert statistics(table, row_group_size=1) == {
            "numRecords": 4,
            "minValues": {"n": -3, "s": "a", "flag": False},
            "maxValues": {"n": 8, "s": "ü", "flag": True},
            "nullCount": {"n": 1, "s": 1, "flag": 1},
        }

    def test_an_all_null_column_has_a_count_and_no_bounds(self):
        found = statistics(pa.table({"n": pa.array([None, None], pa.int64()), "id": [1, 2]}))
        assert found["nullCount"] == {"n": 2, "id": 0}
        assert found["minValues"] == {"id": 1}

    def test_floats_have_no_greatest_value(self):
        """NaN is above every number for Spark, and this writer leaves it out of a file's bounds."""
        found = statistics(pa.table({"x": [1.5, math.nan, 2.5], "y": [1.5, None, 2.5]}))
        assert (found["minValues"], found["maxValues"]) == ({"x": 1.5, "y": 1.5}, {})

    @pytest.mark.parametrize("values", [[math.nan], [math.inf, -math.inf], [-math.inf, 1.0]], ids=str)
    def test_floats_that_json_cannot_hold_are_left_out(self, values):
        found = statistics(pa.table({"x": values}))
        assert (found["minValues"], found["maxValues"]) == ({}, {})

    def test_a_row_group_without_bounds_leaves_the_column_without(self):
        found = statistics(pa.table({"x": [1.0, math.nan], "n": [1, 2]}), row_group_size=1)
        assert found["minValues"] == {"n": 1}

    def test_long_text_has_no_bound(self):
        """At most 64 characters, on each side by itself."""
        found = statistics(pa.table({"s": ["a" * 64, "b" * 65], "t": ["a" * 65, "b"]}))
        assert found["minValues"] == {"s": "a" * 64}
        assert found["maxValues"] == {"t": "b"}

    def test_dates_are_text(self):
        found = statistics(pa.table({"day": [dt.date(2024, 2, 29), dt.date(1969, 12, 31)]}))
        assert (found["minValues"], found["maxValues"]) == ({"day": "1969-12-31"}, {"day": "2024-02-29"})

    @pytest.mark.parametrize(
        "values",
        [
            pa.array([4_000_000], pa.date32()),
            pa.array([2**62], pa.timestamp("us")),
            pa.array([0], pa.timestamp("us", "UTC")),
            pa.array([b"\xff"]),
            pa.array([dt.time(1)]),
        ],
        ids=lambda values: str(values.type),
    )
    def test_types_without_an_exact_bound_have_a_count_only(self, values):
        """Dates beyond Python's too, which Spark writes."""
        found = statistics(pa.table({"x": values}))
        assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({}, {}, {"x": 0})

    def test_only_top_level_columns_have_statistics(self):
        found = statistics(pa.table({"s": [{"x": 1}], "l": [[1, 2]], "n": [3]}))
        assert found == {"numRecords": 1, "minValues": {"n": 3}, "maxValues": {"n": 3}, "nullCount": {"n": 0}}

    def test_without_rows_or_statistics_only_the_number_of_rows_is_known(self):
        empty = {"minValues": {}, "maxValues": {}, "nullCount": {}}
        assert statistics(pa.table({"n": pa.array([], pa.int64())})) == {"numRecords": 0, **empty}
        assert statistics(pa.table({"n": [1]}), write_statistics=False) == {"numRecords": 1, **empty}


class TestArrowWrites:
    def test_partitions_are_files_of_their_own(self, main):
        table = pa.table({"id": [1, 2, 3, 4], "kind": ["a b/ü", None, "x", "x"]})
        assert main.write(table, "t/", partition_by="kind") == 3
        assert sorted(contents(main, "t/"), key=lambda row: row["id"]) == table.to_pylist()

    @pytest.mark.parametrize(
        "values", [[math.nan, 0.0, -0.0, math.nan, None], [True, None, False, True, True]], ids=str
    )
    def test_every_row_is_written_once_whatever_the_value(self, main, values):
        main.write(pa.table({"id": range(5), "p": values}), "t/", partition_by=["p"])
        assert sorted(row["id"] for row in contents(main, "t/")) == [0, 1, 2, 3, 4]

    def test_dictionaries_and_chunks_are_partitioned_by_value(self, main):
        part = pa.table({"id": [1, 2], "p": pa.array(["x", None]).dictionary_encode()})
        main.write(pa.concat_tables([part, part]), "t/", partition_by="p")
        assert sorted((row["id"], row["p"]) for row in contents(main, "t/") if row["p"]) == [(1, "x"), (1, "x")]
        assert len(contents(main, "t/")) == 4

    def test_entries_have_schema_and_statistics(self, main):
        main.write(pa.table({"id": [1, 2], "p": pa.array([7, 7], pa.int16())}), "t/", partition_by="p")
        (row,) = main.objects_table(prefix="t/").to_pylist()
        fields = json.loads(row["data_schema"])["fields"]
        assert [(field["name"], field["type"]) for field in fields] == [("id", "long"), ("p", "short")]
        assert json.loads(row["data_stats"])["maxValues"] == {"id": 2}

    def test_modes_replace_what_they_say(self, main):
        def ids():
            return sorted(row["id"] for row in contents(main, "t/"))

        def table(*numbers):
            return pa.table({"id": numbers, "p": [number % 2 for number in numbers]})

        main.write(table(1, 2), "t/", partition_by="p")
        main.commit("one")
        with pytest.raises(ObjectExistsException, match="'t/' is not empty"):
            main.write(table(9), "t/", partition_by="p")
        main.write(table(3), "t/", mode="append", partition_by="p")
        assert ids() == [1, 2, 3]
        main.write(table(5), "t/", mode="overwrite_partitions", partition_by="p")
        assert ids() == [2, 5]
        main.write(table(4), "t/", replace_where="p = 0", partition_by="p")
        assert ids() == [4, 5]
        main.write(table(6), "t/", mode="overwrite", partition_by="p")
        assert ids() == [6]

    @pytest.mark.parametrize("mode", ["append", "overwrite_partitions"])
    def test_a_table_without_rows_replaces_no_partition(self, main, mode):
        main.write(pa.table({"id": [1], "p": ["a"]}), "t/", partition_by="p")
        empty = pa.table({"id": pa.array([], pa.int64()), "p": pa.array([], pa.string())})
        assert main.write(empty, "t/", mode=mode, partition_by="p") == 0
        assert [row["id"] for row in contents(main, "t/")] == [1]

    def test_a_replacement_without_rows_deletes_what_it_names(self, main):
        """Of the type that the column has: as text, 10 would be below 9."""
        main.write(pa.table({"id": [1, 2], "p": [9, 10]}), "t/", partition_by="p")
        empty = pa.table({"id": pa.array([], pa.int64()), "p": pa.array([], pa.int64())})
        assert main.write(empty, "t/", replace_where="p > 9", partition_by="p") == 0
        assert [row["id"] for row in contents(main, "t/")] == [1]

    def test_partitions_are_replaced_however_their_folders_are_written(self, main):
        """Other writers escape other characters, and write numbers and dates in other ways."""
        for number, folder in enumerate(("n=07/s=%C3%BC%20b", "n=7/s=ü b", "n=7/s=u b", "n=8/s=ü b", "n=x/s=ü b")):
            main.object(f"t/{folder}/{number}").upload(b"old")
        main.write(
            pa.table({"id": [1], "n": [7], "s": ["ü b"]}), "t/", mode="overwrite_partitions", partition_by=["n", "s"]
        )
        left = [found.path for found in main.objects(prefix="t/")]
        assert [path for path in left if not path.endswith(".parquet")] == [
            "t/n=7/s=u b/2",
            "t/n=8/s=ü b/3",
            "t/n=x/s=ü b/4",
        ]
        assert len(left) == 4

    @pytest.mark.parametrize("how", [{"mode": "overwrite_partitions"}, {"replace_where": "p is null"}], ids=str)
    def test_what_lies_beside_partitions_is_not_taken_for_that_of_null(self, main, how):
        main.write(pa.table({"id": [1, 2, 3], "p": [None, "a", "b"]}), "t/", partition_by="p")
        main.object("t/notes.txt").upload(b"kept")
        main.write(pa.table({"id": [4], "p": pa.array([None], pa.string())}), "t/", partition_by="p", **how)
        assert main.object("t/notes.txt").exists()
        main.delete_objects("t/notes.txt")
        assert sorted(row["id"] for row in contents(main, "t/")) == [2, 3, 4]

    def test_partitions_that_come_between_are_replaced_too(self, main):
        """Another writer adds one after this one has looked, before it stages."""
        main.write(pa.table({"id": [1], "p": [1]}), "t/", partition_by="p")
        repository = main.repository.opened
        other = pa.table({"id": [2], "p": [2]})

        def add_another(call):
            if call.method == "put_if_absent":
                store.on_call = None
                main.write(other, "t/", mode="append", partition_by="p")

        store = repository.store = FaultyStore(repository.store, on_call=add_another)
        main.write(pa.table({"id": [3], "p": [3]}), "t/", replace_where="p > 0", partition_by="p")
        assert [row["id"] for row in contents(main, "t/")] == [3]

    def test_a_prefix_below_an_object_is_refused(self, main):
        main.object("sales/2024.csv").upload(b"1")
        for prefix in ("sales/2024.csv", "sales/2024.csv/", "sales/2024.csv/a/b"):
            with pytest.raises(BadRequestException, match=r"'sales/2024\.csv' is an object"):
                main.write(pa.table({"id": [1]}), prefix, mode="overwrite")
        assert [change.path for change in main.uncommitted()] == ["sales/2024.csv"]

    def test_what_is_in_the_way_is_told_before_anything_is_written(self, main):
        main.write(pa.table({"id": [1]}), "t/")
        with pytest.raises(ObjectExistsException):
            main.write(pa.table({"id": [1]}), "t/")
        with pytest.raises(BadRequestException, match="cannot be used on partition columns p"):
            main.write(pa.table({"id": [1], "p": [1]}), "t/", replace_where="q = 1", partition_by="p")
        assert len(list(main.repository.opened.store.list("data"))) == 1

    def test_other_kinds_of_tables_are_refused(self, main):
        with pytest.raises(BadRequestException, match=r"cannot write a builtins\.dict: pass a DataFrame of Spark"):
            main.write({"id": [1]}, "t/")

    def test_a_table_without_rows_is_a_file_with_its_columns(self, main):
        assert main.write(pa.table({"id": pa.array([], pa.int64())}), "t/") == 1
        assert contents(main, "t/") == []

    @pytest.mark.parametrize(
        ("table", "how", "reason"),
        [
            (pa.table({"a": [1]}), {"partition_by": "b"}, "no column b"),
            (pa.table({"a": [1]}), {"partition_by": "a"}, "no column besides"),
            (pa.table({"a": [1], "b": [1]}), {"partition_by": ["a", "a"]}, "names a column twice"),
            (pa.table({"a": [1], "b": [b"x"]}), {"partition_by": "b"}, "have no text"),
            (pa.table({"a": [1], "b": [[1]]}), {"partition_by": "b"}, "have no text"),
            (pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"]), {}, "more than one column a"),
            (pa.table({"a": pa.array([1], pa.uint64())}), {}, "no Delta type for uint64"),
            (pa.table({"a": pa.array([1], pa.timestamp("ns"))}), {}, "would lose data"),
            (pa.table({"a": [1]}), {"format": "orc"}, "not as 'orc'"),
            (pa.table({"a": [1]}), {"mode": "ignore"}, "unknown write mode"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_what_cannot_be_written_is_refused(self, main, table, how, reason):
        with pytest.raises(BadRequestException, match=reason):
            main.write(table, "t/", **how)
        assert main.uncommitted_table().num_rows == 0

    def test_nanoseconds_that_are_none_become_microseconds(self, main):
        """Spark cannot read the others, and pandas makes no other."""
        main.write(pa.table({"at": pa.array([1_000, None], pa.timestamp("ns"))}), "t/")
        assert [row["at"] and row["at"].isoformat() for row in contents(main, "t/")] == [
            "1970-01-01T00:00:00.000001",
            None,
        ]

    def test_columns_with_nan_have_no_bounds_in_the_file_itself(self, main):
        """Spark skips row groups by them too."""
        main.write(pa.table({"x": [1.0, math.nan], "y": [1.0, 2.0]}), "t/")
        (path,) = (found.path for found in main.objects(prefix="t/"))
        with main.object(path).reader() as file:
            group = pq.read_metadata(pa.BufferReader(file.read())).row_group(0)
        assert [group.column(number).is_stats_set for number in range(2)] == [False, True]


def field(name, kind):
    return {"name": name, "type": kind, "nullable": False, "metadata": {}}


class TestUnionOfSchemas:
    def test_columns_are_found_by_name_in_order_of_appearance(self):
        found = schemas.union([[field("a", "string"), field("b", "date")], [field("c", "long"), field("a", "string")]])
        assert [(column["name"], column["type"], column["nullable"]) for column in found] == [
            ("a", "string", True),
            ("b", "date", True),
            ("c", "long", True),
        ]

    @pytest.mark.parametrize(
        ("one", "other", "wider"),
        [
            ("integer", "long", "long"),
            ("short", "byte", "short"),
            ("float", "double", "double"),
            ("decimal(9,2)", "decimal(12,2)", "decimal(12,2)"),
            ("void", "date", "date"),
        ],
    )
    def test_the_wider_type_wins(self, one, other, wider):
        for pair in ((one, other), (other, one)):
            (found,) = schemas.union([[field("n", kind)] for kind in pair])
            assert found["type"] == wider

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("integer", "string"),
            ("long", "double"),
            ("date", "timestamp"),
            ("decimal(9,2)", "decimal(9,3)"),
            ("string", {"type": "struct", "fields": []}),
        ],
        ids=str,
    )
    def test_incompatible_types_name_the_column(self, one, other):
        with pytest.raises(BadRequestException, match="column 'n' is"):
            schemas.union([[field("n", one)], [field("n", other)]])

    def test_structs_lists_and_maps_are_united_field_by_field(self):
        """What can be null in one of them can be null."""

        def nested(*fields, contains_null):
            row = {"type": "struct", "fields": list(fields)}
            array = {"type": "array", "elementType": row, "containsNull": contains_null}
            return {"type": "map", "keyType": "string", "valueType": array, "valueContainsNull": contains_null}

        one, other = field("a", "integer"), field("a", "long")
        added = field("b", "date")
        (found,) = schemas.union(
            [[field("n", nested(one, contains_null=False))], [field("n", nested(other, added, contains_null=True))]]
        )
        nullable = [{**column, "nullable": True} for column in (other, added)]
        assert found["type"] == nested(*nullable, contains_null=True)
        with pytest.raises(BadRequestException, match=r"column 'n\.value\.element\.a' is integer in some"):
            schemas.union(
                [[field("n", nested(kind, contains_null=True))] for kind in (one, field("a", "date"))],
            )

    @pytest.mark.parametrize(
        ("file_format", "found", "recorded", "kind"),
        [
            ("csv", "string", "integer", "integer"),
            ("csv", "integer", "date", "integer"),
            ("json", "string", "date", "date"),
            ("json", "string", "integer", "string"),
            ("json", "double", "decimal(9,2)", "decimal(9,2)"),
            ("json", "long", "string", "long"),
            ("orc", "string", "date", "string"),
        ],
    )
    def test_files_of_text_take_the_types_that_are_recorded(self, file_format, found, recorded, kind):
        columns = [field("n", found), field("new", "string")]
        typed = schemas.as_recorded(columns, [field("n", recorded)], file_format)
        assert [column["type"] for column in typed] == [kind, "string"]


class TestViews:
    def test_the_same_contents_are_one_view(self):
        store = open_store(f"memory://views-{next(_numbers)}/lake")
        fields = [field("a", "long"), field("p", "string")]
        files = [ViewFile("file:///x/p=a%2Fb/f.parquet", 10, 1_700_000_000, {"p": "a/b"}, '{"numRecords":1}')]
        first = write_view(store, fields, ["p"], files)
        assert write_view(store, fields, ["p"], files) == first
        assert write_view(store, fields[:1], [], files) != first
        assert len({found.key.split("/_delta_log/")[0] for found in store.list("_lakespark/views")}) == 2

    def test_a_view_is_a_delta_log(self):
        """A protocol, metadata and a line for each file, with its URL escaped once more."""
        store = open_store(f"memory://views-{next(_numbers)}/lake")
        files = [ViewFile("file:///a b/p=a%2Fb/f.parquet", 10, 5, {"p": None}, None)]
        key = write_view(store, [field("at", "timestamp_ntz"), field("p", "string")], ["p"], files)
        protocol, metadata, add = map(json.loads, store.get(f"{key}/_delta_log/{0:020d}.json").splitlines())
        assert protocol["protocol"]["readerFeatures"] == ["timestampNtz"]
        assert metadata["metaData"]["partitionColumns"] == ["p"]
        assert add["add"] == {
            "path": "file:///a%20b/p=a%252Fb/f.parquet",
            "partitionValues": {"p": None},
            "size": 10,
            "modificationTime": 5000,
            "dataChange": True,
        }

    def test_a_view_says_beforehand_what_delta_would_count(self):
        """The version's checksum file: sizes and numbers, and the same protocol and metadata as the log."""
        store = open_store(f"memory://views-{next(_numbers)}/lake")
        files = [ViewFile(f"file:///x/{size}.parquet", size, 5, {}, None) for size in (10, 32)]
        log = f"{write_view(store, [field('a', 'long')], [], files)}/_delta_log/{0:020d}"
        checksum = json.loads(store.get(f"{log}.crc"))
        protocol, metadata = map(json.loads, store.get(f"{log}.json").splitlines()[:2])
        assert checksum == {
            "tableSizeBytes": 42,
            "numFiles": 2,
            "numMetadata": 1,
            "numProtocol": 1,
            **protocol,
            "metadata": metadata["metaData"],
        }
