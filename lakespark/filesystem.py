"""``lakefs://repository/ref/path`` as an fsspec file system, for pandas, polars, pyarrow, DuckDB and others.

Nothing is cached: a branch is looked up anew at every call, a file that is open stays what it was. Folders are what
stands before a ``/`` of paths. Objects whose paths end with ``/`` cannot be named here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple, cast

from fsspec import AbstractFileSystem

from lakespark.errors import (
    BadRequestException,
    InvalidNameError,
    InvalidPathError,
    InvalidRefExpressionError,
    NotFoundException,
)
from lakespark.file_writers import ObjectFile, layered
from lakespark.lake import Lake
from lakespark.model import CommonPrefix, ObjectInfo
from lakespark.repository import Repository

Info = dict[str, Any]
_PATTERN = re.compile(r"[*?\[]")
_TEXT_OPTIONS = ("encoding", "errors", "newline")


class _Place(NamedTuple):
    """The parts of a name; empty where it ends before them."""

    repository: str
    ref: str
    path: str


class LakeFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The repositories of a lake. Making one reads nothing.

    ``lake``: its location, or a Lake. ``user`` and ``options`` (of the object store) are for a location.
    """

    protocol = "lakefs"
    cachable = False  # a Lake cannot be told from another one by its text, by which fsspec would know it

    def __init__(
        self,
        lake: str | os.PathLike[str] | Lake | None = None,
        user: str | None = None,
        options: Mapping[str, Any] | None = None,
        **storage_options: Any,
    ) -> None:
        super().__init__(**storage_options)
        if lake is None:
            raise BadRequestException(
                "which lake? Pass storage_options={'lake': ...}, its location: there is no default"
            )
        if isinstance(lake, Lake) and (user is not None or options):
            raise BadRequestException("user and options are those of the Lake that is given: pass a location with them")
        self.lake = lake if isinstance(lake, Lake) else Lake(lake, user=user or "anonymous", **(options or {}))
        self._repositories: dict[str, Repository] = {}
        self._made: set[str] = set()

    # -- looking -------------------------------------------------------------------------------------------

    def info(self, path: str, **_: Any) -> Info:
        """What is known of a name: an object before a folder. Raises FileNotFoundError."""
        name = self._strip_protocol(path)
        place = _place(name)
        with _missing_as_not_found():
            if place.path:
                return self._info_below(name, place)
            if place.ref:
                self._repository(place).ref(place.ref).get_commit()
            elif place.repository:
                self._repository(place).properties  # noqa: B018 - reads it
        return _folder(name)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:  # noqa: FBT001, FBT002 - fsspec's signature
        """What is in a folder; repositories, or branches and tags, further up. Raises FileNotFoundError."""
        name = self._strip_protocol(path)
        place = _place(name)
        with _missing_as_not_found():
            if place.ref:
                found = self._list_folder(name, place)
            elif place.repository:
                repository = self._repository(place)
                refs = sorted([ref.id for ref in [*repository.branches(), *repository.tags()]])
                found = [_folder(f"{name}/{ref}") for ref in refs]
            else:
                found = [_folder(repository.id) for repository in self.lake.repositories()]
        return found if detail else [info["name"] for info in found]

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,  # noqa: FBT001, FBT002 - fsspec's signature
        detail: bool = False,  # noqa: FBT001, FBT002
        **options: Any,
    ) -> Any:
        """Every object below a name and the one of that name, by one listing; with ``withdirs`` the folders too."""
        name = self._strip_protocol(path)
        place = _place(name)
        if not place.ref:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **options)
        with _missing_as_not_found():
            objects = self._objects(name, place)
        found = {info["name"]: info for info in objects}
        if withdirs:
            folders = {folder for inner in found for folder in _folders(inner, name)}
            found = {**{folder: _folder(folder) for folder in folders}, **found}
        start = name.count("/")
        shown = {
            inner: found[inner] for inner in sorted(found) if maxdepth is None or inner.count("/") - start <= maxdepth
        }
        return shown if detail else list(shown)

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is an object or a folder of that name."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def modified(self, path: str) -> datetime:
        """When an object was written."""
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    # -- reading and writing -------------------------------------------------------------------------------

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: Mapping[str, Any] | None = None,
        compression: str | None = None,
        **options: Any,
    ) -> IO[Any]:
        """A file object to read, or to write an object whole: staged when it is closed, not where its block fails."""
        if "r" in mode:
            return cast("IO[Any]", super().open(path, mode, block_size, cache_options, compression, **options))
        text: dict[str, Any] = {name: options.pop(name) for name in _TEXT_OPTIONS if name in options}
        file = super().open(path, mode.replace("b", "").replace("t", "") + "b", **options)
        return layered(file, path, compression=compression, text=None if "b" in mode else text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        *,
        autocommit: bool = True,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        **_: Any,
    ) -> IO[bytes]:
        place = _object_place(self._strip_protocol(path))
        if mode == "rb":
            with _missing_as_not_found():
                return self._repository(place).ref(place.ref).object(place.path).reader("rb")
        if mode not in ("wb", "xb"):
            raise BadRequestException(
                f"cannot open lakefs://{path} in mode {mode!r}: objects are read, or written whole"
            )
        if not autocommit:
            raise BadRequestException(
                "transactions of fsspec are not supported: write to lakefs://repository/<id>/... inside of "
                "`with branch.transact(...) as tx`, where <id> is tx.id"
            )
        target = self._repository(place).branch(place.ref).object(place.path)
        return cast("IO[bytes]", ObjectFile(target, cast("Any", mode), content_type=content_type, metadata=metadata))

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy an object. Within a repository it is linked, and no data is copied."""
        if self.info(path1)["type"] == "directory":
            return  # folders come with their objects
        source, target = (_object_place(self._strip_protocol(path)) for path in (path1, path2))
        stored = self._repository(source).ref(source.ref).object(source.path)
        if source.repository == target.repository:
            stored.copy(target.ref, target.path)
            return
        info = stored.stat()
        kind: dict[str, Any] = {"content_type": info.content_type, "metadata": info.metadata}
        with stored.reader(info=info) as reader, self.open(path2, "wb", **kind) as writer:
            shutil.copyfileobj(reader, writer, 1 << 20)

    def rm(self, path: str | Iterable[str], recursive: bool = False, maxdepth: int | None = None) -> None:  # noqa: FBT001, FBT002
        """Delete objects, those of a branch in one step; with ``recursive`` what is below them too."""
        batches: dict[tuple[str, str], list[str]] = {}
        for given in [path] if isinstance(path, str) else path:
            for name in self._to_remove(given, recursive=recursive, maxdepth=maxdepth):
                place = _object_place(name)
                batches.setdefault((place.repository, place.ref), []).append(place.path)
        for (repository, ref), paths in batches.items():
            self._repository(_Place(repository, ref, "")).branch(ref).delete_objects(paths)

    def _rm(self, path: str) -> None:
        self.rm(path)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:  # noqa: ARG002, FBT001, FBT002
        """A folder is there when an object is below it; until then ``ls`` takes it for empty."""
        self._made.add(self._strip_protocol(path))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """As ``mkdir``."""
        self.mkdir(path)

    def rmdir(self, path: str) -> None:
        """Nothing: a folder is gone when no object is below it."""

    # -- parts ---------------------------------------------------------------------------------------------

    def _repository(self, place: _Place) -> Repository:
        if place.repository not in self._repositories:
            self._repositories[place.repository] = self.lake.repository(place.repository)
        return self._repositories[place.repository]

    def _info_below(self, name: str, place: _Place) -> Info:
        reference = self._repository(place).ref(place.ref)
        stored = reference.object(place.path)
        try:
            return _file(name, stored.stat())
        except FileNotFoundError:
            if any(reference.objects(max_amount=1, prefix=f"{place.path}/")):
                return _folder(name)
            raise

    def _list_folder(self, name: str, place: _Place) -> list[Info]:
        prefix = f"{place.path}/" if place.path else ""
        root = f"{place.repository}/{place.ref}"
        listed = self._repository(place).ref(place.ref).objects(prefix=prefix, delimiter="/")
        infos = [_listed(root, item) for item in listed if _can_be_named(item, prefix)]
        if infos or not place.path or (name in self._made and not self.exists(name)):
            return infos
        info = self.info(name)
        return [info] if info["type"] == "file" else []

    def _objects(self, name: str, place: _Place) -> list[Info]:
        reference = self._repository(place).ref(place.ref)
        root = f"{place.repository}/{place.ref}"
        prefix = f"{place.path}/" if place.path else ""
        below = cast("Iterator[ObjectInfo]", reference.objects(prefix=prefix))
        found = [_file(f"{root}/{item.path}", item) for item in below if not item.path.endswith("/")]
        if place.path and reference.object(place.path).exists():
            found.append(_file(name, reference.object(place.path).stat()))
        return found

    def _to_remove(self, path: str, *, recursive: bool, maxdepth: int | None) -> list[str]:
        """The names of the objects that a path, or a pattern, stands for."""
        names = [self._strip_protocol(path)]
        if _PATTERN.search(path) and not self.exists(path):
            names = self.glob(path)
        found: list[str] = []
        for name in names:
            if not _place(name).ref:
                raise BadRequestException(f"cannot remove lakefs://{name}: objects are removed from a branch")
            if recursive:
                found += self.find(name, maxdepth=maxdepth)
            elif self.info(name)["type"] == "directory":
                raise IsADirectoryError(f"lakefs://{name} is a folder: pass recursive=True")
            else:
                found.append(name)
        if not found:
            raise FileNotFoundError(f"there is no lakefs://{self._strip_protocol(path)}")
        return found


@contextmanager
def _missing_as_not_found() -> Iterator[None]:
    """What does not exist, or cannot, is a FileNotFoundError, as callers of a file system expect."""
    try:
        yield
    except (NotFoundException, InvalidNameError, InvalidPathError, InvalidRefExpressionError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise FileNotFoundError(str(error)) from error


def _place(name: str) -> _Place:
    repository, _, rest = name.partition("/")
    ref, _, path = rest.partition("/")
    return _Place(repository, ref, path)


def _object_place(name: str) -> _Place:
    place = _place(name)
    if not place.path:
        raise BadRequestException(f"lakefs://{name} names no object: expected lakefs://repository/ref/path")
    return place


def _folder(name: str) -> Info:
    return {"name": name, "size": 0, "type": "directory"}


def _file(name: str, info: ObjectInfo) -> Info:
    return {
        "name": name,
        "size": info.size_bytes,
        "type": "file",
        "mtime": info.mtime,
        "checksum": info.checksum,
        "content_type": info.content_type,
        "metadata": info.metadata,
        "physical_address": info.physical_address,
    }


def _listed(root: str, item: ObjectInfo | CommonPrefix) -> Info:
    if isinstance(item, CommonPrefix):
        return _folder(f"{root}/{item.path.removesuffix('/')}")
    return _file(f"{root}/{item.path}", item)


def _can_be_named(item: ObjectInfo | CommonPrefix, prefix: str) -> bool:
    """Whether a name of this file system, which has no ``/`` at its end, can stand for it."""
    if isinstance(item, CommonPrefix):
        return not item.path.removesuffix("/").endswith("/") and item.path.removesuffix("/") != ""
    return not item.path.endswith("/") and item.path != prefix


def _folders(name: str, root: str) -> Iterator[str]:
    """The folders between a folder and an object below it."""
    folder = name.rpartition("/")[0]
    while len(folder) > len(root):
        if not folder.endswith("/"):
            yield folder
        folder = folder.rpartition("/")[0]
