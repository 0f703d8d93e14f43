"""``lakefs://repository/ref/path`` for pandas, polars, pyarrow and DuckDB, by fsspec."""

import pickle
import tomllib
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lakespark import Lake, Repository
from lakespark.errors import BadRequestException, InvalidNameError, ObjectExistsException, RefNotFoundError
from lakespark.filesystem import LakeFileSystem

PROJECT = Path(__file__).parents[2]
FLIGHTS = pd.DataFrame({"flight": [1, 2, 3], "carrier": ["UA", "AA", "UA"], "delay": [5.0, -2.0, 11.0]})
MIB = 1 << 20


@pytest.fixture(autouse=True)
def registered() -> None:
    """The file system under its protocol, as the entry point of an installed package has it."""
    fsspec.register_implementation("lakefs", "lakespark.filesystem.LakeFileSystem", clobber=True)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake", user="ann")


@pytest.fixture
def repo(lake: Lake) -> Repository:
    return lake.repository("demo").create()


@pytest.fixture
def storage(lake: Lake) -> dict[str, str]:
    return {"lake": lake.location, "user": "ben"}


@pytest.fixture
def fs(storage: dict[str, str]) -> LakeFileSystem:
    return fsspec.filesystem("lakefs", **storage)


def put(repo: Repository, *paths: str) -> None:
    for path in paths:
        repo.branch("main").object(path).upload(path)


# -- libraries -----------------------------------------------------------------------------------------------


def test_pandas_reads_parquet_at_any_ref(repo: Repository, storage: dict[str, str]):
    FLIGHTS.to_parquet("lakefs://demo/main/flights.parquet", storage_options=storage)
    repo.branch("main").commit("flights")
    repo.tag("v1").create("main")
    FLIGHTS.head(1).to_parquet("lakefs://demo/main/flights.parquet", storage_options=storage)
    for ref, expected in {"v1": FLIGHTS, "main@": FLIGHTS, "main": FLIGHTS.head(1)}.items():
        found = pd.read_parquet(f"lakefs://demo/{ref}/flights.parquet", storage_options=storage)
        pd.testing.assert_frame_equal(found, expected)


def test_pandas_reads_and_writes_csv(repo: Repository, storage: dict[str, str]):
    FLIGHTS.to_csv("lakefs://demo/main/flights.csv.gz", index=False, storage_options=storage)
    found = pd.read_csv("lakefs://demo/main/flights.csv.gz", storage_options=storage)
    pd.testing.assert_frame_equal(found, FLIGHTS)
    assert repo.branch("main").object("flights.csv.gz").reader().read(2) == b"\x1f\x8b"


def test_pandas_reads_and_writes_partitions(repo: Repository, storage: dict[str, str]):
    FLIGHTS.to_parquet("lakefs://demo/main/flights", partition_cols=["carrier"], storage_options=storage)
    assert [item.path for item in repo.branch("main").objects(prefix="flights/", delimiter="/")] == [
        "flights/carrier=AA/",
        "flights/carrier=UA/",
    ]
    found = pd.read_parquet("lakefs://demo/main/flights", filters=[("carrier", "==", "UA")], storage_options=storage)
    assert found["flight"].tolist() == [1, 3]


def test_a_dataset_of_pyarrow_is_that_of_its_ref(repo: Repository, fs: LakeFileSystem):
    partitioning = ds.partitioning(pa.schema([("carrier", pa.string())]), flavor="hive")
    written = {"filesystem": fs, "format": "parquet", "partitioning": partitioning}
    ds.write_dataset(pa.Table.from_pandas(FLIGHTS), "demo/main/flights", **written)
    repo.branch("main").commit("flights")
    ds.write_dataset(
        pa.Table.from_pandas(FLIGHTS.head(1)),
        "demo/main/flights",
        existing_data_behavior="delete_matching",
        **written,
    )

    def flights(ref: str) -> list[tuple[int, str]]:
        found = ds.dataset(f"demo/{ref}/flights", filesystem=fs, partitioning="hive").to_table()
        return sorted(zip(found["flight"].to_pylist(), found["carrier"].to_pylist(), strict=True))

    assert flights("main@") == [(1, "UA"), (2, "AA"), (3, "UA")]
    assert flights("main") == [(1, "UA"), (2, "AA")]


