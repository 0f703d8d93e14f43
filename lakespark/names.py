"""What may be called what: repositories, branches, tags, object paths and prefixes; and what is text at all."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakespark.errors import BadRequestException, InvalidNameError, InvalidPathError

MAX_PATH_BYTES = 1024
MAX_REF_BYTES = 255

_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_REF = re.compile(r"[A-Za-z0-9_\-.:]+")
_COMMIT_ID = re.compile(r"[0-9a-f]{64}")
_FIRST_SURROGATE, _AFTER_SURROGATES = 0xD800, 0xE000
_LAST_CODE_POINT = "\U0010ffff"


def check_repository(name: str) -> str:
    """The name itself. Raises InvalidNameError."""
    if not isinstance(name, str) or not _REPOSITORY.fullmatch(name):
        raise InvalidNameError(
            f"invalid repository name {name!r}: use 3 to 63 lower-case letters, digits and '-', "
            "starting with a letter or digit"
        )
    return name


def check_ref(name: str, kind: str = "branch") -> str:
    """The name of a branch or tag itself. Raises InvalidNameError saying which rule it breaks."""
    problem = _ref_problem(name)
    if problem:
        raise InvalidNameError(f"invalid {kind} name {name!r}: {problem}")
    return name


def _ref_problem(name: str) -> str | None:  # noqa: PLR0911 - one return a rule
    if not isinstance(name, str) or not name:
        return "it is empty"
    if not _REF.fullmatch(name):
        return "use ASCII letters, digits and '_', '-', '.', ':'"
    if len(name) > MAX_REF_BYTES:
        return f"it is longer than {MAX_REF_BYTES} bytes"
    if name.startswith("."):
        return "it starts with '.'"
    if ".." in name:
        return "it holds '..'"
    if name.endswith(".lock"):
        return "it ends with '.lock'"
    if is_commit_id(name):
        return "it has the form of a commit id"
    return None


def is_commit_id(text: str) -> bool:
    """Whether the text has the form of a full commit id (64 lower-case hex digits)."""
    return bool(_COMMIT_ID.fullmatch(text))


def check_path(path: str) -> str:
    """The object path itself. Raises InvalidPathError saying which rule it breaks."""
    if not isinstance(path, str):
        raise InvalidPathError(f"invalid path {path!r}: a path is a str, not {type(path).__name__}")
    if not path:
        raise InvalidPathError("invalid path '': it is empty")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise InvalidPathError(f"invalid path {path!r}: it cannot be written as UTF-8") from None
    if size > MAX_PATH_BYTES:
        raise InvalidPathError(
            f"invalid path {path[:60]!r}...: {size} bytes long, at most {MAX_PATH_BYTES} are allowed"
        )
    if "\0" in path:
        raise InvalidPathError(f"invalid path {path!r}: it holds a NUL character")
    return path


def check_text(text: str, what: str) -> str:
    """The text itself. Raises BadRequestException that calls it ``what`` if it is no str, or cannot be UTF-8."""
    if not isinstance(text, str):
        raise BadRequestException(f"{what} is a str, not {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequestException(f"{what} {text!r} cannot be written as UTF-8") from None
    return text


def check_texts(metadata: Mapping[str, str] | None, what: str) -> dict[str, str]:
    """Metadata as a dict of its own. Raises BadRequestException unless it is str to str."""
    for key, value in (metadata or {}).items():
        check_text(key, f"a key of {what}")
        check_text(value, f"the value of {key!r} in {what}")
    return dict(metadata or {})


def prefix_end(prefix: str) -> str | None:
    """The smallest string above every string that starts with ``prefix``; None if there is none.

    Strings compare by code point, which is the order of their UTF-8 bytes.
    """
    stem = prefix.rstrip(_LAST_CODE_POINT)
    if not stem:
        return None
    last = ord(stem[-1]) + 1
    return stem[:-1] + chr(_AFTER_SURROGATES if last == _FIRST_SURROGATE else last)
