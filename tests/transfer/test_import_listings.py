"""Import of listings, such as inventories."""

import datetime as dt
import gzip
import hashlib
import sys

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from imported import NAMES, contents, failure, listing

from lakespark.errors import BadRequestException, InvalidEntriesError, ObjectNotFoundException


def test_a_listing_in_arrow_parquet_csv_and_gzip_gives_the_same_tree(repo, source, tmp_path):
    rows = listing(*((str(source / name), len(name.encode()), f"etag:{name}") for name in NAMES))
    pq.write_table(rows, tmp_path / "list.parquet")
    pa_csv.write_csv(rows, tmp_path / "list.csv")
    (tmp_path / "list.csv.gz").write_bytes(gzip.compress((tmp_path / "list.csv").read_bytes()))
    trees = set()
    for number, given in enumerate((rows, tmp_path / "list.parquet", tmp_path / "list.csv", tmp_path / "list.csv.gz")):
        branch = repo.branch(f"b{number}").create("main")
        status = branch.import_data().listing(given, "in", base=str(source)).run()
        assert contents(branch) == {f"in/{name}": name.encode() for name in NAMES}
        trees.add(status.metarange_id)
    assert len(trees) == 1


def test_a_folder_of_listings_is_read_as_one(main, tmp_path):
    for number in range(3):
        rows = listing((f"s3://bucket/k{number}", number, f"etag:{number}"))
        pq.write_table(rows, tmp_path / f"part-{number}.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "_tried.csv").touch()
    assert main.import_data().listing(tmp_path).run().ingested_objects == 3


def test_an_inventory_of_s3_is_understood(main):
    """Bucket and key, quoted ETags, times, and rows of old versions and deletions that do not count."""
    md5 = hashlib.md5(b"1").hexdigest()
    when = dt.datetime(2025, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    rows = pa.table(
        {
            "bucket": ["raw"] * 4,
            "key": ["data/a", "data/b", "data/old", "data/gone"],
            "size": [1, 2, 3, 0],
            "e_tag": [f'"{md5}"', f"{md5}-7", "x", "y"],
            "last_modified_date": pa.array([when] * 4, pa.timestamp("ms", "UTC")),
            "is_latest": [True, True, False, True],
            "is_delete_marker": [False, False, False, True],
            "storage_class": ["STANDARD"] * 4,
        }
    )
    main.import_data().listing(rows, "in").run()
    infos = list(main.objects())
    assert [(i.path, i.physical_address, i.size_bytes, i.checksum) for i in infos] == [
        ("in/data/a", "s3://raw/data/a", 1, md5),
        ("in/data/b", "s3://raw/data/b", 2, f"etag:{md5}-7"),
    ]
    assert {info.mtime for info in infos} == {int(when.timestamp())}


def test_a_listing_may_say_the_paths(main):
    rows = listing(("s3a://bucket/x", 1, "etag:1"), ("gs://b/y", 2, "etag:2"), path=["one", "two/three"])
    main.import_data().listing(rows, "in").run()
    assert [(i.path, i.physical_address) for i in main.objects()] == [
        ("in/one", "s3://bucket/x"),
        ("in/two/three", "gs://b/y"),
    ]


ODD = ["s3://b/a//b", "s3://b//lead", "s3://b/a/../x", "s3://b/a\tb", "s3://b/dir/"]


def test_keys_of_s3_that_only_boto3_can_address_are_imported_where_it_is_installed(main, monkeypatch):
    rows = listing(*((address, 1, "etag:1") for address in ODD), path=["1", "2", "3", "4", "5"])
    assert main.import_data().listing(rows).run().skipped.num_rows == 0
    assert [info.physical_address for info in main.objects()] == ODD
    monkeypatch.setitem(sys.modules, "boto3", None)  # as if it were not there
    assert main.import_data().listing(rows).run().skipped["address"].to_pylist() == sorted(ODD)


def test_rows_of_a_listing_that_are_no_paths_are_skipped(main, tmp_path):
    good = ("s3://b/good", 1, "etag:1")
    odd = ["gs://b/dir/", "gs://b/a//b", "gs://b//lead", "gs://b/../x", "gs://b/a\tb", "az://b/a\0b"]
    bad = ["s3://b/" + "x" * 1100, *odd]
    status = main.import_data().listing(listing(good, *((address, 1, "etag:1") for address in bad))).run()
    assert [info.path for info in main.objects()] == ["good"]
    assert status.skipped["address"].to_pylist() == sorted(bad)
    (tmp_path / "l.csv").write_bytes(b"address,size,checksum\ns3://b/\xff,1,etag:1\ns3://b/also,2,etag:2\n")
    status = main.import_data().listing(tmp_path / "l.csv").run()
    assert [info.path for info in main.objects()] == ["also", "good"]
    assert status.skipped.to_pylist() == [{"address": r"s3://b/\xff", "reason": "its address or path is not UTF-8"}]


A, B = ("s3://b/a", 1, "etag:1"), ("s3://b/b", 2, "etag:2")
BAD_LISTINGS = {
    "a missing column": (pa.table({"address": ["s3://b/a"], "size": [1]}), "lacks columns"),
    "no address": (pa.table({"size": [1], "checksum": ["x"], "key": ["a"]}), "lacks columns"),
    "a duplicate path": (listing(A, B, A), "more than once"),
    "a negative size": (listing(A, ("s3://b/c", -1, "etag:1")), "negative"),
    "an empty checksum": (listing(A, ("s3://b/c", 1, "")), "checksum"),
    "a null checksum": (listing(A, ("s3://b/c", 1, None)), "checksum"),
    "a null address": (listing(A, (None, 1, "etag:1")), "have no address"),
    "a relative address": (listing(A, ("data/x", 1, "etag:1")), "no full URL"),
    "an unknown store": (listing(A, ("ftp://b/x", 1, "etag:1")), "no full URL"),
    "no key": (listing(A, ("s3://bucket", 1, "etag:1")), "no full URL"),
    "a way around": (listing(A, ("file:///a/../b", 1, "etag:1")), ". or .."),
    "text for a size": (pa.table({"address": ["s3://b/a"], "size": ["many"], "checksum": ["x"]}), "size_bytes"),
    "numbers for addresses": (pa.table({"address": [1], "size": [1], "checksum": ["x"]}), "not text"),
}


@pytest.mark.parametrize("name", BAD_LISTINGS)
def test_a_listing_with_what_cannot_be_is_refused_and_nothing_is_changed(repo, main, name):
    rows, words = BAD_LISTINGS[name]
    before = len(list(repo.operations()))
    problem = failure(main.import_data().listing(rows))
    assert isinstance(problem, InvalidEntriesError)
    assert words in str(problem)
    assert len(list(repo.operations())) == before
    assert list(main.objects()) == []


def test_addresses_outside_of_the_base_are_refused(main):
    problem = failure(main.import_data().listing(listing(A, B, ("s3://c/b", 1, "etag:1")), base="s3://b"))
    assert "not below" in str(problem)


@pytest.mark.parametrize("name", ["l.csv", "l.parquet"])
def test_a_file_that_is_no_listing_is_refused(main, tmp_path, name):
    (tmp_path / name).write_bytes(b"PAR1 and no more" if name.endswith("parquet") else b"address,size\n1,2,3\n")
    assert isinstance(failure(main.import_data().listing(tmp_path / name)), InvalidEntriesError)


def test_what_is_no_listing_at_all_is_refused(main, tmp_path):
    assert isinstance(failure(main.import_data().listing(tmp_path / "none.csv")), ObjectNotFoundException)
    with pytest.raises(BadRequestException):
        main.import_data().listing([("s3://b/a", 1, "x")])


def test_a_listing_of_fifty_thousand_rows_is_committed_in_ranges(main):
    numbers = range(50_000)
    rows = pa.table(
        {
            "address": [f"s3://b/p/{n % 100:03d}/{n:06d}" for n in numbers],
            "size": numbers,
            "checksum": [f"{n:032x}" for n in numbers],
        }
    )
    status = main.import_data().listing(rows, base="s3://b/p").run()
    assert status.ingested_objects == 50_000
    table = main.objects_table()
    assert table.num_rows == 50_000
    assert table["path"][0].as_py() == "000/000000"
    assert table["checksum"][1].as_py() == f"{100:032x}"