def test_duckdb_reads_a_pattern_of_files_and_two_refs_in_one_query(
    repo: Repository, storage: dict[str, str], fs: LakeFileSystem
):
    FLIGHTS.to_parquet("lakefs://demo/main/flights", partition_cols=["carrier"], storage_options=storage)
    repo.branch("main").commit("flights")
    fs.rm("demo/main/flights/carrier=AA", recursive=True)
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        files = (
            "select flight, carrier from read_parquet('lakefs://demo/{}/flights/*/*.parquet', hive_partitioning = true)"
        )
        before, now = files.format("main@"), files.format("main")
        assert connection.sql(f"{before} except {now}").fetchall() == [(2, "AA")]


def test_duckdb_writes_a_file(repo: Repository, fs: LakeFileSystem):
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        connection.execute("copy (select 42 as answer) to 'lakefs://demo/main/answer.parquet'")
        assert connection.sql("from 'lakefs://demo/main/answer.parquet'").fetchall() == [(42,)]
    assert [item.path for item in repo.branch("main").objects()] == ["answer.parquet"]


def test_duckdb_writes_partitions(repo: Repository, fs: LakeFileSystem):
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        numbers = "select range as n, range % 2 as p from range(6)"
        connection.execute(f"copy ({numbers}) to 'lakefs://demo/main/numbers' (format parquet, partition_by (p))")
        assert fs.ls("demo/main/numbers", detail=False) == ["demo/main/numbers/p=0", "demo/main/numbers/p=1"]
        files = "read_parquet('lakefs://demo/main/numbers/*/*.parquet', hive_partitioning = true)"
        assert connection.sql(f"select n from {files} where p = 1 order by n").fetchall() == [(1,), (3,), (5,)]


def test_polars_reads_and_writes_files_and_data_sets(repo: Repository, storage: dict[str, str], fs: LakeFileSystem):
    with fs.open("lakefs://demo/main/flights/part.parquet", "wb") as file:
        pl.from_pandas(FLIGHTS).write_parquet(file)
    with fs.open("lakefs://demo/main/flights/part.parquet") as file:
        assert pl.read_parquet(file, columns=["flight"])["flight"].to_list() == [1, 2, 3]
    assert (
        pl.read_parquet("lakefs://demo/main/flights/part.parquet", use_pyarrow=True, storage_options=storage).height
        == 3
    )
    lazy = pl.scan_pyarrow_dataset(ds.dataset("demo/main/flights", filesystem=fs))
    assert lazy.filter(pl.col("delay") < 0).select("carrier").collect()["carrier"].to_list() == ["AA"]


# -- names ---------------------------------------------------------------------------------------------------


def test_every_level_is_listed(repo: Repository, lake: Lake, fs: LakeFileSystem):
    lake.repository("other").create()
    put(repo, "a", "a/b", "c/d/e", "c/f")
    repo.branch("main").commit("first")
    repo.tag("v1").create("main")
    with repo.branch("main").transact("hidden"):
        assert fs.ls("lakefs://demo", detail=False) == ["demo/main", "demo/v1"]
    assert fs.ls("", detail=False) == ["demo", "other"]
    assert fs.ls("other/main") == []
    assert fs.ls("lakefs://demo/main/", detail=False) == ["demo/main/a", "demo/main/a", "demo/main/c"]
    assert [info["type"] for info in fs.ls("demo/v1")] == ["file", "directory", "directory"]
    assert fs.ls("demo/main~0/c", detail=False) == ["demo/main~0/c/d", "demo/main~0/c/f"]
    assert fs.ls("demo/main/c/f", detail=False) == ["demo/main/c/f"]
    assert fs.find("demo/main/a") == ["demo/main/a", "demo/main/a/b"]
    assert fs.find("demo/main", maxdepth=1) == ["demo/main/a"]
    assert fs.find("demo/main/c", withdirs=True) == ["demo/main/c/d", "demo/main/c/d/e", "demo/main/c/f"]
    assert fs.glob("lakefs://demo/main/c/*") == ["demo/main/c/d", "demo/main/c/f"]
    assert fs.glob("demo/main/**/e") == ["demo/main/c/d/e"]
    assert fs.find("demo") == [f"demo/{ref}/{path}" for ref in ("main", "v1") for path in ("a", "a/b", "c/d/e", "c/f")]
    assert [(folder, files) for folder, _, files in fs.walk("demo/main/c")] == [
        ("demo/main/c", ["f"]),
        ("demo/main/c/d", ["e"]),
    ]


