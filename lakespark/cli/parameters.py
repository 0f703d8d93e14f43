"""The arguments and options that verbs share, and how their texts become values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, Protocol

import click

from lakespark import uri
from lakespark.cli.verbs import Decorated
from lakespark.errors import BadRequestException
from lakespark.uri import LakeUri

MAX_PARALLELISM = 64
_FORMS: dict[Callable[[str], LakeUri], str] = {
    uri.parse_repository: "lakefs://REPO",
    uri.parse_ref: "lakefs://REPO/REF",
    uri.parse_path: "lakefs://REPO/REF/PATH",
}


class Decorator(Protocol):
    """What puts an argument or an option on a function."""

    def __call__(self, command: Decorated, /) -> Decorated:
        """The same function, with one more."""


def repository_uri(name: str = "uri") -> Decorator:
    """An argument that is the URI of a repository."""
    return _uri(name, uri.parse_repository)


def ref_uri(name: str = "uri", *, required: bool = True) -> Decorator:
    """An argument that is the URI of a ref."""
    return _uri(name, uri.parse_ref, required=required)


def ref_uris(name: str) -> Decorator:
    """An argument that is the URIs of one or more refs."""
    return click.argument(
        name,
        nargs=-1,
        required=True,
        metavar=f"{_FORMS[uri.parse_ref]}...",
        callback=_given(lambda texts: [uri.parse_ref(text) for text in texts]),
    )


def path_uri(name: str = "uri") -> Decorator:
    """An argument that is the URI of a path at a ref, the empty one included."""
    return _uri(name, uri.parse_path)


def path_uri_option(name: str, variable: str, help_text: str) -> Decorator:
    """A required option that is the URI of a path at a ref, the empty one included."""
    form = _FORMS[uri.parse_path]
    return click.option(name, variable, required=True, metavar=form, callback=_given(uri.parse_path), help=help_text)


def moment_option(name: str, help_text: str) -> Decorator:
    """An option that is a date, and arrives as unix seconds."""
    return click.option(name, callback=_given(_seconds), metavar="DATE", help=help_text)


yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
parallelism_option = click.option(
    "-p",
    "--parallelism",
    type=click.IntRange(1, MAX_PARALLELISM),
    default=8,
    show_default=True,
    help="How many files to transfer at once.",
)
progress_option = click.option("--no-progress", is_flag=True, help="Draw no progress bar.")
idempotency_key_option = click.option(
    "--idempotency-key", metavar="KEY", help="Your name for this step: repeated with it, nothing is done again."
)


def metadata_option(command: Decorated) -> Decorated:
    """``--meta``, which arrives as the dict ``metadata``."""
    return click.option(
        "--meta",
        "metadata",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_given(lambda texts: dict(_pair(text, text.partition("=")) for text in texts)),
        help="Metadata; repeatable.",
    )(command)


def listing_options(command: Decorated) -> Decorated:
    """Options of listings of names: amount, after, prefix."""
    command = click.option("--amount", type=click.IntRange(min=1), help="At most so many.")(command)
    command = click.option("--after", help="Only names after this one.")(command)
    return click.option("--prefix", help="Only names that start so.")(command)


def committing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of all that makes a commit, but its message. They arrive as one dict ``how`` of API arguments."""

    @wraps(command)
    def gathered(*args: Any, date: int | None, seconds: int | None, **given: Any) -> Any:
        if date is not None and seconds is not None:
            raise BadRequestException("--date and --epoch-time-seconds exclude each other")
        how = {name: given.pop(name) for name in ("committer", "allow_empty")}
        how["metadata"] = given.pop("metadata") or None
        how["date"] = seconds if date is None else date
        return command(*args, how={**how, **given.pop("how", {})}, **given)

    options = (
        metadata_option,
        moment_option("--date", "Date of the commit (RFC 3339)."),
        click.option("--epoch-time-seconds", "seconds", type=int, metavar="SECONDS", help="The same in unix seconds."),
        click.option("--committer", metavar="NAME", help="Who the commit is by, if not the user."),
        click.option("--allow-empty", is_flag=True, help="Commit even if nothing has changed."),
    )
    for option in reversed(options):
        gathered = option(gathered)
    return gathered


def merging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of all that merges: how it commits, and who wins. They arrive as one dict ``how``."""

    @wraps(command)
    def gathered(
        *args: Any, strategy: str | None, resolutions: dict[str, str], how: dict[str, Any], **given: Any
    ) -> Any:
        return command(*args, how={**how, "strategy": strategy, "resolutions": resolutions or None}, **given)

    strategies = click.Choice(["source-wins", "dest-wins"])
    resolve = click.option(
        "--resolve",
        "resolutions",
        multiple=True,
        metavar="PATH=CHOICE",
        callback=_given(lambda texts: dict(_pair(text, text.rpartition("=")) for text in texts)),
        help="Decide one path: source, destination, base or deleted; repeatable.",
    )
    strategy = click.option("--strategy", type=strategies, help="Decide all conflicts for one side.")
    return strategy(resolve(committing_options(gathered)))


def confirm(question: str, *, is_agreed: bool) -> None:
    """Ask on stderr, unless it was agreed to already. Raises click.ClickException without a yes."""
    if is_agreed:
        return
    try:
        answer = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)  # the question's line ends here
        raise click.ClickException("there was no answer, nothing was changed; --yes goes on without one") from None
    if not answer:
        raise click.ClickException("not confirmed, nothing was changed")


def _uri(name: str, parse: Callable[[str], LakeUri], *, required: bool = True) -> Decorator:
    metavar = _FORMS[parse] if required else f"[{_FORMS[parse]}]"
    return click.argument(name, required=required, metavar=metavar, callback=_given(parse))


def _given(convert: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that converts what was given. Errors are lakespark's own, so that they read the same everywhere."""

    def callback(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        return None if value is None else convert(value)

    return callback


def _pair(text: str, parts: tuple[str, str, str]) -> tuple[str, str]:
    key, sign, value = parts
    if not sign or not key:
        raise BadRequestException(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def _seconds(text: str) -> int:
    """From a date with or without time and zone (local time without one), or unix seconds."""
    if text.isdecimal():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        raise BadRequestException(
            f"{text!r} is no date such as 2026-01-31T12:00:00Z, and no number of unix seconds"
        ) from None
