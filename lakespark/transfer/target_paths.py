"""Which object paths can be files below a folder: all of them are checked before any is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePath, PurePosixPath

from lakespark.errors import UnsafeDownloadError

MAX_NAME_BYTES = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_targets(folder: Path, names: Sequence[str], *, leaving: Collection[str] = (), verb: str = "download") -> None:
    """Raises UnsafeDownloadError that names every path that cannot be a file of its own below ``folder``.

    ``names`` are object paths relative to what is downloaded; ``leaving``: files there that are removed first.
    """
    bad = [name for name in names if not is_file_name(name)]
    taken = set(names) - set(bad)
    nested = sorted(name for name in taken if any(parent in taken for parent in _parents(name)))
    both = sorted({parent for name in nested for parent in _parents(name) if parent in taken} | set(nested))
    blocked = [] if bad or both else list(_blocked(folder, names, frozenset(leaving)))
    problems = [
        (bad, "would leave the folder or cannot be the name of a file"),
        (both, "cannot be files beside each other, as one is the folder of another"),
        (blocked, f"cannot be written, for what stands in {folder} already"),
    ]
    _refuse(problems, verb)


def check_keys(names: Iterable[str], *, verb: str) -> None:
    """The same for an object store, where an object may be called as the folder of another one."""
    bad = [name for name in names if _CONTROL.search(name) or not {"", ".", ".."}.isdisjoint(name.split("/"))]
    _refuse([(bad, "would leave the target or cannot be the key of an object there")], verb)


def _refuse(problems: Iterable[tuple[Sequence[str], str]], verb: str) -> None:
    found = [f"{', '.join(map(repr, paths))} {problem}" for paths, problem in problems if paths]
    if found:
        raise UnsafeDownloadError(f"cannot {verb}: {'; '.join(found)}; nothing was written")


def is_file_name(name: str) -> bool:
    """Whether a relative object path is, part by part, a path that a file below a folder can have."""
    return all(_is_part(part) for part in name.split("/"))


def _is_part(part: str) -> bool:
    is_plain = part != ".." and PurePath(part).parts == (part,)  # on Windows no drive and no backslash either
    return is_plain and len(part.encode()) <= MAX_NAME_BYTES


def _parents(name: str) -> Iterator[str]:
    """The folders of a path, the nearest first, without the empty one."""
    return (str(parent) for parent in PurePosixPath(name).parents if parent.name)


def _blocked(folder: Path, names: Iterable[str], leaving: Collection[str]) -> Iterator[str]:
    """Paths at which there is a folder, or above which there is a file or a link that leads elsewhere."""
    root = folder.resolve()
    gone = {root / name for name in leaving}
    fit: dict[Path, bool] = {}
    for name in names:
        target = folder / name
        if target.parent not in fit:
            fit[target.parent] = _takes_files(target.parent, root, gone)
        if not fit[target.parent] or (target.is_dir() and not _is_emptied(target, gone)):
            yield name


def _takes_files(parent: Path, root: Path, gone: Collection[Path]) -> bool:
    resolved = parent.resolve()
    if resolved != root and root not in resolved.parents:
        return False
    standing = next(place for place in (resolved, *resolved.parents) if place.exists())
    return standing.is_dir() or standing in gone


def _is_emptied(folder: Path, gone: Collection[Path]) -> bool:
    files = [file for file in folder.resolve().rglob("*") if not file.is_dir()]
    return bool(files) and all(file in gone for file in files)
