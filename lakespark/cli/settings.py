"""Which lake, and as whom: from options, environment and configuration file, in this order. Stores: from the file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lakespark.errors import BadRequestException

CONFIGURATION = "~/.lakespark.toml"
LAKE_VARIABLE = "LAKESPARK_LAKE"
USER_VARIABLE = "LAKESPARK_USER"
TRACEBACK_VARIABLE = "LAKESPARK_TRACEBACK"
_KEYS = ("lake", "user")
_STORAGE = "storage"


class Settings(NamedTuple):
    """Location of the lake, who stands behind what is written, and the options of the lake's stores."""

    lake: str
    user: str
    storage: Mapping[str, Any]


def find_settings(
    lake: str | None, user: str | None, configuration: str | None, environment: Mapping[str, str]
) -> Settings:
    """Settings from the options given, completed. Raises BadRequestException if no lake is named anywhere."""
    configured = _read(configuration)
    storage = configured.pop(_STORAGE, {})
    lake = lake or environment.get(LAKE_VARIABLE) or configured.get("lake")
    if not lake:
        raise BadRequestException(
            f"no lake: name one by --lake, by the environment variable {LAKE_VARIABLE}, "
            f'or by a line such as lake = "s3://bucket/lake" in {configuration or CONFIGURATION}'
        )
    return Settings(lake, user or environment.get(USER_VARIABLE) or configured.get("user") or _login(), storage)


def _read(configuration: str | None) -> dict[str, Any]:
    file = Path(configuration or CONFIGURATION).expanduser()
    if not file.is_file():
        if configuration:
            raise BadRequestException(f"no configuration file at {configuration}")
        return {}
    import tomllib

    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRequestException(f"configuration file {file} is not TOML: {error}") from None
    for key, value in values.items():
        if key == _STORAGE and isinstance(value, dict):
            continue
        if key not in _KEYS or not isinstance(value, str):
            raise BadRequestException(
                f"configuration file {file}: {key!r} is not a text named {' or '.join(_KEYS)}, or [{_STORAGE}]"
            )
    return _absolute(values, file.parent)


def _absolute(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A relative folder is meant from the file that names it, wherever the command runs."""
    lake = values.get("lake")
    if lake and "://" not in lake:
        return {**values, "lake": os.fspath(folder.absolute() / Path(lake).expanduser())}
    return values


def _login() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "anonymous"
