"""``fs``: objects in and out, listed, shown and removed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from lakespark.cli import text
from lakespark.cli.parameters import metadata_option, parallelism_option, path_uri, progress_option, repository_uri
from lakespark.cli.progress_bar import progress_bar
from lakespark.cli.session import Session
from lakespark.cli.verbs import Verbs
from lakespark.errors import BadRequestException, ObjectNotFoundException, UnsafeDownloadError
from lakespark.storage.store import LONGEST_PRESIGNED_SECONDS
from lakespark.uri import LakeUri

if TYPE_CHECKING:
    from lakespark.model import CommonPrefix, ObjectInfo
    from lakespark.transfer import Transferred

_CHUNK_BYTES = 1 << 20
_BATCH = 10_000
_LOCATION_COLUMNS = {"kind": "KIND", "name": "NAME", "path": "PATH", "uncommitted": "UNCOMMITTED"}


@click.group(cls=Verbs)
def fs() -> None:
    """Upload, download, list, show and remove objects."""


@fs.command()
@path_uri()
@click.option("-s", "--source", required=True, metavar="FILE", help="File or folder to upload; - is stdin.")
@click.option("-r", "--recursive", is_flag=True, help="Upload a folder: URI is the folder that it becomes.")
@click.option("--content-type", metavar="TYPE", help="MIME type of the contents.")
@metadata_option
@parallelism_option
@progress_option
@click.pass_obj
def upload(
    session: Session,
    /,
    *,
    uri: LakeUri,
    source: str,
    recursive: bool,
    parallelism: int,
    no_progress: bool,
    **kind: Any,
) -> None:
    """Upload a file to a path of a branch, or a folder. A URI that ends in / gets the file's name.

    The files of a folder become visible together, when all are uploaded.
    """
    if recursive:
        _upload_folder(session, uri, source, parallelism=parallelism, is_progress_wanted=not no_progress, **kind)
        return
    from lakespark.transfer import upload_file

    uri = _with_name(uri, source)
    body: str | IO[bytes] = sys.stdin.buffer if source == "-" else source
    with progress_bar("uploading", is_wanted=not no_progress) as on_progress:
        target = upload_file(session.branch(uri), body, uri.path or "", on_progress=on_progress, **kind)
    session.output.message(f"uploaded {text.printable(str(uri))}")
    _show(session, target.stat())


@fs.command()
@path_uri()
@click.argument("destination", required=False, default=".")
@click.option("-r", "--recursive", is_flag=True, help="Download every object below URI, as a folder.")
@parallelism_option
@progress_option
@click.pass_obj
def download(
    session: Session, /, *, uri: LakeUri, destination: str, recursive: bool, parallelism: int, no_progress: bool
) -> None:
    """Download an object to a file, or into a folder that is there; with -r a folder of objects.

    Nothing is written if one of the paths would leave DESTINATION or cannot be a file beside another.
    """
    from lakespark.transfer import download_file, download_folder

    reference = session.reference(uri)
    with progress_bar("downloading", is_wanted=not no_progress) as on_progress:
        if recursive:
            moved = download_folder(
                reference, uri.path or "", destination, parallelism=parallelism, on_progress=on_progress
            )
        else:
            destination = _local_file(uri.path or "", destination)
            moved = download_file(reference, uri.path or "", destination, on_progress=on_progress)
    _report(session, "downloaded", moved, uri, destination)


@fs.command()
@path_uri()
@click.pass_obj
def cat(session: Session, uri: LakeUri) -> None:
    """Print the contents of an object, as they are."""
    stdout = sys.stdout.buffer
    with session.reference(uri).object(uri.path or "").reader() as source:
        while chunk := source.read(_CHUNK_BYTES):
            stdout.write(chunk)
    stdout.flush()


@fs.command()
@path_uri()
@click.option("-r", "--recursive", is_flag=True, help="List every object, not folder by folder.")
@click.pass_obj
def ls(session: Session, uri: LakeUri, recursive: bool) -> None:
    """List what starts with a path: size, time and path of objects, folders at the next /."""
    found = session.reference(uri).objects(prefix=uri.path, delimiter=None if recursive else "/")
    session.output.each(found, _ls_line, _ls_value)


@fs.command()
@path_uri()
@click.option("--pre-sign", is_flag=True, help="Give a URL that any HTTP client can read it by, as the address.")
@click.pass_obj
def stat(session: Session, uri: LakeUri, *, pre_sign: bool) -> None:
    """Show what is known of an object."""
    _show(session, session.reference(uri).object(uri.path or "").stat(pre_sign=pre_sign))


@fs.command()
@path_uri()
@click.option(
    "--expires",
    "seconds",
    type=click.IntRange(1, LONGEST_PRESIGNED_SECONDS),
    default=900,
    show_default=True,
    metavar="SECONDS",
    help="How long the URL is good for.",
)
@click.pass_obj
def presign(session: Session, uri: LakeUri, *, seconds: int) -> None:
    """Print a URL that any HTTP client can read an object by."""
    signed = session.reference(uri).object(uri.path or "").presign(seconds)
    session.output.value({"url": signed.url, "expires": signed.expires}, signed.url)


@fs.command()
@repository_uri()
@click.argument("physical_address")
@click.pass_obj
def locate(session: Session, uri: LakeUri, physical_address: str) -> None:
    """Show which branches, tags and commits hold an object, and where.

    PHYSICAL_ADDRESS is a full URL, or relative to the storage namespace.
    """
    found = session.repository(uri).inspect().locate(physical_address).to_pylist()
    if not found:
        raise ObjectNotFoundException(f"no branch, tag or commit of {uri} holds {physical_address}")
    session.output.table(found, _LOCATION_COLUMNS)


@fs.command()
@path_uri()
@click.option("-r", "--recursive", is_flag=True, help="Remove every object below the path as well.")
@click.pass_obj
def rm(session: Session, uri: LakeUri, recursive: bool) -> None:
    """Remove an object from a branch; with -r the folder of that name too."""
    branch = session.branch(uri)
    if not recursive:
        branch.object(uri.path or "").delete()
        session.output.done(f"removed {text.printable(str(uri))}", removed=1)
        return
    paths = list(_paths_below(session, uri))
    if not paths:
        raise ObjectNotFoundException(f"no object at {uri} or below")
    for start in range(0, len(paths), _BATCH):
        branch.delete_objects(paths[start : start + _BATCH])
    session.output.done(f"removed {text.count(len(paths), 'object')} from {uri}", removed=len(paths))


def _upload_folder(
    session: Session, uri: LakeUri, source: str, *, parallelism: int, is_progress_wanted: bool, **kind: Any
) -> None:
    from lakespark.transfer import upload_folder

    branch = session.branch(uri)
    with progress_bar("uploading", is_wanted=is_progress_wanted) as on_progress:
        moved = upload_folder(branch, source, uri.path or "", parallelism=parallelism, on_progress=on_progress, **kind)
    _report(session, "uploaded", moved, uri, source)


def _paths_below(session: Session, uri: LakeUri) -> Iterator[str]:
    """The object of a path and those of the folder of that name; every object for no path."""
    path = uri.path or ""
    reference = session.reference(uri)
    if path and not path.endswith("/"):
        if reference.object(path).exists():
            yield path
        path += "/"
    yield from (found.path for found in reference.objects(prefix=path))


def _with_name(uri: LakeUri, source: str) -> LakeUri:
    if uri.path and not uri.path.endswith("/"):
        return uri
    if source == "-":
        raise BadRequestException(f"{uri} names no object: stdin has no name to add")
    return uri._replace(path=(uri.path or "") + Path(source).name)


def _local_file(path: str, destination: str) -> str:
    """Where one object goes: the destination, or a file of its last name in it."""
    folder = Path(destination)
    if not folder.is_dir() and not destination.endswith("/"):
        return destination
    from lakespark.transfer.target_paths import is_file_name

    name = path.rpartition("/")[2]
    if not is_file_name(name):
        raise UnsafeDownloadError(f"cannot download {path!r} into {destination}: name the file that it is to be")
    return str(folder / name)


def _report(session: Session, verb: str, moved: Transferred, uri: LakeUri, place: str) -> None:
    amount = f"{text.count(moved.files, 'file')}, {text.size(moved.size_bytes)}"
    way = f"from {place} to {uri}" if verb == "uploaded" else f"from {uri} to {place}"
    session.output.done(f"{verb} {amount} {text.printable(way)}", uri=str(uri), place=place, **moved._asdict())


def _show(session: Session, info: ObjectInfo) -> None:
    shown = {
        "path": info.path,
        "size": f"{info.size_bytes:,} bytes",
        "modified": text.when(info.mtime),
        "content type": info.content_type,
        "checksum": info.checksum,
        "physical address": info.physical_address,
        **({"address good until": text.when(info.physical_address_expiry)} if info.physical_address_expiry else {}),
        **info.metadata,
    }
    session.output.value(info._asdict(), text.record(shown))


def _ls_line(found: ObjectInfo | CommonPrefix) -> str:
    if len(found) == 1:
        return f"{'':>10}  {'':25}  {text.printable(found.path)}"
    info = found
    return f"{text.size(info.size_bytes):>10}  {text.when(info.mtime):25}  {text.printable(info.path)}"


def _ls_value(found: ObjectInfo | CommonPrefix) -> dict[str, object]:
    return {"path_type": "common_prefix" if len(found) == 1 else "object", **found._asdict()}
