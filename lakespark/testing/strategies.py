"""Hypothesis strategies for what a repository holds: paths, names, contents, metadata, ref expressions."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from lakespark.names import MAX_PATH_BYTES, MAX_REF_BYTES
from lakespark.testing.trees import Entry

AWKWARD_PATHS = (
    "a",
    "a/b",
    "a//b",
    "a/",
    "/x",
    "//",
    ".",
    "../up",
    "dir/",
    "line\nfeed",
    "tab\tand\rreturn",
    "'single' and \"double\"",
    "back\\slash",
    "{braces} {{twice}}",
    "100%/%41",
    "semi;colon -- comment",
    "*?[glob]",
    "with space ",
    "\x7f\x01",
    "é",
    "e\u0301",
    "🦆/emoji",
    "\ue000",
    "\uffff",
    "\U0010ffff",
    "a\U0010ffff",
    "x" * MAX_PATH_BYTES,
    "🦆" * (MAX_PATH_BYTES // 4),
)
"""Every one a legal key of an object store, and trouble for somebody."""

_TEXT = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
_REF_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789_-.:"


def paths() -> st.SearchStrategy[str]:
    """Legal object paths: short ones in few folders, so that they meet, and awkward ones."""
    folders = st.lists(st.sampled_from(["a", "b", "", "é", "🦆"]), max_size=3).map(lambda names: "/".join([*names, ""]))
    in_folders = st.builds(str.__add__, folders, st.text("ab01", min_size=1, max_size=2))
    texts = st.text(_TEXT, min_size=1, max_size=12)
    return st.one_of(in_folders, st.sampled_from(AWKWARD_PATHS), texts)


def prefixes_of(known: Sequence[str]) -> st.SearchStrategy[str]:
    """Starts of known paths, from nothing to the whole path."""
    return st.sampled_from(known).flatmap(lambda path: st.integers(0, len(path)).map(lambda end: path[:end]))


def ref_names() -> st.SearchStrategy[str]:
    """Legal names of branches and tags."""
    texts = st.text(_REF_ALPHABET, min_size=1, max_size=20) | st.just("n" * MAX_REF_BYTES)
    return texts.filter(lambda name: not (name.startswith(".") or ".." in name or name.endswith(".lock")))


def ref_expressions(names: Sequence[str]) -> st.SearchStrategy[str]:
    """A name with up to three steps of ``~N`` and ``^N``, or with ``@``."""
    step = st.builds(str.__add__, st.sampled_from("~^"), st.sampled_from(["", "0", "1", "2", "3"]))
    suffix = st.lists(step, max_size=3).map("".join) | st.just("@")
    return st.builds(str.__add__, st.sampled_from(names), suffix)


def contents() -> st.SearchStrategy[bytes]:
    """Contents of objects: few and small, so that different paths often hold equal ones."""
    return st.sampled_from([b"", b"a", b"b", b"\0\xff", b"longer\n" * 20]) | st.binary(max_size=8)


def metadata() -> st.SearchStrategy[dict[str, str]]:
    """User metadata; mostly none."""
    text = st.text(_TEXT, max_size=4)
    return st.just({}) | st.dictionaries(text, text, max_size=3)


def entries() -> st.SearchStrategy[Entry]:
    """Entries that nothing stands behind."""
    return st.builds(
        Entry,
        physical_address=st.integers(0, 9).map("data/somewhere/{}".format),
        size_bytes=st.sampled_from([0, 1, 10, 2**40]),
        checksum=st.sampled_from(["d41d8cd98f00b204e9800998ecf8427e", "etag:x", "é:🦆"]),
        content_type=st.sampled_from(["application/octet-stream", "text/plain; charset=utf-8"]),
        metadata=metadata().map(lambda pairs: tuple(sorted(pairs.items()))),
    )
