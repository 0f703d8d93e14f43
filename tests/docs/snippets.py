"""Runs what a documentation page shows: Python sessions as doctests, shell sessions with the real command."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<language>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS
END = "-- end of the output --"


class Block(NamedTuple):
    """A fenced block of a page, and the number of its first line."""

    language: str
    body: str
    line: int


class Command(NamedTuple):
    """A line of a shell session and what it printed."""

    text: str
    output: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text()
    return [Block(m["language"], m["body"], text.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(text)]


def run_page(page: Path, folder: Path) -> int:
    """Run every session of a page in a folder, in order; the number of them. Raises AssertionError.

    The Python sessions of a page share their names, and its shell sessions one shell's variables.
    """
    found = blocks(page)
    names: dict[str, object] = {}
    shell_before: list[Command] = []
    for block in found:
        if block.language == "python":
            run_python(block, page.name, names)
        elif block.language == "console":
            shell_before += run_shell(block, page.name, folder, shell_before)
    return sum(block.language in ("python", "console") for block in found)


def run_python(block: Block, name: str, names: dict[str, object]) -> None:
    """Run a Python session; ``names`` gets what it defines."""
    examples = doctest.DocTestParser().get_examples(block.body, name)
    assert examples, f"{name}:{block.line}: a python block without a single >>>"
    test = doctest.DocTest(examples, names, name, name, block.line - 1, block.body)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert not runner.failures, "".join(report)


def commands(block: Block, name: str) -> list[Command]:
    """The commands of a shell session with their outputs."""
    found: list[Command] = []
    for offset, line in enumerate(block.body.splitlines()):
        if line.startswith("$ "):
            found.append(Command(line[2:], "", block.line + offset))
        elif found:
            found[-1] = found[-1]._replace(output=found[-1].output + line + "\n")
        else:
            raise AssertionError(f"{name}:{block.line}: a shell session begins with '$ '")
    return found


def run_shell(block: Block, name: str, folder: Path, before: list[Command]) -> list[Command]:
    """Run a shell session after the assignments of earlier ones; what it ran."""
    wanted = commands(block, name)
    kept = [command.text for command in before if command.text.startswith("export ")]
    script = kept + [f"{{ {command.text}\n}} 2>&1; code=$?; echo '{END}'; (exit $code)" for command in wanted]
    shell, environment = ["bash", "-c", "\n".join(script)], _environment(folder)
    done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    outputs = done.stdout.split(END + "\n")
    assert len(outputs) == len(wanted) + 1, done.stdout + done.stderr
    for command, output in zip(wanted, outputs, strict=False):
        is_same = doctest.OutputChecker().check_output(command.output, output, OPTIONS)
        assert is_same, f"{name}:{command.line}: $ {command.text}\nexpected:\n{command.output}\ngot:\n{output}"
    return wanted


def _environment(folder: Path) -> dict[str, str]:
    programs = folder / ".bin"
    programs.mkdir(exist_ok=True)
    program = programs / "lakespark"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom lakespark.cli import main\nsys.exit(main())\n")
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAKESPARK_")}
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(folder), "COLUMNS": "120"}
