"""Check that the tools named on the command line are on this machine, in versions that will do."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

MINIMUM = {
    "python": ((3, 11), "Python 3.11 or newer: set PYTHON=/path/to/python3.11"),
    "java": ((17,), "Java 17 or newer for Spark: install a JDK 17, and set JAVA_HOME to its folder"),
    "git": ((2, 38), "git 2.38 or newer, the judge of the merge tests"),
}
ASK = {"java": "-version", "git": "--version"}


def program(tool: str) -> str | None:
    """Where a tool is; Java as Spark looks for it, below JAVA_HOME if that is set. None if it is not there."""
    home = os.environ.get("JAVA_HOME") if tool == "java" else None
    return shutil.which(Path(home) / "bin" / tool if home else tool)


def version(tool: str) -> tuple[int, ...] | None:
    """The version of a tool, or None if it is not there."""
    if tool == "python":
        return tuple(sys.version_info[:2])
    found = program(tool)
    if found is None:
        return None
    done = subprocess.run([found, ASK[tool]], capture_output=True, text=True, check=False)  # noqa: S603
    numbers = re.search(r"(\d+)(?:\.(\d+))?", done.stdout + done.stderr)
    return tuple(int(part) for part in numbers.groups() if part) if numbers and not done.returncode else None


def main(tools: list[str]) -> int:
    """Name every tool that is missing or too old on stderr; 1 if there is one."""
    failed = 0
    for tool in tools:
        minimum, advice = MINIMUM[tool]
        found = version(tool)
        if found is None or found < minimum:
            have = "not found" if found is None else "found " + ".".join(map(str, found))
            print(f"{tool}: {have}; lakespark needs {advice}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
