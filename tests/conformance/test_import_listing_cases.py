"""Listings of Parquet and CSV give the same trees on both engines, and are refused for the same reasons."""

import datetime as dt
import gzip
import hashlib

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from lakespark.errors import ImportManagerException, InvalidEntriesError, ObjectNotFoundException
from lakespark.testing.trees import Entry

MD5 = hashlib.md5(b"1").hexdigest()
ODD_ADDRESSES = [
    "s3a://bucket/in/hadoop",
    "s3://bucket/in/ü%41/b c+d",
    'gs://other/"quoted", with a comma',
    "/data/in/a%20b",
    "file:///data/in/a%20b%2541+c",
    "local:///data/in/x",
]


@pytest.fixture
def branch(lake):
    return lake.repository("demo").create(range_entries=20).branch("main")


def table(numbers, version=0):
    """A listing of some numbers in a few folders, in no order."""
    return pa.table(
        {
            "address": [f"s3://bucket/in/{number % 7}/{number:03d}" for number in numbers],
            "size": [number + version for number in numbers],
            "checksum": [f"etag:{number}-{version}" for number in numbers],
        }
    )


def written(folder, kind, *tables):
    """Tables as the files of a listing: a folder if there are several."""
    place = folder / f"listing.{kind}" if len(tables) == 1 else folder / f"of {len(tables)} [{kind}]"
    for number, rows in enumerate(tables):
        file = place if len(tables) == 1 else place / f"part-{number}.{kind}"
        file.parent.mkdir(exist_ok=True)
        if kind == "parquet":
            pq.write_table(rows, file)
        else:
            pa_csv.write_csv(rows, file.with_suffix("") if kind == "csv.gz" else file)
        if kind == "csv.gz":
            file.write_bytes(gzip.compress(file.with_suffix("").read_bytes()))
            file.with_suffix("").unlink()
    return place


def entry(address, size_bytes, checksum):
    """An entry of the reference model as an import makes it."""
    return Entry(address, size_bytes, checksum, "application/octet-stream", ())


def entries(branch):
    """What is on a branch, as the reference model has it."""
    return {info.path: entry(info.physical_address, info.size_bytes, info.checksum) for info in branch.objects()}


def identities(branch):
    """The identity of each entry of a branch."""
    table = branch.repository.inspect().entries(branch.get_commit().id)
    return dict(zip(table["path"].to_pylist(), table["identity"].to_pylist(), strict=True))


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz"])
@pytest.mark.parametrize("parts", [1, 3])
def test_files_and_folders_of_listings_are_read(branch, tmp_path, kind, parts):
    tables = [table(range(start, 60, parts)) for start in range(parts)]
    status = branch.import_data().listing(written(tmp_path, kind, *tables), "x", base="s3://bucket/in").run()
    assert (status.ingested_objects, status.skipped_objects, status.step) == (60, 0, "done")
    wanted = {f"x/{n % 7}/{n:03d}": entry(f"s3://bucket/in/{n % 7}/{n:03d}", n, f"etag:{n}-0") for n in range(60)}
    assert entries(branch) == wanted
    assert identities(branch) == {path: found.identity for path, found in wanted.items()}
    in_memory = branch.repository.branch("in-memory").create("main~1")
    again = in_memory.import_data(engine="duckdb").listing(table(range(60)), "x", base="s3://bucket/in").run()
    assert again.metarange_id == status.metarange_id


def test_what_hidden_files_and_folders_of_a_listing_hold_is_passed_over(branch, tmp_path):
    place = written(tmp_path, "parquet", table(range(3)), table(range(3, 5)))
    (place / "_SUCCESS").touch()
    (place / "_tried.csv").write_text("no listing")
    (place / "notes.txt").write_text("no listing")
    assert branch.import_data().listing(place).run().ingested_objects == 5


def test_addresses_have_one_form_whichever_way_they_are_written(branch, tmp_path):
    rows = pa.table({"address": ODD_ADDRESSES, "size": range(6), "checksum": ["etag:x"] * 6})
    branch.import_data().listing(written(tmp_path, "parquet", rows)).run()
    found = {path: found.physical_address for path, found in entries(branch).items()}
    csv = branch.repository.branch("csv").create("main~1")
    csv.import_data().listing(written(tmp_path, "csv", rows)).run()
    assert found == {path: found.physical_address for path, found in entries(csv).items()}
    assert found == {
        "in/hadoop": "s3://bucket/in/hadoop",
        "in/ü%41/b c+d": "s3://bucket/in/ü%41/b c+d",
        '"quoted", with a comma': 'gs://other/"quoted", with a comma',
        "data/in/a%20b": "file:///data/in/a%2520b",
        "data/in/a b%41+c": "file:///data/in/a b%2541+c",
        "data/in/x": "file:///data/in/x",
    }


