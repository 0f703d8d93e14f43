"""What a job prints for a person: numbered steps, sentences, aligned tables, checks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Narration:
    """Prints the steps of a job and keeps count of its checks."""

    started: float = field(default_factory=time.monotonic)
    steps: int = 0
    passed: int = 0
    failed: list[str] = field(default_factory=list)

    def step(self, title: str) -> None:
        """Begin the next numbered step."""
        self.steps += 1
        print(f"\n{self.steps}. {title}")

    def say(self, text: str) -> None:
        """One sentence of the current step."""
        print(f"   {text}", flush=True)

    def table(self, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """A table: numbers to the right with thousands separated, everything else to the left."""
        rows = [list(row) for row in rows]
        body = [[_cell(value) for value in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
        right = [bool(rows) and all(isinstance(row[i], int) for row in rows) for i in range(len(header))]
        for line in (list(header), ["-" * width for width in widths], *body):
            cells = [
                text.rjust(width) if to_right else text.ljust(width)
                for text, width, to_right in zip(line, widths, right, strict=True)
            ]
            print(f"     {'  '.join(cells)}".rstrip())

    def check(self, claim: str, holds: bool) -> None:  # noqa: FBT001 - reads as a sentence where it is called
        """State a claim and whether it held."""
        if holds:
            self.passed += 1
        else:
            self.failed.append(claim)
        self.say(f"[{'ok' if holds else 'FAILED'}] {claim}")

    def close(self) -> int:
        """Say how the checks went, and give the exit code: 0 if all of them held, else 1."""
        print(f"\n{self.passed} of {self.passed + len(self.failed)} checks passed in {self.seconds:.1f} s.")
        for claim in self.failed:
            print(f"FAILED: {claim}")
        return 1 if self.failed else 0

    @property
    def seconds(self) -> float:
        """Seconds since the job began."""
        return time.monotonic() - self.started


@dataclass
class Stopwatch:
    """Measures a ``with`` block; prints itself as ``0.12 s``."""

    seconds: float = 0.0

    def __enter__(self) -> Self:
        self.seconds = -time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter()

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s"


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
