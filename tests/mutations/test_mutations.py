"""Tests of the tests: whichever promise is taken out of a copy of the code, some test fails, and without it none does.

``pytest -m mutations tests/mutations`` tries all of them in a few minutes, and says which tests noticed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mutants import MUTANTS, Mutant

PROJECT = Path(__file__).parents[2]
FAILED = re.compile(r"^FAILED \S+::(\w+)", re.MULTILINE)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_a_mutant_replaces_stands_once_in_the_code(mutant):
    assert (PROJECT / mutant.file).read_text().count(mutant.old) == 1


def test_the_tests_that_the_docs_name_are_there():
    named = set(re.findall(r"`(test_\w+)`", (PROJECT / "docs" / "stores.md").read_text()))
    files = (PROJECT / "tests").rglob("test_*.py")
    known = {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)}
    assert named
    assert not named - known


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The code and its tests, to spoil."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("lakespark", "tests"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def spoiled(copy: Path, mutant: Mutant) -> Iterator[Path]:
    """The copy with the mutant in it, to the end of the test."""
    file = copy / mutant.file
    whole = file.read_text()
    assert whole.count(mutant.old) == 1
    file.write_text(whole.replace(mutant.old, mutant.new))
    yield copy
    file.write_text(whole)


def run_tests(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """The tests of a folder, on the code of that folder. Those that start processes or Spark are left out."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not processes and not spark", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.mutations
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_noticed(mutant, spoiled, capsys):
    result = run_tests(spoiled, *mutant.tests, "--timeout=60")
    noticed = sorted(set(FAILED.findall(result.stdout)))
    with capsys.disabled():
        print(f"\n{mutant.name}: noticed by {', '.join(noticed) or 'nobody'}")
    assert noticed, result.stdout
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout + result.stderr


@pytest.mark.mutations
@pytest.mark.parametrize("tests", sorted({mutant.tests for mutant in MUTANTS}), ids=" ".join)
def test_without_a_mutant_all_is_well(copy, tests):
    result = run_tests(copy, *tests)
    assert result.returncode == pytest.ExitCode.OK, result.stdout
