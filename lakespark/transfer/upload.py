"""Local files into a branch. The files of a folder become visible together."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from lakespark.branch import Branch, Transaction
from lakespark.errors import BadRequestException
from lakespark.model import DEFAULT_CONTENT_TYPE
from lakespark.names import check_path
from lakespark.objects import WriteableObject
from lakespark.transfer.parallel import DEFAULT_PARALLELISM, for_each
from lakespark.transfer.progress import Meter, OnProgress, Transferred

CHUNK_BYTES = 4 << 20
_SHOWN = 5


@dataclass(frozen=True)
class _LocalFile:
    """A file to upload and the path that it gets."""

    file: Path
    path: str
    size_bytes: int


def upload_file(
    branch: Branch | Transaction,
    source: str | os.PathLike[str] | IO[bytes],
    path: str,
    *,
    content_type: str | None = None,
    metadata: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> WriteableObject:
    """Upload one local file, or a stream of bytes, to a path of a branch."""
    target = branch.object(path)
    with ExitStack() as opened:
        size = 0
        if isinstance(source, str | os.PathLike):
            size = Path(source).stat().st_size
            source = opened.enter_context(Path(source).open("rb"))
        meter = Meter(1, size, on_progress)
        writer = opened.enter_context(target.writer("wb", content_type=content_type, metadata=metadata))
        while chunk := source.read(CHUNK_BYTES):
            writer.write(chunk)
            meter.add(size_bytes=len(chunk))
    meter.add(files=1)
    return target


def upload_folder(
    branch: Branch | Transaction,
    folder: str | os.PathLike[str],
    prefix: str = "",
    *,
    content_type: str | None = None,
    metadata: Mapping[str, str] | None = None,
    parallelism: int = DEFAULT_PARALLELISM,
    on_progress: OnProgress | None = None,
) -> Transferred:
    """Upload every file below a folder to its relative path below ``prefix`` (a folder of the branch).

    All of them are staged in one batch at the end: after a failure none is. Links to files are followed.
    Raises BadRequestException for a folder without files, and one that names links to folders and what is
    neither file nor folder; InvalidPathError for a name that no path can have. Then nothing was uploaded.
    """
    files = _files_below(Path(folder), prefix if not prefix or prefix.endswith("/") else prefix + "/")
    meter = Meter(len(files), sum(file.size_bytes for file in files), on_progress)
    batch = _Batch(branch.object(files[0].path), meter)
    for_each(files, batch.upload, parallelism=parallelism)
    branch.stage(batch.entries(content_type or DEFAULT_CONTENT_TYPE, metadata or {}))
    return meter.transferred


@dataclass
class _Batch:
    """Contents that are in the store and wait to be staged."""

    target: WriteableObject
    meter: Meter
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._folder = self.target.new_address().rpartition("/")[0]

    def upload(self, file: _LocalFile) -> None:
        """Put one file's contents into the store."""
        address = f"{self._folder}/{secrets.token_hex(12)}"
        md5 = hashlib.md5(usedforsecurity=False)
        with file.file.open("rb") as source:
            size = self._copy(source, address, md5)
        self.meter.add(files=1)
        row = {"path": file.path, "physical_address": address, "size_bytes": size, "checksum": md5.hexdigest()}
        self.rows.append(row)

    def entries(self, content_type: str, metadata: Mapping[str, str]) -> pa.Table:
        """What was uploaded, as a table to stage."""
        rows = sorted(self.rows, key=lambda row: str(row["path"]))
        columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
        columns["content_type"] = pa.repeat(content_type, len(rows))
        if metadata:
            pairs = list(metadata.items())
            columns["metadata"] = pa.array([pairs] * len(rows), pa.map_(pa.string(), pa.string()))
        return pa.table(columns)

    def _copy(self, source: IO[bytes], address: str, md5: Any) -> int:
        chunk = source.read(CHUNK_BYTES)
        if len(chunk) < CHUNK_BYTES:  # one request instead of a stream
            self.target.store.put(address, chunk)
            md5.update(chunk)
            self.meter.add(size_bytes=len(chunk))
            return len(chunk)
        stream, size = self.target.store.open_writer(address), 0
        while chunk:
            stream.write(chunk)
            md5.update(chunk)
            size += len(chunk)
            self.meter.add(size_bytes=len(chunk))
            chunk = source.read(CHUNK_BYTES)
        stream.close()
        return size


def _files_below(folder: Path, prefix: str) -> list[_LocalFile]:
    if not folder.is_dir():
        raise BadRequestException(f"cannot upload {folder}: it is not a folder")
    files, refused = [], []
    for file in _walk(folder):
        known = file.stat() if file.exists() else None
        if known is None or not stat.S_ISREG(known.st_mode):
            refused.append(str(file))
        else:
            path = check_path(prefix + file.relative_to(folder).as_posix())
            files.append(_LocalFile(file, path, known.st_size))
    if not files and not refused:
        raise BadRequestException(f"cannot upload {folder}: there is no file in it")
    if refused:
        more = f" and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        raise BadRequestException(
            f"cannot upload {', '.join(refused[:_SHOWN])}{more}: links to folders, links to nothing and what is "
            "neither file nor folder are not uploaded; nothing was"
        )
    return files


def _walk(folder: Path) -> Iterator[Path]:
    """Everything below a folder but the folders themselves, in order; links to folders included."""
    for root, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        links = [name for name in folders if Path(root, name).is_symlink()]
        yield from (Path(root, name) for name in sorted([*names, *links]))


def _raise(error: OSError) -> None:
    raise error
