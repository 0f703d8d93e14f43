"""The command line in process, on a lake in a folder of its own."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakespark.cli.app import app


class Cli:
    """Runs command lines in process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "HOME": str(folder),
            "LAKESPARK_LAKE": str(folder / "lake"),
            "LAKESPARK_USER": "ann",
            "LAKESPARK_TRACEBACK": None,
        }

    def invoke(self, *words, given=None):
        """The result of a command line, with ``given`` on stdin."""
        return CliRunner(env=self.environment).invoke(app, [*map(str, words)], input=given, prog_name="lakespark")

    def __call__(self, *words, code=0, given=None):
        """The same, which must end with a code."""
        result = self.invoke(*words, given=given)
        assert result.exit_code == code, (words, result.stdout, result.stderr, result.exc_info)
        assert "Traceback" not in result.stderr
        return result

    def lines(self, *words):
        """The lines that it prints to stdout."""
        return self(*words).stdout.splitlines()

    def json(self, *words, code=0):
        """What it prints to stdout as JSON."""
        return json.loads(self("--json", *words, code=code).stdout)

    def put(self, uri, text):
        """Upload a text."""
        self("fs", "upload", "-s", "-", uri, given=text)


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """The command line beside an empty lake; the current folder is the lake's parent."""
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path)


@pytest.fixture
def demo(cli):
    """The command line with a repository ``demo`` of one commit, ``a.txt`` and ``folder/b.txt``."""
    return with_demo(cli)


@pytest.fixture
def forked(demo):
    """``demo`` with a branch ``dev``; ``a.txt`` is changed in different ways on both, ``c.txt`` added on dev."""
    return with_fork(demo)


@pytest.fixture(scope="module")
def module_forked(tmp_path_factory):
    """The same, made once for all tests of a module that change nothing."""
    return with_fork(with_demo(Cli(tmp_path_factory.mktemp("forked"))))


@pytest.fixture
def untouched(module_forked, monkeypatch):
    """The forked repository that tests share; it must be after each as it was before."""
    monkeypatch.chdir(module_forked.folder)
    before = state(module_forked)
    yield module_forked
    assert state(module_forked) == before


def with_demo(cli):
    """The command line after ``demo`` was made."""
    cli("repo", "create", "lakefs://demo")
    cli.put("lakefs://demo/main/a.txt", "a\n")
    cli.put("lakefs://demo/main/folder/b.txt", "b\n")
    cli("commit", "lakefs://demo/main", "-m", "first")
    return cli


def with_fork(cli):
    """The command line after ``demo`` was forked."""
    cli("branch", "create", "lakefs://demo/dev", "-s", "main")
    cli.put("lakefs://demo/dev/a.txt", "from dev\n")
    cli.put("lakefs://demo/dev/c.txt", "c\n")
    cli("commit", "lakefs://demo/dev", "-m", "on dev")
    cli.put("lakefs://demo/main/a.txt", "from main\n")
    cli("commit", "lakefs://demo/main", "-m", "on main")
    return cli


def state(cli):
    """Every file of the lake, and beside it, with its size."""
    return {file: file.stat().st_size for file in cli.folder.rglob("*") if file.is_file()}
