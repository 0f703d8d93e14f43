"""What docs/sql.md shows is what DuckDB and Spark answer, and its columns are those of the tables."""

import re
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from snippets import Block, blocks, run_python

from lakespark import inspection

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
SQL_NAMES = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.list_(pa.string()): "list of string",
}
TEXT_MAP = pa.map_(pa.string(), pa.string())


def run_sessions(names: dict[str, object]) -> None:
    """Run the Python sessions of the page, those that want a session only if there is one."""
    for block in blocks(PAGE):
        if block.language == "python" and ("spark" in names or "(spark)" not in block.body):
            run_python(block, PAGE.name, names)


def queries() -> list[tuple[Block, str]]:
    """The queries of the page with what they answer."""
    found = blocks(PAGE)
    pairs = [(one, next_one.body) for one, next_one in pairwise(found) if one.language == "sql"]
    assert len(pairs) == sum(block.language == "text" for block in found) == 7
    return pairs


def check(block: Block, expected: str, columns: list[str], rows: list[tuple[object, ...]]) -> None:
    cells = [columns, *[["-" if cell is None else str(cell) for cell in row] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    got = "\n".join(lines) + "\n"
    assert got == expected, f"{PAGE.name}:{block.line}"


def test_duckdb_answers_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    run_sessions(names)
    with duckdb.connect() as connection:
        for name, table in names.items():
            if isinstance(table, pa.Table):
                connection.register(name, table)
        for block, expected in queries():
            answer = connection.sql(block.body)
            check(block, expected, answer.columns, answer.fetchall())


@pytest.mark.spark
def test_spark_answers_what_the_page_shows(tmp_path, monkeypatch, spark):
    monkeypatch.chdir(tmp_path)
    run_sessions({"spark": spark})
    for block, expected in queries():
        answer = spark.sql(block.body)
        check(block, expected, answer.columns, [tuple(row) for row in answer.collect()])


def documented(name: str) -> list[tuple[str, str]]:
    """Columns and types of a table of the page."""
    section = re.search(rf"^### {name}\n(.*?)(?=^### |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section, name
    return re.findall(r"^\| (\w+) \| ([\w ]+) \|", section[1], re.MULTILINE)[1:]


def shown(schema: pa.Schema) -> list[tuple[str, str]]:
    return [
        (field.name, "map of string to string" if field.type == TEXT_MAP else SQL_NAMES[field.type]) for field in schema
    ]


def test_the_columns_of_the_page_are_those_of_the_tables():
    changes = documented("changes")
    for name in ("commits", "refs", "operations", "entries", "changes", "locations"):
        assert documented(name) == shown(getattr(inspection, f"{name.upper()}_SCHEMA"))
    assert changes + documented("uncommitted") == shown(inspection.UNCOMMITTED_SCHEMA)
    assert documented("history") + changes == shown(inspection.HISTORY_SCHEMA)
