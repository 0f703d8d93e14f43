"""The page on errors holds every class, with its kind, its place in the tree and its exit code."""

import inspect
import re
from pathlib import Path

import pytest

from lakespark import errors
from lakespark.cli.exit_codes import MEANINGS, exit_code

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
ROW = re.compile(
    r"^\| `(?P<name>\w+)` \| `(?P<kind>[a-z-]+)` \| (?P<when>.*) \| (?P<todo>.*) \| (?P<code>\d) \|$", re.MULTILINE
)
ROWS = {match["name"]: match for match in ROW.finditer(PAGE)}
TREE = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL).group(1)
CLASSES = [
    value for _, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, errors.LakesparkError)
]


@pytest.mark.parametrize("name", sorted({value.__name__ for value in CLASSES}))
def test_every_error_is_described_with_its_kind_and_exit_code(name):
    error = getattr(errors, name)
    row = ROWS[name]
    assert row["kind"] == error.kind
    assert row["when"].strip()
    assert int(row["code"]) == exit_code(error.__new__(error))


def test_no_error_is_described_that_is_not_there():
    assert set(ROWS) == {value.__name__ for value in CLASSES}


def test_kinds_are_unique():
    assert len({value.kind for value in set(CLASSES)}) == len(set(CLASSES))


def test_the_tree_is_that_of_the_classes():
    drawn = [re.match(r"^([ │├└─]*)(\w+)", line) for line in TREE.splitlines()]
    parents = {}
    above: list[str] = []
    for match in drawn:
        depth = len(match.group(1)) // 4
        above[depth:] = [match.group(2)]
        parents[match.group(2)] = above[depth - 1] if depth else "Exception"
    assert parents == {value.__name__: value.__mro__[1].__name__ for value in CLASSES}


def test_every_exit_code_is_explained():
    for code, meaning in MEANINGS.items():
        assert f"| {code} | {meaning} |" in PAGE
