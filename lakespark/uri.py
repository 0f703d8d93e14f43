"""``lakefs://<repository>/<ref>/<path>`` URIs."""

from __future__ import annotations

from typing import NamedTuple

from lakespark.errors import InvalidUriError
from lakespark.names import check_repository

SCHEME = "lakefs://"


class LakeUri(NamedTuple):
    """The parts of a URI; ``ref`` and ``path`` are None where the URI ends before them."""

    repository: str
    ref: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        parts = [part for part in (self.repository, self.ref, self.path) if part is not None]
        return SCHEME + "/".join(parts)


def parse(text: str) -> LakeUri:
    """Split a URI. Everything after the ref's slash is the path, as it stands.

    Raises InvalidUriError, or InvalidNameError for the repository's name.
    """
    if not text.startswith(SCHEME):
        raise InvalidUriError(f"invalid URI {text!r}: it must look like lakefs://repository/ref/path")
    repository, slash, rest = text[len(SCHEME) :].partition("/")
    if not repository:
        raise InvalidUriError(f"invalid URI {text!r}: it names no repository")
    check_repository(repository)
    if not slash or not rest:
        return LakeUri(repository)
    ref, slash, path = rest.partition("/")
    if not ref:
        raise InvalidUriError(f"invalid URI {text!r}: it names no ref")
    return LakeUri(repository, ref, path if slash else None)


def parse_ref(text: str) -> LakeUri:
    """A URI that must name a ref and no path."""
    uri = parse(text)
    if uri.ref is None or uri.path:
        raise InvalidUriError(f"invalid URI {text!r}: expected lakefs://repository/ref")
    return LakeUri(uri.repository, uri.ref)


def parse_repository(text: str) -> LakeUri:
    """A URI that must name a repository alone."""
    uri = parse(text)
    if uri.ref is not None:
        raise InvalidUriError(f"invalid URI {text!r}: expected lakefs://repository")
    return uri


def parse_path(text: str) -> LakeUri:
    """A URI that must name a ref; an absent path is the empty prefix."""
    uri = parse(text)
    if uri.ref is None:
        raise InvalidUriError(f"invalid URI {text!r}: expected lakefs://repository/ref/path")
    return uri._replace(path=uri.path or "")
