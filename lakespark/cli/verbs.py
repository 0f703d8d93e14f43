"""The commands' own kind: global options stand before or after the verb, and have a section of their own in help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lakespark.cli.session import Session

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class GlobalOption(click.Option):
    """An option that every verb takes; the one that stands last counts."""


def _remember(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value is not None and option.name is not None:
        setattr(context.ensure_object(Session), option.name, value)


def _global_options() -> list[click.Parameter]:
    def option(name: str, text: str, **settings: Any) -> GlobalOption:
        settings = {"expose_value": False, "default": None, "callback": _remember, "is_eager": True, **settings}
        return GlobalOption([name], help=text, **settings)

    return [
        option("--lake", "Location of the lake: a folder or a URL.", metavar="LOCATION"),
        option("--user", "Who stands behind what is written.", metavar="NAME"),
        option("--config", "Configuration file, instead of ~/.lakespark.toml.", metavar="FILE"),
        option("--json", "Print data and errors as JSON.", is_flag=True, flag_value=True),
    ]


def _format_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    records: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and not isinstance(parameter, click.Argument):
            records[isinstance(parameter, GlobalOption)].append(record)
    for is_global, title in ((False, "Options"), (True, "Global options, before or after the verb")):
        with formatter.section(title):
            formatter.write_dl(records[is_global])


class Verb(click.Command):
    """A command with the global options."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += _global_options()

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Own options, then the global ones."""
        _format_options(self, context, formatter)


class Verbs(click.Group):
    """A group of verbs, or of groups of them."""

    command_class = Verb
    group_class = type

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{"no_args_is_help": False, **settings})
        self.params += _global_options()

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Without a verb, help is the answer to a mistake."""
        if not args and not context.resilient_parsing:
            click.echo(context.get_help(), err=True)
            context.exit(2)
        return super().parse_args(context, args)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Own options, the global ones, then the verbs."""
        _format_options(self, context, formatter)
        self.format_commands(context, formatter)
