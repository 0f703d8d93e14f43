"""Which engine ``auto`` takes: Spark, where there is a session, for work that may reach many entries."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakespark
from lakespark.errors import ImportManagerException
from lakespark.operations import opened
from lakespark.operations.imports import listings
from lakespark.tree.metarange import RangeRef

ENTRIES = 200


class TookSparkError(Exception):
    """The work was given to Spark."""


@pytest.fixture
def main(tmp_path, monkeypatch):
    """A branch with 200 entries in ranges of about five, in a lake with a session, where 60 entries are large work."""
    lakespark.Lake(tmp_path / "lake").repository("analytics").create(range_entries=5)
    repo = lakespark.Lake(tmp_path / "lake").repository("analytics")
    repo.branch("main").stage(listing(range(ENTRIES)))
    repo.branch("main").commit("base")

    def take_spark(_repository):
        raise TookSparkError

    monkeypatch.setattr(opened, "SPARK_ENTRIES", 60)
    monkeypatch.setattr(opened.OpenRepository, "_spark_engine", take_spark)
    return lakespark.Lake(tmp_path / "lake", spark=object()).repository("analytics").branch("main")


def listing(numbers, version="0"):
    """Objects, as ``stage`` and ``listing`` take them."""
    return pa.table(
        {
            "path": [f"data/{number:04d}" for number in numbers],
            "physical_address": [f"s3://raw/{version}/{number:04d}" for number in numbers],
            "size_bytes": [1] * len(numbers),
            "checksum": [f"{version}:{number}" for number in numbers],
        }
    )


def ranges(*counts):
    return tuple(RangeRef(f"{n}a", f"{n}z", "", "", "", count, 0) for n, count in enumerate(counts))


@pytest.mark.parametrize(
    ("held", "rows", "is_large"),
    [
        (ranges(30, 30), None, False),
        (ranges(30, 31), None, True),
        (ranges(20, 9, 20, 20), 1, False),
        (ranges(20, 9, 20, 20), 2, True),
        ((), 60, False),
        ((), 61, True),
    ],
)
def test_rows_that_are_laid_over_ranges_touch_two_of_them_each(monkeypatch, held, rows, is_large):
    monkeypatch.setattr(opened, "SPARK_ENTRIES", 60)
    assert opened.is_large(held, rows) is is_large


def test_a_small_commit_on_a_large_branch_stays_in_process(main):
    main.stage(listing([7], "1"))
    assert main.commit("one")


def test_what_comes_behind_a_large_branch_stays_in_process(main):
    main.stage(listing(range(ENTRIES, ENTRIES + 40)))
    assert main.commit("more")


def test_a_commit_of_changes_everywhere_is_given_to_spark(main):
    main.stage(listing(range(0, ENTRIES, 4), "1"))
    with pytest.raises(TookSparkError):
        main.commit("everywhere")


def test_a_replaced_prefix_counts_all_that_is_there(main):
    main.write(pa.table({"n": [1]}), "data/", mode="overwrite")
    with pytest.raises(TookSparkError):
        main.commit("everything gone")


def objects(count):
    """A listing of new objects."""
    return listing(range(1000, 1000 + count)).rename_columns(["path", "address", "size", "checksum"])


def test_a_short_listing_is_imported_in_process(main):
    assert main.import_data("one").listing(objects(1), "raw").run().ingested_objects == 1


def test_a_long_listing_is_given_to_spark(main):
    with pytest.raises(ImportManagerException) as failed:
        main.import_data("many").listing(objects(61), "raw").run()
    assert isinstance(failed.value.__cause__, TookSparkError)


def test_the_files_of_a_listing_are_judged_by_their_size(main, monkeypatch, tmp_path):
    """61 rows to begin with, by their size; then one."""
    place = tmp_path / "listing.parquet"
    pq.write_table(objects(1), place)
    monkeypatch.setattr(listings, "ROW_BYTES", place.stat().st_size // 61)
    with pytest.raises(ImportManagerException) as failed:
        main.import_data("many").listing(place, "raw").run()
    assert isinstance(failed.value.__cause__, TookSparkError)
    monkeypatch.setattr(listings, "ROW_BYTES", place.stat().st_size)
    assert main.import_data("one").listing(place, "raw").run().ingested_objects == 1


def test_without_a_session_all_work_is_done_in_process(main, tmp_path):
    branch = lakespark.Lake(tmp_path / "lake").repository("analytics").branch("main")
    branch.stage(listing(range(0, ENTRIES, 4), "1"))
    assert branch.commit("everywhere")
