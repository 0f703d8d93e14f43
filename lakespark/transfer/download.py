"""Objects of a ref into local files: each is written under another name first, and none if one is not safe."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from lakespark.errors import ObjectNotFoundException
from lakespark.model import ObjectInfo
from lakespark.reference import Reference
from lakespark.transfer.parallel import DEFAULT_PARALLELISM, for_each
from lakespark.transfer.progress import Meter, OnProgress, Transferred
from lakespark.transfer.target_paths import check_targets

CHUNK_BYTES = 4 << 20


def download_file(
    reference: Reference, path: str, file: str | os.PathLike[str], *, on_progress: OnProgress | None = None
) -> Transferred:
    """Download one object to a local file, over another if there is one. Its folder is made."""
    info = reference.object(path).stat()
    target = Path(file)
    check_targets(target.parent, [target.name])
    meter = Meter(1, info.size_bytes, on_progress)
    _download(reference, info, target, meter)
    return meter.transferred


def download_folder(
    reference: Reference,
    prefix: str,
    folder: str | os.PathLike[str],
    *,
    parallelism: int = DEFAULT_PARALLELISM,
    on_progress: OnProgress | None = None,
) -> Transferred:
    """Download every object below ``prefix`` (a folder of the ref; "" for all) to its relative path in a folder.

    What is read is the ref as it was listed at the start, whatever is written to a branch meanwhile. Raises
    UnsafeDownloadError that names every path that would leave the folder, or that cannot be a file beside
    another, before anything is written; ObjectNotFoundException if there is nothing below the prefix.
    """
    prefix = prefix if not prefix or prefix.endswith("/") else prefix + "/"
    found = [info for info in reference.objects(prefix=prefix) if isinstance(info, ObjectInfo)]
    if not found:
        raise ObjectNotFoundException(f"no objects below lakefs://{reference.repo_id}/{reference.id}/{prefix}")
    root = Path(folder)
    check_targets(root, [info.path[len(prefix) :] for info in found])
    meter = Meter(len(found), sum(info.size_bytes for info in found), on_progress)

    def download(info: ObjectInfo) -> None:
        _download(reference, info, root / info.path[len(prefix) :], meter)

    for_each(found, download, parallelism=parallelism)
    return meter.transferred


def _download(reference: Reference, info: ObjectInfo, target: Path, meter: Meter) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.parent / f".lakespark-{secrets.token_hex(8)}.part"
    try:
        with reference.object(info.path).reader(info=info) as source, part.open("xb") as sink:
            while chunk := source.read(CHUNK_BYTES):
                sink.write(chunk)
                meter.add(size_bytes=len(chunk))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    meter.add(files=1)
