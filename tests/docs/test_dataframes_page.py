"""What docs/dataframes.md shows is what Spark does."""

from pathlib import Path

import pytest
from snippets import blocks, run_python

PAGE = Path(__file__).parents[2] / "docs" / "dataframes.md"


@pytest.mark.spark
def test_sessions_of_the_page_run_and_print_what_it_shows(tmp_path, monkeypatch, spark):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"spark": spark}
    found = blocks(PAGE)
    assert {block.language for block in found} == {"python"}
    for block in found:
        run_python(block, PAGE.name, names)
