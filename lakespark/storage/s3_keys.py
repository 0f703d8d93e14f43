"""Objects of S3 whose keys obstore cannot hold, through boto3: foreign ones, to list and to read.

Such keys have an empty part (``a//b``, ``/a``, ``a/``), a part ``.`` or ``..``, or a control character. obstore fails
on some of them, and takes others for another key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from lakespark.errors import StorageError
from lakespark.storage.backends import CONNECT_SECONDS, s3_endpoint, s3_region
from lakespark.storage.credentials import Credentials
from lakespark.storage.failures import Answer, failure
from lakespark.storage.location import Location
from lakespark.storage.options import StorageOptions
from lakespark.storage.store import StoredFile, plain_etag

_ODD = re.compile(r"(^|/)(/|\.\.?(/|$))|/$|[\x00-\x1f\x7f]")
_ABSENT = {"404", "NoSuchKey", "NotFound"}


def is_odd(key: str) -> bool:
    """Whether obstore cannot hold a key as it is."""
    return bool(_ODD.search(key))


def has_boto3() -> bool:
    """Whether such keys can be read here at all."""
    return find_spec("boto3") is not None


class S3Keys:
    """What a Store over S3 can read, for any key below its location."""

    def __init__(self, location: Location, options: StorageOptions, credentials: Credentials | None) -> None:
        self._location = location
        self._options = options
        self._credentials = credentials
        self._opened: tuple[dict[str, Any], Any] | None = None
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
        return StoredFile(key, found["ContentLength"], found["LastModified"].timestamp(), plain_etag(found.get("ETag")))

    def list(self, prefix: str) -> Iterator[StoredFile]:
        """Every object below the folder ``prefix``, by the key that it has."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - optional

        below = f"{self._start}{prefix}/" if prefix else self._start
        pages = self._client().get_paginator("list_objects_v2").paginate(Bucket=self._location.bucket, Prefix=below)
        try:
            for page in pages:
                for found in page.get("Contents", ()):
                    key = found["Key"][len(self._start) :]
                    etag = plain_etag(found.get("ETag"))
                    yield StoredFile(key, found["Size"], found["LastModified"].timestamp(), etag)
        except (BotoCoreError, ClientError) as error:
            raise self._failed("list", prefix, error) from None

    def _call(self, action: str, key: str, method: str, **how: str) -> dict[str, Any] | None:
        """What a method of the client answers, or None for an absent object. Raises StorageError."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - optional

        try:
            found: dict[str, Any] = getattr(self._client(), method)(
                Bucket=self._location.bucket, Key=self._start + key, **how
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _ABSENT:
                return None
            raise self._failed(action, key, error) from None
        except BotoCoreError as error:
            raise self._failed(action, key, error) from None
        return found

    def presign(self, key: str, seconds: int) -> str:
        """A URL to read an object by."""
        named = {"Bucket": self._location.bucket, "Key": self._start + key}
        return str(self._client().generate_presigned_url("get_object", Params=named, ExpiresIn=seconds))

    def _failed(self, action: str, key: str, error: Any) -> StorageError:
        response = getattr(error, "response", None) or {}
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        text = self._options.without_secrets(f"{error}{_kind(error)}")
        answer = Answer(status, response.get("Error", {}).get("Code", ""), text)
        return failure(f"cannot {action} {self._location.child(key)}", answer)

    def _client(self) -> Any:
        """boto3's client, made again when the credentials are others."""
        if not has_boto3():
            raise StorageError(f"keys such as those in {self._location} need boto3: install lakespark[s3]")
        keys = self._keys()
        if self._opened is None or self._opened[0] != keys:
            self._opened = keys, self._open(keys)
        return self._opened[1]

    def _keys(self) -> dict[str, Any]:
        if self._credentials is None:
            return {}
        current = self._credentials.current()
        return {
            "aws_access_key_id": current["access_key_id"],
            "aws_secret_access_key": current["secret_access_key"],
            "aws_session_token": current.get("token"),
        }

    def _open(self, keys: dict[str, Any]) -> Any:
        import boto3  # noqa: PLC0415 - optional, and slow to import
        from botocore import UNSIGNED  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415

        options = self._options
        style = {None: "auto", True: "path", False: "virtual"}[options.path_style]
        config = Config(
            connect_timeout=min(CONNECT_SECONDS, options.timeout),
            read_timeout=options.timeout,
            retries={"mode": "standard", "max_attempts": 3},
            s3={"addressing_style": style},
            signature_version=UNSIGNED if options.anonymous else "s3v4",
        )
        region = s3_region(options, self._credentials)
        endpoint = s3_endpoint(options, self._credentials)
        return boto3.session.Session().client("s3", config=config, region_name=region, endpoint_url=endpoint, **keys)


def _kind(error: Exception) -> str:
    """What botocore's classes say, in the words of obstore's texts."""
    from botocore import exceptions  # noqa: PLC0415 - optional

    if isinstance(error, exceptions.EndpointConnectionError | exceptions.ConnectTimeoutError):
        return "; kind: Connect"
    if isinstance(error, exceptions.ReadTimeoutError):
        return "; kind: Timeout"
    return "; HTTP error" if isinstance(error, exceptions.HTTPClientError) else ""
