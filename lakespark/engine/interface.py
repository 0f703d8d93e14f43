"""What an engine can do. The rules of versioning are SQL text in ``algebra``; engines run it.

The SQL is written in the words that DuckDB and Spark share. Frames stand in it by name in braces:
``engine.query("select * from {left}", left=frame)``. Functions beside the shared ones that may be used are those of
Spark ``octet_length(text)``, ``sha2(text, 256)``, ``regexp_like(text, pattern)``, ``startswith(text, start)``,
``try_url_decode(text)``, ``try_to_timestamp(text)`` and ``unix_seconds(timestamp)``; and ``encoded_metadata(map)``, the
encoding of ``lakespark.digest``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from lakespark.tree.metarange import RangeRef

Frame = Any
"""A table of an engine: an Arrow table in process, a DataFrame in Spark."""


class Engine(Protocol):
    """The primitives that the operations are made of."""

    name: str
    entries_at_once: int | None
    """About so many entries of a tree should be written anew in one piece; None: as many as there are."""

    def frame(self, table: pa.Table) -> Frame:
        """An Arrow table as a frame."""

    def collect(self, frame: Frame) -> pa.Table:
        """A frame as an Arrow table, in no particular order unless its query says one."""

    def query(self, sql: str, **frames: Frame) -> Frame:
        """Run a query of ``algebra`` over frames."""

    def keep(self, frame: Frame) -> Frame:
        """A frame that is used several times, computed once."""

    def read_ranges(self, ranges: Sequence[RangeRef], columns: Sequence[str]) -> Frame:
        """Entries of ranges."""

    def read_numbered(self, ranges: Sequence[RangeRef], columns: Sequence[str]) -> Frame:
        """Entries of ranges, none of them twice, each with ``range_number``: the place of its range among them."""

    def number_ranges(self, paths: Frame, max_paths: Sequence[str]) -> Frame:
        """The frame with a column ``range_number``: the first range whose last path is not below ``path``."""

    def write_ranges(self, rows: Frame, threshold: str, reuse: Mapping[str, RangeRef]) -> list[RangeRef]:
        """Sort entries, cut them into ranges, write those that ``reuse`` (by range id) does not hold."""
