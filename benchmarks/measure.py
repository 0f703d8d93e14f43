"""Timing, memory and a fresh lake for the benchmarks."""

import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def seconds(work: Callable[[], Any]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_ms(work: Callable[[int], Any], times: int) -> float:
    """Median wall time of ``times`` calls in milliseconds; ``work`` gets the number of the call."""
    return round(statistics.median(seconds(lambda number=i: work(number)) for i in range(times)) * 1000, 3)


def peak_memory_mb() -> int:
    """Largest resident size of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """A folder of its own that is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="lakespark-benchmark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def report(name: str, figures: dict[str, Any]) -> None:
    """Print the figures of one benchmark as a line of JSON."""
    machine = {"cores": os.cpu_count(), "peak_memory_mb": peak_memory_mb()}
    sys.stdout.write(json.dumps({"benchmark": name, **figures, **machine}) + "\n")
    sys.stdout.flush()
