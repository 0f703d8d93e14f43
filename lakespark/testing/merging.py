"""Merging in plain Python, path by path, on mappings from path to a value.

A value is anything with an equality; a path that is not in a mapping has the value ``None``. For a virtual base
a value can be a ``Conflict``, which equals nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Outcome = Literal["source", "same", "conflict"]
Values = Mapping[str, object]


class Conflict:
    """The value of a path on which several bases disagree: equal to nothing, itself included."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return False


def three_way(base: Values, source: Values, destination: Values) -> dict[str, Outcome]:
    """What to do with each path that the source changed, in order of path.

    ``source``: only the source changed it, take its value. ``same``: both sides made the same change.
    ``conflict``: both changed it, differently. Paths that only the destination changed keep its value.
    """
    outcomes: dict[str, Outcome] = {}
    for path in sorted({*base, *source, *destination}):
        was, theirs, ours = base.get(path), source.get(path), destination.get(path)
        if theirs == was:
            continue
        if ours == was:
            outcomes[path] = "source"
        elif theirs == ours:
            outcomes[path] = "same"
        else:
            outcomes[path] = "conflict"
    return outcomes


def merge_bases_into_one(base: Values, source: Values, destination: Values) -> dict[str, object]:
    """The virtual base that two bases make over their own base.

    Where one of them deleted what the other changed, the value of their base; where they conflict otherwise, a
    value equal to nothing.
    """
    merged = dict(destination)
    for path, outcome in three_way(base, source, destination).items():
        if outcome == "source":
            merged[path] = source.get(path)
        elif outcome == "conflict":
            one_deleted = source.get(path) is None or destination.get(path) is None
            merged[path] = base.get(path) if one_deleted else Conflict()
    return {path: value for path, value in merged.items() if value is not None}


def describe(base: object, source: object, destination: object) -> str:
    """The kind of a conflict: what the source did / what the destination did."""
    return "/".join(
        "added" if base is None else "removed" if side is None else "changed" for side in (source, destination)
    )
