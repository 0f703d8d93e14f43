"""Objects of S3 whose keys obstore cannot hold, through boto3: foreign ones, to list and to read.

Such keys have an empty part (``a//b``, ``/a``, ``a/``), a part ``.`` or ``..``, or a control character. obstore fails
on some of them, and takes others for another key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from lakespark.errors import StorageError
from lakespark.storage.location import Location
from lakespark.storage.store import StoredFile

_ODD = re.compile(r"(^|/)(/|\.\.?(/|$))|/$|[\x00-\x1f\x7f]")
_ABSENT = {"404", "NoSuchKey", "NotFound"}
_NAMES = {
    "endpoint": "endpoint_url",
    "endpoint_url": "endpoint_url",
    "region": "region_name",
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "token": "aws_session_token",
}
"""obstore's names of options, without ``aws_`` at their start, and boto3's."""


def is_odd(key: str) -> bool:
    """Whether obstore cannot hold a key as it is."""
    return bool(_ODD.search(key))


def has_boto3() -> bool:
    """Whether such keys can be read here at all."""
    return find_spec("boto3") is not None


class S3Keys:
    """What a Store over S3 can read, for any key below its location."""

    def __init__(self, location: Location, options: Mapping[str, Any]) -> None:
        self._location = location
        self._options = options
        self._start = f"{location.path}/" if location.path else ""

    def get(self, key: str) -> bytes | None:
        """The whole object, or None if there is none."""
        found = self._call("read", key, "get_object")
        return None if found is None else bytes(found["Body"].read())

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Bytes ``start`` up to ``end``, fewer at its end. Raises FileNotFoundError."""
        known = self.stat(key)
        if known is None:
            raise FileNotFoundError(f"{self._location.child(key)} is not there")
        end = min(end, known.size_bytes)
        if start >= end:
            return b""
        found = self._call("read", key, "get_object", Range=f"bytes={start}-{end - 1}")
        return b"" if found is None else bytes(found["Body"].read())

    def stat(self, key: str) -> StoredFile | None:
        """One object as a listing shows it, or None if there is none."""
        found = self._call("look up", key, "head_object")
        if found is None:
            return None
        return StoredFile(key, found["ContentLength"], found["LastModified"].timestamp(), found.get("ETag"))

    def list(self, prefix: str) -> Iterator[StoredFile]:
        """Every object below the folder ``prefix``, by the key that it has."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - optional

        below = f"{self._start}{prefix}/" if prefix else self._start
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._location.bucket, Prefix=below)
        try:
            for page in pages:
                for found in page.get("Contents", ()):
                    key = found["Key"][len(self._start) :]
                    yield StoredFile(key, found["Size"], found["LastModified"].timestamp(), found.get("ETag"))
        except (BotoCoreError, ClientError) as error:
            raise StorageError(f"cannot list {self._location.child(prefix)}: {error}") from error

    def _call(self, action: str, key: str, method: str, **how: str) -> dict[str, Any] | None:
        """What a method of the client answers, or None for an absent object. Raises StorageError."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - optional

        try:
            found: dict[str, Any] = getattr(self._client, method)(
                Bucket=self._location.bucket, Key=self._start + key, **how
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _ABSENT:
                return None
            raise StorageError(f"cannot {action} {self._location.child(key)}: {error}") from error
        except BotoCoreError as error:
            raise StorageError(f"cannot {action} {self._location.child(key)}: {error}") from error
        return found

    @cached_property
    def _client(self) -> Any:
        if not has_boto3():
            raise StorageError(f"keys such as those in {self._location} need boto3: install lakespark[s3]")
        import boto3  # noqa: PLC0415 - optional, and slow to import
        from botocore import UNSIGNED  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415

        options = _flat(self._options)
        named = {_NAMES[name]: value for name, value in options.items() if name in _NAMES}
        is_unsigned = str(options.get("skip_signature", "")).lower() == "true"
        config = Config(signature_version=UNSIGNED) if is_unsigned else None
        return boto3.session.Session().client("s3", config=config, **named)


def _flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without levels and prefixes; a callable is asked for its credentials."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            found |= _flat(value)
        elif callable(value):
            found |= _flat(value())
        else:
            found[name.lower().removeprefix("aws_")] = value
    return found
