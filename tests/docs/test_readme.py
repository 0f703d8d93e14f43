"""What the README and the page on the Python API show is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from snippets import Block, blocks, run_page, run_python, run_shell

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "docs/python.md", "docs/errors.md", "docs/leaving.md", "docs/stores.md")]
RUN = ("python", "console")
SHOWN = ("sh", "text", "json", "sql")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.processes
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sessions_of_a_page_run_and_print_what_it_shows(page, folder):
    assert run_page(page, folder) >= 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page):
    assert {block.language for block in blocks(page)} <= {*RUN, *SHOWN}


def test_commands_of_make_in_the_readme_are_there():
    shown = [line.split()[:2] for b in blocks(ROOT / "README.md") if b.language == "sh" for line in b.body.splitlines()]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [command for command, _ in shown] == ["make", "make", "make"]
    assert {target for _, target in shown} == {"demo", "demo-local", "test"} <= set(targets)


@pytest.mark.processes
def test_the_demo_without_java_says_what_to_do_and_sets_nothing_up(tmp_path):
    command = ["make", "demo", f"PYTHON={sys.executable}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "JAVA_HOME": str(tmp_path)}, capture_output=True)
    assert done.returncode == 2
    assert b"install a JDK 17" in done.stderr
    assert b"make demo-local needs no Java" in done.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.processes
def test_the_local_demo_asks_for_python_alone():
    planned = subprocess.run(["make", "--dry-run", "demo-local"], cwd=ROOT, capture_output=True, text=True)
    assert re.findall(r"check_tools\.py (.*)", planned.stdout) == ["python"]
    assert "-m jobs.demo_local" in planned.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_of_a_page_lead_somewhere(page):
    text = page.read_text()
    headings = {
        re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-")
        for line in re.findall(r"^#+ (.*)", text, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= headings


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_a_session_in_python_that_prints_something_else_is_caught():
    with pytest.raises(AssertionError, match="Expected"):
        run_python(Block("python", ">>> 1 + 1\n3\n", 1), "page", {})


@pytest.mark.processes
def test_a_session_in_the_shell_that_prints_something_else_is_caught(folder):
    with pytest.raises(AssertionError, match="page:2"):
        run_shell(Block("console", "$ echo one\none\n$ echo two\nthree\n", 0), "page", folder, [])


@pytest.mark.processes
def test_a_session_in_the_shell_knows_the_exit_code_of_the_command_before(folder):
    assert len(run_shell(Block("console", "$ false\n$ echo $?\n1\n", 1), "page", folder, [])) == 2
