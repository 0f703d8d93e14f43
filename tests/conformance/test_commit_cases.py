"""Commits give the same trees on both engines, however the staged rows lie in memory."""

import pyarrow as pa
import pytest


def test_each_commit_on_a_branch_has_its_changes(lake):
    main = lake.repository("demo").create().branch("main")
    for number in range(3):
        main.object(f"a/{9 - number}").upload(str(number))
        main.object("same").upload(str(number))
        main.commit(f"commit {number}")
    assert {info.path: main.object(info.path).reader("r").read() for info in main.objects()} == {
        "a/7": "2",
        "a/8": "1",
        "a/9": "0",
        "same": "2",
    }
    assert [change.type for change in main.repository.ref("main~1").diff("main")] == ["added", "changed"]


@pytest.mark.parametrize("sizes", [[0, 0, 3], [2, 0, 0, 3], [0, 0, 0], [1, 0, 0, 1, 0, 0, 0, 1]], ids=str)
def test_a_table_with_empty_parts_keeps_its_rows(lake, engine, sizes):
    run = lake.repository("demo").create().opened.engine(engine)
    parts = [
        pa.table({"path": pa.array([f"{part}-{row}" for row in range(size)], pa.string())})
        for part, size in enumerate(sizes)
    ]
    table = pa.concat_tables(parts)
    assert sorted(run.collect(run.frame(table))["path"].to_pylist()) == sorted(table["path"].to_pylist())