def test_info_says_what_stat_says(repo: Repository, fs: LakeFileSystem):
    repo.branch("main").object("a").upload("hello", content_type="text/plain", metadata={"k": "v"})
    repo.branch("main").object("folder/b").upload("b")
    stat, info = repo.branch("main").object("a").stat(), fs.info("lakefs://demo/main/a")
    assert (info.pop("name"), info.pop("size"), info.pop("type")) == ("demo/main/a", 5, "file")
    assert info == {name: getattr(stat, name) for name in info}
    assert int(fs.modified("demo/main/a").timestamp()) == stat.mtime
    for name in ("", "demo", "demo/main", "demo/main/folder"):
        assert fs.info(name) == {"name": name, "size": 0, "type": "directory"}
    assert (fs.isfile("demo/main/a"), fs.isdir("demo/main/folder"), fs.size("demo/main/a")) == (True, True, 5)


@pytest.mark.parametrize(
    "name", ["none", "Not A Name", "demo/none", "demo/v 1", "demo/main~9", "demo/main/none", f"demo/main/{'x' * 1025}"]
)
def test_what_is_not_there_is_not_found(repo: Repository, fs: LakeFileSystem, name: str):
    put(repo, "nonesuch")
    assert not fs.exists(name)
    for look in (fs.info, fs.ls):
        with pytest.raises(FileNotFoundError):
            look(name)
    if name.count("/") > 1:
        with pytest.raises(FileNotFoundError):
            fs.open(name)


def test_paths_that_file_systems_cannot_name_are_left_out_and_disturb_nothing(repo: Repository, fs: LakeFileSystem):
    put(repo, "/lead", "a//b", "a/", "a/c", "only/")
    assert fs.ls("demo/main", detail=False) == ["demo/main/a", "demo/main/only"]
    assert fs.ls("demo/main/a", detail=False) == ["demo/main/a/c"]
    assert fs.ls("demo/main/only") == []
    assert fs.find("demo/main") == ["demo/main//lead", "demo/main/a//b", "demo/main/a/c"]
    assert [folder for folder, _, _ in fs.walk("demo/main")] == ["demo/main", "demo/main/a", "demo/main/only"]
    assert fs.cat_file("demo/main/a//b") == b"a//b"


def test_nothing_is_cached(repo: Repository, fs: LakeFileSystem):
    put(repo, "a")
    assert fs.ls("demo/main", detail=False) == ["demo/main/a"]
    assert fs.info("demo/main/a")["size"] == 1
    opened = fs.open("demo/main/a")
    repo.branch("main").object("a").upload("longer")
    put(repo, "b")
    repo.branch("dev").create("main")
    assert fs.ls("demo/main", detail=False) == ["demo/main/a", "demo/main/b"]
    assert (fs.info("demo/main/a")["size"], fs.cat("demo/main/a")) == (6, b"longer")
    assert fs.ls("demo", detail=False) == ["demo/dev", "demo/main"]
    assert opened.read() == b"a"


# -- reading and writing -------------------------------------------------------------------------------------


