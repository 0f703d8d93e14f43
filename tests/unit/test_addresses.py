"""Keys that hold a percent sign, as Spark names the folders of partition values, stay what they are."""

from pathlib import Path

import pyarrow as pa
import pytest

from lakespark import Branch, Lake

KEY = "data/by hand/town=N%2FA/part 1"


@pytest.fixture
def main(tmp_path: Path) -> Branch:
    repo = Lake(tmp_path / "lake").repository("demo").create()
    repo.opened.store.put(KEY, b"hello")
    return repo.branch("main")


def stage(branch: Branch, address: str) -> None:
    columns = {"path": ["a"], "physical_address": [address], "size_bytes": [5], "checksum": ["1"]}
    branch.stage(pa.table(columns))


def test_the_full_address_of_a_key_leads_back_to_it(main: Branch):
    stage(main, KEY)
    info = main.object("a").stat()
    assert info.physical_address.endswith("/demo/data/by hand/town=N%252FA/part 1")
    assert main.object("a").reader(info=info).read() == b"hello"


@pytest.mark.parametrize("way", ["as stat says it", "percent-encoded"])
def test_an_address_inside_the_namespace_is_kept_as_its_key(main: Branch, tmp_path: Path, way: str):
    stage(main, KEY)
    said = main.object("a").stat().physical_address
    stage(main, said if way == "as stat says it" else (tmp_path / "lake/demo" / KEY).as_uri())
    assert main.objects_table()["physical_address"].to_pylist() == [KEY]
    assert main.object("a").reader().read() == b"hello"


def test_a_namespace_with_a_percent_sign_is_one_too(tmp_path: Path):
    repo = Lake(tmp_path / "100% lake").repository("demo").create()
    repo.opened.store.put(KEY, b"hello")
    stage(repo.branch("main"), repo.opened.full_address(KEY))
    assert repo.branch("main").objects_table()["physical_address"].to_pylist() == [KEY]
