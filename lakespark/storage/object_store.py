"""S3, GCS, Azure and memory, through obstore: requests are repeated here, and failures get their meaning."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeVar

import obstore
from obstore import exceptions

from lakespark.errors import (
    BadRequestException,
    StorageError,
    StoreRefusedError,
    StoreUnavailableError,
    WrongEndpointError,
)
from lakespark.storage.backends import credentials_for, open_backend
from lakespark.storage.credentials import Credentials, provider_failed
from lakespark.storage.failures import Answer, failure
from lakespark.storage.location import Location
from lakespark.storage.options import StorageOptions
from lakespark.storage.retries import Retries
from lakespark.storage.s3_keys import S3Keys, has_boto3, is_odd
from lakespark.storage.store import PresignedUrl, StoredFile, Writer, check_presigned_seconds, plain_etag

PART_BYTES = 16 << 20
"""Streams are cut into parts of so many bytes. S3 takes 10,000 parts: 156 GiB an object."""
_PARTS_AT_ONCE = 4
_OUT_OF_RANGE = 416
_AZURE = ("az", "abfss")
_NEEDS_ESCAPES = re.compile(r"[^A-Za-z0-9_.~/=-]")
"""What stands escaped in a URL: Azure wants the signature of the name without escapes, obstore signs it with them."""
Found = TypeVar("Found")


class ObjectStore:
    """A Store over obstore."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self.location = location
        self._options = options
        self._prefix = f"{location.path}/" if location.scheme == "memory" and location.path else ""
        self._is_reached = False

    def __repr__(self) -> str:
        return f"ObjectStore({str(self.location)!r})"

    # -- reading -------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        if self._is_odd(key):
            return self._odd_keys.get(key)
        try:
            return self._request("read", key, lambda store: bytes(obstore.get(store, self._path(key)).bytes()))
        except FileNotFoundError:
            return None

    def get_range(self, key: str, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        if self._is_odd(key):
            return self._odd_keys.get_range(key, start, end)

        def read(store: Any) -> bytes:
            try:
                return bytes(obstore.get_range(store, self._path(key), start=start, end=end))
            except exceptions.BaseError as error:
                may_be_past_end = Answer.of(error).status in (_OUT_OF_RANGE, 0)  # 0: found out by obstore itself
                if may_be_past_end and start >= obstore.head(store, self._path(key))["size"]:
                    return b""
                raise

        return self._request("read", key, read)

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredFile]:
        retries = Retries(self._options.retry_seconds)
        while True:
            offset = None if after is None else self._prefix + after
            try:
                for batch in obstore.list(self._backend, self._prefix + prefix, offset=offset):
                    self._is_reached = True
                    for meta in batch:
                        after = meta["path"][len(self._prefix) :]
                        yield _stored_file(after, meta)
            except (exceptions.BaseError, FileNotFoundError) as error:
                self._repeat_or_raise(self.problem("list", prefix, error), Answer.of(error), retries)
            else:
                return

    def size(self, key: str) -> int | None:
        found = self.stat(key)
        return None if found is None else found.size_bytes

    def stat(self, key: str) -> StoredFile | None:
        if self._is_odd(key):
            return self._odd_keys.stat(key)

        def look_up(store: Any) -> StoredFile:
            try:
                return _stored_file(key, obstore.head(store, self._path(key)))
            except exceptions.BaseError as error:
                if Answer.of(error).is_reasonless:
                    obstore.get_range(store, self._path(key), start=0, end=1)  # whose refusal has a reason
                raise

        try:
            return self._request("look up", key, look_up)
        except FileNotFoundError:
            return None

    def list_exactly(self, prefix: str) -> Iterator[StoredFile]:
        """As ``list``, by the very keys that anybody may have given to objects of S3, if boto3 is there."""
        if self.location.scheme == "s3" and has_boto3():
            return self._odd_keys.list(prefix)
        return self.list(prefix)

    def presign(self, key: str, seconds: int) -> PresignedUrl:
        check_presigned_seconds(seconds)
        if self.location.scheme == "memory":
            raise BadRequestException(f"no URL can be made for {self.location.child(key)}: only this process sees it")
        if self.location.scheme in _AZURE and _NEEDS_ESCAPES.search(f"{self.location.path}/{key}"):
            raise BadRequestException(
                f"no URL can be made for {self.location.child(key)}: obstore signs only plain ASCII names in Azure"
            )
        expires = int(time.time()) + seconds
        if self._is_odd(key):
            url = self._odd_keys.presign(key, seconds)
        else:
            url = self._request(
                "sign", key, lambda store: str(obstore.sign(store, "GET", key, timedelta(seconds=seconds)))
            )
        earliest = None if self._credentials is None else self._credentials.expires_at
        return PresignedUrl(url, expires if earliest is None else min(expires, int(earliest.timestamp())))

    # -- writing -------------------------------------------------------------------------------------------

    def put(self, key: str, body: bytes) -> None:
        def write(store: Any) -> None:
            if len(body) > PART_BYTES:
                obstore.put(self._patient_backend, self._path(key), body, chunk_size=PART_BYTES)
            else:
                obstore.put(store, self._path(key), body, use_multipart=False)

        self._change("write", key, write)

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """As the protocol says. A response that was lost is settled: what stands there is compared with ``body``."""
        retries = Retries(self._options.retry_seconds)

        def create(store: Any) -> bool:
            try:
                obstore.put(store, self._path(key), body, mode="create", use_multipart=False)
            except exceptions.AlreadyExistsError as error:
                if isinstance(failure("", Answer.of(error)), StoreUnavailableError):
                    raise  # another request for the key is under way
                return retries.is_unsure and self.get(key) == body
            return True

        return self._change("write", key, create, retries, is_conditional=True)

    def delete(self, key: str) -> None:
        try:
            self._request("delete", key, lambda store: obstore.delete(store, self._path(key)))
        except FileNotFoundError:
            return

    def open_writer(self, key: str) -> Writer:
        try:
            stream = obstore.open_writer(
                self._patient_backend, self._path(key), buffer_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )
        except exceptions.BaseError as error:
            raise self.problem("write", key, error) from None
        return _StreamWriter(self, key, stream)

    # -- parts ---------------------------------------------------------------------------------------------

    def _change(
        self,
        action: str,
        key: str,
        act: Callable[[Any], Found],
        retries: Retries | None = None,
        *,
        is_conditional: bool = False,
    ) -> Found:
        """A request to which "not found" means that there is no bucket."""
        try:
            return self._request(action, key, act, retries, is_conditional=is_conditional)
        except FileNotFoundError as error:
            raise self.problem(action, key, error) from None

    def _request(
        self,
        action: str,
        key: str,
        act: Callable[[Any], Found],
        retries: Retries | None = None,
        *,
        is_conditional: bool = False,
    ) -> Found:
        """What a request answers, repeated while that may help. Raises StorageError, and FileNotFoundError as it is."""
        retries = retries or Retries(self._options.retry_seconds)
        while True:
            try:
                found = act(self._backend)
            except StorageError:
                raise
            except (exceptions.BaseError, OSError) as error:
                answer = Answer.of(error)
                problem = self.problem(action, key, error, is_conditional=is_conditional)
                if isinstance(error, FileNotFoundError) and not answer.code_is_known:
                    self._is_reached = True
                    raise
            else:
                self._is_reached = True
                return found
            self._repeat_or_raise(problem, answer, retries)

    def _repeat_or_raise(self, problem: StorageError, answer: Answer, retries: Retries) -> None:
        """Return after a pause if the request is worth another try; else raise the problem."""
        self._is_reached = self._is_reached or answer.status > 0
        if retries.is_unsure and isinstance(problem, StoreRefusedError):
            problem = StoreUnavailableError(f"{problem}. An earlier try may have taken effect")
        is_renewable = self._credentials is not None and self._credentials.is_renewable
        if answer.is_expired and is_renewable and not retries.is_renewed:
            retries.is_renewed = True
            self.__dict__.pop("_backend", None)  # with it obstore forgets the credentials that it has
            return
        is_lost = isinstance(problem, WrongEndpointError) and answer.status == 0 and self._is_reached
        if not (isinstance(problem, StoreUnavailableError) or is_lost) or not retries.wait():
            raise problem from (self._credentials.failure if self._credentials is not None else None)
        retries.is_unsure = retries.is_unsure or not is_lost

    def problem(self, action: str, key: str, error: Exception, *, is_conditional: bool = False) -> StorageError:
        """The error of a failed request."""
        provider = None if self._credentials is None else self._credentials.failure
        if provider is not None and isinstance(error, exceptions.UnauthenticatedError):
            return provider_failed(provider)
        place = self.location.child(key) if key else self.location
        answer = Answer.of(error)
        answer = answer._replace(text=self._options.without_secrets(answer.text))
        return failure(f"cannot {action} {place}", answer, is_conditional=is_conditional)

    def _path(self, key: str) -> str:
        """A key as obstore takes it. Raises BadRequestException for one that it would take for another."""
        if "\\" in key and self.location.scheme in _AZURE:
            raise BadRequestException(
                f"{self.location.child(key)} is out of reach: a backslash would become a slash there"
            )
        return self._prefix + key

    def _is_odd(self, key: str) -> bool:
        return self.location.scheme == "s3" and is_odd(key)

    @cached_property
    def _credentials(self) -> Credentials | None:
        return credentials_for(self.location, self._options)

    @cached_property
    def _odd_keys(self) -> S3Keys:
        return S3Keys(self.location, self._options, self._credentials)

    @cached_property
    def _backend(self) -> Any:
        """For single requests, which are repeated here."""
        return self._open(is_patient=False)

    @cached_property
    def _patient_backend(self) -> Any:
        """For streams, whose requests obstore repeats itself."""
        return self._open(is_patient=True)

    def _open(self, *, is_patient: bool) -> Any:
        try:
            return open_backend(self.location, self._options, self._credentials, is_patient=is_patient)
        except (exceptions.BaseError, ValueError) as error:
            if isinstance(error, BadRequestException):
                raise
            raise self.problem("open", "", error) from None


def _stored_file(key: str, meta: Any) -> StoredFile:
    return StoredFile(key, meta["size"], meta["last_modified"].timestamp(), plain_etag(meta["e_tag"]))


class _StreamWriter:
    """obstore's buffered writer with lakespark's errors."""

    def __init__(self, store: ObjectStore, key: str, writer: Any) -> None:
        self._store, self._key, self._writer = store, key, writer

    def write(self, data: bytes) -> int:
        try:
            return int(self._writer.write(data))
        except (exceptions.BaseError, OSError) as error:
            raise self._store.problem("write", self._key, error) from None

    def discard(self) -> None:
        self._writer = None  # an upload that is not closed is never completed

    def close(self) -> None:
        try:
            self._writer.close()
        except (exceptions.BaseError, OSError) as error:
            raise self._store.problem("write", self._key, error) from None