def test_reads_are_seekable_ranges(repo: Repository, fs: LakeFileSystem):
    body = bytes(range(251)) * (3 * MIB // 251)
    repo.branch("main").object("big").upload(body)
    with fs.open("demo/main/big") as file:
        assert file.seek(-10, 2) == len(body) - 10
        assert file.read() == body[-10:]
        file.seek(MIB - 3)
        assert file.read(2 * MIB) == body[MIB - 3 : 3 * MIB - 3]
    assert fs.cat_file("demo/main/big", start=5, end=9) == body[5:9]
    assert fs.tail("demo/main/big", 4) == body[-4:]
    assert fs.cat_ranges(["demo/main/big"] * 2, [0, MIB], [3, MIB + 3]) == [body[:3], body[MIB : MIB + 3]]


def test_files_are_written_as_objects_by_the_user(repo: Repository, fs: LakeFileSystem, tmp_path: Path):
    main = repo.branch("main")
    with fs.open("lakefs://demo/main/text.txt", "w", newline="\n", content_type="text/plain") as file:
        file.write("grüße\n")
    assert main.object("text.txt").reader("r").read() == "grüße\n"
    assert main.object("text.txt").stat().content_type == "text/plain"
    fs.pipe_file("demo/main/piped", b"piped")
    (tmp_path / "local").write_text("local")
    fs.put(str(tmp_path / "local"), "demo/main/folder/")
    fs.get("demo/main/folder/local", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "local"
    assert {(change.path, change.written_by) for change in main.uncommitted()} == {
        ("text.txt", "ben"),
        ("piped", "ben"),
        ("folder/local", "ben"),
    }


def test_an_exclusive_write_refuses_to_replace(repo: Repository, fs: LakeFileSystem):
    put(repo, "a")
    with pytest.raises(ObjectExistsException), fs.open("demo/main/a", "xb") as file:
        file.write(b"other")
    with fs.open("demo/main/b", "xb") as file:
        file.write(b"new")
    assert (fs.cat("demo/main/a"), fs.cat("demo/main/b")) == (b"a", b"new")


@pytest.mark.usefixtures("repo")
@pytest.mark.parametrize("opened_by", ["file system", "fsspec"])
@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("mode", ["w", "wb", "x"])
def test_a_write_that_fails_leaves_nothing(
    fs: LakeFileSystem, storage: dict[str, str], mode: str, compression: str | None, opened_by: str
):
    """By the context managers of this file system, and by fsspec's own, which does not tell a file that it failed."""

    def write(*, fails: bool) -> None:
        how = {"mode": mode, "compression": compression}
        file = fs.open("demo/main/a", **how) if opened_by == "file system" else None
        with file or fsspec.open("lakefs://demo/main/a", **how, **storage) as out:
            out.write(b"half" if mode == "wb" else "half")
            if fails:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        write(fails=True)
    assert not fs.exists("demo/main/a")
    write(fails=False)
    assert fs.open("demo/main/a", compression=compression).read() == b"half"


def test_pandas_that_fails_half_way_leaves_nothing(repo: Repository, fs: LakeFileSystem, storage: dict[str, str]):
    broken = pd.DataFrame({"word": ["fine"] * 10 + ["\ud800"]})
    with pytest.raises(UnicodeEncodeError):
        broken.to_csv("lakefs://demo/main/words.csv", storage_options=storage)
    assert fs.ls("demo/main") == []


def test_an_error_that_is_being_handled_does_not_discard_a_file(repo: Repository, fs: LakeFileSystem):
    """Neither one that is closed by hand at the end of what it was made of, nor one about the error itself."""
    chunks, out = iter([b"a", b"b"]), fs.open("demo/main/chunks", "wb")
    while True:
        try:
            out.write(next(chunks))
        except StopIteration:
            out.close()
            break

    class Reporting:
        def __enter__(self) -> None: ...

        def __exit__(self, kind: object, value: object, trace: object) -> bool:
            with fs.open("demo/main/report", "w") as report:
                report.write(repr(value))
            return True

    with Reporting():
        raise RuntimeError
    assert (fs.cat("demo/main/chunks"), fs.cat("demo/main/report")) == (b"ab", b"RuntimeError()")


def test_what_an_object_store_cannot_do_is_refused(repo: Repository, fs: LakeFileSystem):
    put(repo, "a")
    repo.branch("main").commit("first")
    repo.tag("v1").create("main")
    with pytest.raises(BadRequestException, match="written whole"):
        fs.open("demo/main/a", "ab")
    with pytest.raises(BadRequestException, match=r"branch\.transact"), fs.transaction:
        fs.open("demo/main/a", "wb")
    with pytest.raises(RefNotFoundError, match="a tag, not a branch"):
        fs.open("demo/v1/a", "wb")
    with pytest.raises(InvalidNameError):
        fs.open("demo/main~1/a", "wb")
    with pytest.raises(BadRequestException, match="names no object"):
        fs.open("demo/main", "wb")


def test_a_transaction_of_the_branch_is_written_to_by_its_id(repo: Repository, storage: dict[str, str]):
    with repo.branch("main").transact("flights") as tx:
        FLIGHTS.to_parquet(f"lakefs://demo/{tx.id}/flights.parquet", storage_options=storage)
        assert not repo.branch("main").object("flights.parquet").exists()
    assert repo.ref("main@").object("flights.parquet").exists()


def test_folders_need_not_be_made(repo: Repository, fs: LakeFileSystem):
    fs.mkdir("demo/main/folder")
    fs.makedirs("demo/main/folder/inner", exist_ok=True)
    fs.rmdir("demo/main/folder")
    assert not fs.exists("demo/main/folder")
    assert fs.ls("demo/main/folder/inner") == []
    assert list(repo.branch("main").uncommitted()) == []


def test_a_copy_within_a_repository_is_a_link(repo: Repository, fs: LakeFileSystem):
    put(repo, "folder/a", "folder/b/c")
    fs.cp("demo/main/folder", "demo/main/copy", recursive=True)
    fs.mv("demo/main/folder/a", "demo/main/moved")
    assert fs.find("demo/main") == [f"demo/main/{path}" for path in ("copy/a", "copy/b/c", "folder/b/c", "moved")]
    addresses = {fs.info(f"demo/main/{path}")["physical_address"] for path in ("copy/a", "moved")}
    assert len(addresses) == 1


def test_a_copy_into_another_repository_takes_the_contents_along(repo: Repository, lake: Lake, fs: LakeFileSystem):
    lake.repository("other").create()
    repo.branch("main").object("a").upload("hello", content_type="text/plain", metadata={"k": "v"})
    fs.cp("demo/main/a", "other/main/b")
    copied = lake.repository("other").branch("main").object("b")
    assert (copied.reader("r").read(), copied.stat().content_type, copied.stat().metadata) == (
        "hello", "text/plain", {"k": "v"},
    )  # fmt: skip
    assert copied.stat().physical_address != repo.branch("main").object("a").stat().physical_address


@pytest.mark.parametrize(
    ("given", "how", "left"),
    [
        ("demo/main/a", {}, ["a/b", "c/d", "c/e", "x[1]"]),
        ("demo/main/c", {"recursive": True}, ["a", "a/b", "x[1]"]),
        ("demo/main/a", {"recursive": True}, ["c/d", "c/e", "x[1]"]),
        (["demo/main/a", "lakefs://demo/main/c/d"], {}, ["a/b", "c/e", "x[1]"]),
        ("demo/main/c/*", {}, ["a", "a/b", "x[1]"]),
        ("demo/main/x[1]", {}, ["a", "a/b", "c/d", "c/e"]),
        ("demo/main", {"recursive": True}, []),
    ],
)
def test_rm_removes_objects(repo: Repository, fs: LakeFileSystem, given: Any, how: dict[str, Any], left: list[str]):
    put(repo, "a", "a/b", "c/d", "c/e", "x[1]")
    fs.rm(given, **how)
    assert [item.path for item in repo.branch("main").objects()] == left


def test_rm_refuses_what_is_no_object(repo: Repository, fs: LakeFileSystem):
    put(repo, "c/d")
    with pytest.raises(IsADirectoryError):
        fs.rm("demo/main/c")
    for name in ("demo/main/none", "demo/main/none*"):
        with pytest.raises(FileNotFoundError):
            fs.rm(name, recursive=True)
    with pytest.raises(BadRequestException, match="from a branch"):
        fs.rm("demo", recursive=True)
    repo.branch("main").commit("first")
    repo.tag("v1").create("main")
    with pytest.raises(RefNotFoundError, match="a tag"):
        fs.rm_file("demo/v1/c/d")
    assert fs.exists("demo/main/c/d")


# -- how it is made ------------------------------------------------------------------------------------------


def test_the_lake_is_named_or_given(repo: Repository, lake: Lake):
    put(repo, "a")
    assert LakeFileSystem(lake=lake).cat("demo/main/a") == b"a"
    with fsspec.open("lakefs://demo/main/a", lake=lake.location) as file:
        assert file.read() == b"a"
    with pytest.raises(BadRequestException, match="which lake"):
        fsspec.filesystem("lakefs")
    with pytest.raises(BadRequestException, match="those of the Lake"):
        LakeFileSystem(lake=lake, user="ben")


def test_it_can_be_sent_to_another_process(repo: Repository, fs: LakeFileSystem):
    put(repo, "a")
    fs.ls("demo/main")
    assert pickle.loads(pickle.dumps(fs)).cat("demo/main/a") == b"a"


def test_an_installed_package_registers_the_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What the wheel says of itself is what fsspec goes by."""
    points = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["entry-points"]["fsspec.specs"]
    installed = tmp_path / "lakespark-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: lakespark\nVersion: 0\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[fsspec.specs]", *lines, ""]))
    monkeypatch.syspath_prepend(str(tmp_path))
    fsspec.register_implementation("lakefs", "none.None", clobber=True)
    fsspec.process_entries()
    assert fsspec.get_filesystem_class("lakefs") is LakeFileSystem
