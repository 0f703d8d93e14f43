"""What a process of lakespark ends with."""

from __future__ import annotations

from lakespark.errors import BadRequestException, MergeConflictError, NothingToMergeError

DONE, FAILED, USAGE, CONFLICT = range(4)

MEANINGS = {
    DONE: "done, or already up to date",
    FAILED: "failed; the message says whether anything was changed",
    USAGE: "usage: a mistake in the command itself, in a name, a URI or a ref expression, or no lake",
    CONFLICT: "merge conflict; nothing was changed, the conflicts are printed",
}


def exit_code(error: BaseException) -> int:
    """The exit code that an error ends a process with."""
    if isinstance(error, NothingToMergeError):
        return DONE
    if isinstance(error, MergeConflictError):
        return CONFLICT
    return USAGE if isinstance(error, BadRequestException) else FAILED
