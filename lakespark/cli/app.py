"""The root of the command line: its verbs, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from lakespark import __version__
from lakespark.cli import (
    branch,
    branch_protect,
    commit,
    diff,
    exchange,
    exit_codes,
    fs,
    fsck,
    history,
    merge,
    op,
    repo,
    tag,
)
from lakespark.cli.session import Session
from lakespark.cli.settings import CONFIGURATION, LAKE_VARIABLE, TRACEBACK_VARIABLE, USER_VARIABLE
from lakespark.cli.verbs import Verbs
from lakespark.errors import BadRequestException, LakesparkError, NothingToMergeError

_EPILOG = f"""\b
Exit codes:
{chr(10).join(f"  {code}  {meaning}" for code, meaning in exit_codes.MEANINGS.items())}

\b
The lake is --lake, else the environment variable {LAKE_VARIABLE}, else "lake" in
the configuration file ({CONFIGURATION}, or --config). The user is --user, else
{USER_VARIABLE}, else "user" in that file, else the login name.
"""


class App(Verbs):
    """The root group. It ends the process with a documented code, whatever happens."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT002 - click's signature
        windows_expand_args: bool = True,  # noqa: FBT002
        **extra: Any,
    ) -> Any:
        """Run a command line and exit. Errors are one line on stderr, never a traceback."""
        given = list(sys.argv[1:] if args is None else args)
        session = Session()
        settings = {"standalone_mode": False, "windows_expand_args": windows_expand_args, "obj": session, **extra}
        try:
            code = super().main(args, prog_name, complete_var, **settings)
        except Exception as error:
            if os.environ.get(TRACEBACK_VARIABLE):
                raise
            session.json = session.json or "--json" in given  # a mistake may stand before the option
            code = _report(error, session)
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else exit_codes.DONE)
        return code

    def invoke(self, context: click.Context) -> Any:
        """Run the verb; what it printed has left the process when this returns."""
        result = super().invoke(context)
        sys.stdout.flush()
        return result


@click.group(
    cls=App, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def app() -> None:
    """Version control for data lakes: branches, commits, diffs and merges without a server.

    URIs have the form lakefs://repository/ref/path; a ref is a branch, a tag, a commit id or the start of
    one, followed by ~N or ^N for its ancestors, or by @ for a branch without what is uncommitted.
    """


_REFS = (repo.repo, branch.branch, branch_protect.branch_protect, tag.tag)
_CHANGES = (commit.commit, diff.diff, merge.merge, merge.cherry_pick)
_HISTORY = (history.log, history.show, history.find_merge_base, op.op)
_FILES = (fs.fs, exchange.import_data, exchange.export, fsck.fsck)
for _verb in (*_REFS, *_CHANGES, *_HISTORY, *_FILES):
    app.add_command(_verb)


def main() -> None:
    """Entry point of the process."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app.main(prog_name="lakespark")


def _report(error: Exception, session: Session) -> int:
    """Print what happened; the exit code."""
    named = _named(error)
    try:
        if isinstance(named, NothingToMergeError):
            session.output.done(f"already up to date: {named}", up_to_date=True)
        else:
            session.output.failed(named)
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads: the buffer must not be written once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exit_codes.exit_code(named)


def _named(error: Exception) -> Exception:
    """The error in words for a person: click's and the system's are put into lakespark's."""
    if isinstance(error, LakesparkError):
        return error
    if isinstance(error, click.UsageError):
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        return BadRequestException(error.format_message() + hint)
    if isinstance(error, click.ClickException):
        return LakesparkError(error.format_message())
    if isinstance(error, click.Abort):
        return LakesparkError("interrupted")
    if isinstance(error, OSError):
        place = f": {error.filename}" if error.filename else ""
        return LakesparkError(f"{error.strerror or error}{place}")
    kind = type(error).__name__
    return LakesparkError(f"unexpected {kind}: {error} (with {TRACEBACK_VARIABLE}=1 it shows where)")
