"""The command as a process: exit codes, streams, terminals, and what it does not import."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import lakespark

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "lakespark"]
SLOW = ("pandas", "duckdb", "deltalake", "rich", "pyspark", "pyarrow.dataset")

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Variables of a process with a lake in a folder; its repository ``demo`` has 301 objects."""
    home = tmp_path_factory.mktemp("home")
    branch = lakespark.Lake(home / "lake", user="ann").repository("demo").create().branch("main")
    for number in range(300):
        branch.object(f"{number:04}").upload(str(number))
    branch.object("février").upload("x")
    branch.commit("load")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAKESPARK_")}
    return {**kept, "PYTHONPATH": str(ROOT), "HOME": str(home), "LAKESPARK_LAKE": str(home / "lake")}


def run(environment, *words):
    return subprocess.run([*COMMAND, *words], env=environment, capture_output=True, text=True, timeout=60)


def imported(environment, *words):
    """The modules of ``SLOW`` that a command line imports."""
    script = (
        "import sys\nfrom lakespark.cli.app import app\n"
        f"try:\n    app.main({list(words)!r})\nexcept SystemExit as done:\n    assert not done.code\n"
        f"sys.stderr.write(' '.join(name for name in {(*SLOW, 'pyarrow')!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr.split()


def test_data_and_messages_go_their_own_ways(environment):
    done = run(environment, "branch", "create", "lakefs://demo/dev", "-s", "main", "--json")
    assert (done.returncode, done.stderr) == (0, "created branch lakefs://demo/dev\n")
    assert done.stdout.startswith('{"id": "dev"')
    failed = run(environment, "log", "lakefs://demo/nowhere")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("error: ref 'nowhere' not found")
    wrong = run(environment, "log")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "lakespark log --help" in wrong.stderr


def test_help_imports_nothing_slow(environment):
    assert imported(environment, "--help") == []
    assert imported(environment, "merge", "--help") == []


def test_a_log_imports_neither_engine_nor_pandas(environment):
    assert imported(environment, "log", "lakefs://demo/main") == ["pyarrow"]
    assert imported(environment, "log", "lakefs://demo/main", "--graph") == ["pyarrow"]


def test_the_package_has_its_names_without_importing_them_at_once(environment):
    script = (
        "import sys, lakespark\nassert 'pyarrow' not in sys.modules\n"
        "import lakespark.repository\nassert callable(lakespark.repository)\n"
        "assert all(getattr(lakespark, name) is not None for name in lakespark.__all__)\n"
        "assert set(lakespark.__all__) <= set(dir(lakespark))\nassert not hasattr(lakespark, 'nothing')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "code"),
    [(("fs", "ls", "-r", "lakefs://demo/main/"), 1), (("--json", "log", "lakefs://demo/nowhere"), 1)],
    ids=["data", "an error"],
)
def test_a_reader_that_stops_reading_causes_no_noise(environment, words, code):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, *words], env=environment, **streams) as process:
        process.stdout.close()
        noise = process.stderr.read()
        assert b"Traceback" not in noise
        assert b"BrokenPipe" not in noise
        assert process.wait(60) == code


def test_a_terminal_that_knows_only_ascii_gets_escapes(environment):
    ascii_only = {**environment, "PYTHONIOENCODING": "ascii"}
    assert "f\\xe9vrier" in run(ascii_only, "fs", "ls", "lakefs://demo/main/f").stdout


def in_terminal(environment, *words):
    """What a command prints to a terminal, and its exit code."""
    terminal, end = pty.openpty()
    wide = {**environment, "COLUMNS": "150", "TERM": "xterm"}
    with subprocess.Popen([*COMMAND, *words], env=wide, stdin=end, stdout=end, stderr=end) as process:
        os.close(end)
        shown = b""
        while chunk := _read(terminal):
            shown += chunk
    os.close(terminal)
    return shown.decode(), process.returncode


def _read(terminal):
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other end is closed
        return b""


def test_a_terminal_gets_tables_and_a_progress_bar(environment, tmp_path):
    shown, code = in_terminal(environment, "branch", "list", "lakefs://demo")
    assert code == 0
    assert "BRANCH" in shown
    assert "─" in shown
    words = ("fs", "download", "-r", "lakefs://demo/main/", str(tmp_path / "out"))
    shown, code = in_terminal(environment, *words)
    assert code == 0
    assert "downloading" in shown
    assert "downloaded 301 files" in shown
    quiet, _ = in_terminal(environment, *words, "--no-progress")
    assert "downloading" not in quiet