def test_paths_of_local_files_below_a_base_are_those_of_the_files(branch, tmp_path):
    addresses = [str(tmp_path / "a%20b" / "1"), (tmp_path / "a%20b" / "ü 2").as_uri()]
    rows = pa.table({"address": addresses, "size": [1, 2], "checksum": ["etag:x"] * 2})
    branch.import_data().listing(written(tmp_path, "csv", rows), "to", base=str(tmp_path / "a%20b")).run()
    assert sorted(entries(branch)) == ["to/1", "to/ü 2"]


def test_an_inventory_of_s3_is_understood(branch, tmp_path):
    """Bucket and key, quoted ETags, times, and rows of old versions and deletions that do not count."""
    when = dt.datetime(2025, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    rows = pa.table(
        {
            "bucket": ["raw"] * 4,
            "key": ["data/a", "data/b", "data/old", "data/gone"],
            "size": pa.array([1, 2, 3, 0], pa.int32()),
            "e_tag": [f'"{MD5.upper()}"', f"{MD5}-7", "x", "y"],
            "last_modified_date": pa.array([when] * 4, pa.timestamp("ms", "UTC")),
            "is_latest": [True, True, False, True],
            "is_delete_marker": [False, False, False, True],
            "storage_class": ["STANDARD"] * 4,
        }
    )
    branch.import_data().listing(written(tmp_path, "parquet", rows), "in").run()
    assert entries(branch) == {
        "in/data/a": entry("s3://raw/data/a", 1, MD5),
        "in/data/b": entry("s3://raw/data/b", 2, f"etag:{MD5}-7"),
    }
    assert {info.mtime for info in branch.objects()} == {int(when.timestamp())}


TIMES = {
    "2025-01-02T03:04:05Z": 1735787045,
    "2025-01-02T03:04:05.678Z": 1735787045,
    "2025-01-02 03:04:05": 1735787045,
    "2025-01-02T05:04:05+02:00": 1735787045,
    "1735787045": 1735787045,
}


def test_times_are_iso_8601_or_unix_seconds_and_utc_where_they_name_no_zone(branch, tmp_path):
    count = len(TIMES)
    addresses = [f"s3://b/{number}" for number in range(count)]
    rows = {"address": addresses, "size": range(count), "checksum": ["etag:x"] * count, "mtime": list(TIMES)}
    branch.import_data().listing(written(tmp_path, "csv", pa.table(rows))).run()
    assert [info.mtime for info in branch.objects()] == list(TIMES.values())
    naive = pa.array([1735787045_999_999] * count, pa.timestamp("us"))
    branch.import_data().listing(written(tmp_path, "parquet", pa.table({**rows, "mtime": naive})), "naive").run()
    assert {info.mtime for info in branch.objects(prefix="naive/")} == {1735787045}


def test_rows_that_are_no_paths_are_left_out_with_the_reason(branch, tmp_path):
    odd = ["gs://b/dir/", "gs://b/a//b", "gs://b//lead", "gs://b/../x", "gs://b/a\tb", "gs://b/a\x7f"]
    bad = ["s3://b/" + "x" * 1100, "s3://b/nul\0", *odd]
    rows = pa.table({"address": ["s3://b/good", *bad], "size": [1] * 9, "checksum": ["etag:1"] * 9})
    status = branch.import_data().listing(written(tmp_path, "parquet", rows)).run()
    assert list(entries(branch)) == ["good"]
    reasons = {row["address"]: row["reason"] for row in status.skipped.to_pylist()}
    assert list(reasons) == sorted(bad)
    assert (status.ingested_objects, status.skipped_objects) == (1, len(bad))
    assert "longer than 1,024 bytes" in reasons[bad[0]]
    assert "NUL" in reasons[bad[1]]
    assert all("boto3" in reasons[address] for address in odd)


def test_what_is_not_utf_8_is_left_out_with_its_bytes(branch, tmp_path):
    (tmp_path / "l.csv").write_bytes(b"address,size,checksum\ns3://b/\xff,1,etag:1\ns3://b/al\xc3\xbc,2,etag:2\n")
    status = branch.import_data().listing(tmp_path / "l.csv").run()
    assert list(entries(branch)) == ["alü"]
    wanted = [{"address": r"s3://b/\xff", "reason": "its address or path is not UTF-8"}]
    assert status.skipped.to_pylist() == wanted
    raw = pa.array([b"s3://b/\xff", b"s3://b/bytes"], pa.binary())
    rows = pa.table({"address": raw, "size": [1, 2], "checksum": ["etag:1"] * 2})
    assert branch.import_data().listing(written(tmp_path, "parquet", rows)).run().skipped.to_pylist() == wanted
    assert list(entries(branch)) == ["alü", "bytes"]


def rows_of(*rows):
    """A listing from rows of address, size and checksum."""
    return pa.table(dict(zip(("address", "size", "checksum"), zip(*rows, strict=True), strict=True)))


A, B = ("s3://b/a", 1, "etag:1"), ("s3://b/b", 2, "etag:2")
BAD = {
    "a missing column": (pa.table({"address": ["s3://b/a"], "size": [1]}), "checksum: one of checksum, e_tag, etag"),
    "no address": (pa.table({"size": [1], "checksum": ["x"], "key": ["a"]}), "lacks columns"),
    "duplicate paths": (rows_of(A, B, A, B, B), "stands more than once (5 in all): 'a', 'b'"),
    "a negative size": (rows_of(A, ("s3://b/c", -1, "etag:1")), "a negative one (1 in all): 'c'"),
    "no size": (rows_of(A, ("s3://b/c", None, "etag:1")), "have no size_bytes"),
    "an empty checksum": (rows_of(A, ("s3://b/c", 1, "")), "have no checksum (1 in all): 'c'"),
    "a null checksum": (rows_of(A, ("s3://b/c", 1, None)), "have no checksum"),
    "a null address": (rows_of(A, (None, 1, "etag:1")), "have no address"),
    "a relative address": (rows_of(A, ("data/x", 1, "etag:1")), "no full URL of a store (1 in all): 'data/x'"),
    "an unknown store": (rows_of(A, ("ftp://b/x", 1, "etag:1")), "no full URL"),
    "no key": (rows_of(A, ("s3://bucket", 1, "etag:1")), "no full URL"),
    "a way around": (rows_of(A, ("file:///a/../b", 1, "etag:1")), "goes through . or .."),
    "a broken escape": (rows_of(A, ("file:///a%2", 1, "etag:1")), "% escapes nothing"),
    "numbers for addresses": (pa.table({"address": [1], "size": [1], "checksum": ["x"]}), "not text"),
    "a time that is none": (
        pa.table({"address": ["s3://b/a"], "size": [1], "checksum": ["x"], "mtime": ["soon"]}),
        "time of modification",
    ),
    "many mistakes": (
        rows_of(*((f"s3://b/{n}", -1, "etag:1") for n in range(9)), ("x", 1, "etag:1")),
        "a negative one (9 in all): '0', '1', '2', '3', '4'; nothing was changed",
    ),
}


def refused(manager):
    """What an import fails with."""
    with pytest.raises(ImportManagerException) as caught:
        manager.run()
    return caught.value.__cause__


@pytest.mark.parametrize("name", BAD)
def test_a_listing_with_what_cannot_be_is_refused_and_nothing_is_changed(branch, tmp_path, name):
    rows, words = BAD[name]
    before = len(list(branch.repository.operations()))
    problem = refused(branch.import_data().listing(written(tmp_path, "parquet", rows)))
    assert isinstance(problem, InvalidEntriesError)
    assert words in str(problem)
    assert len(list(branch.repository.operations())) == before
    assert list(branch.objects()) == []


def test_addresses_in_the_repositorys_own_namespace_are_refused(branch, tmp_path):
    branch.object("a").upload("a")
    branch.commit("a")
    own = branch.object("a").stat().physical_address
    problem = refused(branch.import_data().listing(written(tmp_path, "parquet", rows_of(A, (own, 1, "etag:1"))), "x"))
    assert isinstance(problem, InvalidEntriesError)
    assert "linked by stage()" in str(problem)
    assert own[:60] in str(problem)
    assert list(entries(branch)) == ["a"]


def test_addresses_outside_of_the_base_are_refused(branch, tmp_path):
    rows = rows_of(A, B, ("s3://bb/b", 1, "etag:1"))
    problem = refused(branch.import_data().listing(written(tmp_path, "parquet", rows), base="s3://b"))
    assert "not below the base (1 in all): 's3://bb/b'" in str(problem)


NO_LISTINGS = {
    "cut off": ("l.parquet", b"PAR1 and no more"),
    "no columns": ("l.csv", b"address,size\n1,2\n"),
    "a row too long": ("l.csv", b"address,size,checksum\ns3://b/a,1,etag:1\ns3://b/b,1,etag:1,more\n"),
    "a row too short": ("l.csv", b"address,size,checksum\ns3://b/a,1,etag:1\ns3://b/b,1\n"),
    "text for a size": ("l.csv", b"address,size,checksum\ns3://b/a,many,etag:1\n"),
    "nothing": ("l.csv", b""),
}


@pytest.mark.parametrize("name", NO_LISTINGS)
def test_a_file_that_is_no_listing_is_refused(branch, tmp_path, name):
    file, body = NO_LISTINGS[name]
    (tmp_path / file).write_bytes(body)
    assert isinstance(refused(branch.import_data().listing(tmp_path / file)), InvalidEntriesError)
    assert len(list(branch.log())) == 1


def test_files_of_csv_with_other_columns_are_refused(branch, tmp_path):
    other = table(range(3, 5)).select(["size", "address", "checksum"])
    problem = refused(branch.import_data().listing(written(tmp_path, "csv", table(range(3)), other)))
    assert isinstance(problem, InvalidEntriesError)


def test_a_place_without_a_listing_is_refused(branch, tmp_path):
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "none.csv"):
        assert isinstance(refused(branch.import_data().listing(place)), ObjectNotFoundException)
