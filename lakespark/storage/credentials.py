"""Who asks for credentials, when: the caller's provider, keys as given, or what an AWS user has, found by botocore."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from lakespark.errors import CredentialsError
from lakespark.storage.options import CredentialProvider, StorageOptions

_ASK_BOTOCORE_AGAIN = timedelta(minutes=10)
"""botocore renews credentials from 15, and waits for new ones from 10 minutes before they expire."""
_MARGIN = timedelta(minutes=5)
AWS_KEYS = ("access_key_id", "secret_access_key")
_SESSION_NAME = "lakespark"


class Credentials:
    """A provider in the form that obstore calls, which remembers its latest answer and failure.

    ``region`` and ``endpoint`` are what the source of the credentials says of them, for callers that do not.
    """

    def __init__(self, provider: CredentialProvider, needed: Collection[str] = AWS_KEYS) -> None:
        self._provider = provider
        self._needed = (*needed, "expires_at")
        self._lock = threading.Lock()
        self._latest: Mapping[str, Any] | None = None
        self.failure: Exception | None = None

    @property
    def region(self) -> str | None:
        """The region of the user's AWS configuration."""
        return getattr(self._provider, "region", None)

    @property
    def endpoint(self) -> str | None:
        """The endpoint of the user's AWS configuration."""
        return getattr(self._provider, "endpoint", None)

    @property
    def is_renewable(self) -> bool:
        """Whether asking again may give others."""
        return not isinstance(self._provider, _Keys)

    def __call__(self) -> Mapping[str, Any]:
        """Ask the provider."""
        try:
            found = self._provider()
            self._check(found)
        except Exception as error:
            self.failure = error
            raise
        self.failure, self._latest = None, found
        return found

    def _check(self, found: Mapping[str, Any]) -> None:
        for name in self._needed:
            if name not in found:
                raise CredentialsError(f"no credentials: the answer of the credential_provider has no {name!r}")
        if found["expires_at"] is not None and found["expires_at"].tzinfo is None:
            raise CredentialsError("no credentials: the credential_provider's expires_at has no time zone")

    def current(self) -> Mapping[str, Any]:
        """The latest answer while it is good for some minutes, else a new one. Raises CredentialsError."""
        with self._lock:
            latest = self._latest
            if latest is not None and (expires_at := latest["expires_at"]) is not None:
                latest = latest if expires_at - datetime.now(UTC) > _MARGIN else None
            if latest is not None:
                return latest
            try:
                return self()
            except Exception as error:
                raise provider_failed(error) from error

    @property
    def expires_at(self) -> datetime | None:
        """When the latest answer expires, if its provider is the caller's: others are renewed by their source."""
        is_renewed = isinstance(self._provider, _BotoCredentials)
        return None if is_renewed or self._latest is None else self._latest["expires_at"]


def provider_failed(error: Exception) -> CredentialsError:
    """The error of a provider that raised; what it said is its own affair, and stays in ``__cause__``."""
    if isinstance(error, CredentialsError):
        return error
    return CredentialsError(f"no credentials: the credential_provider raised {type(error).__name__}")


def aws_credentials(options: StorageOptions) -> Credentials | None:
    """Where credentials for S3 come from; None: requests are not signed, or obstore is left to find some.

    Raises CredentialsError for a profile or a role without boto3.
    """
    if options.anonymous:
        return None
    if options.credential_provider is not None:
        return Credentials(options.credential_provider)
    if options.access_key_id is not None and options.role_arn is None:
        return Credentials(_Keys(options))
    if find_spec("botocore") is not None:
        return Credentials(_BotoCredentials(options))
    if options.profile is not None or options.role_arn is not None:
        raise CredentialsError("a profile or a role_arn needs boto3: install lakespark[s3]")
    return None


class _Keys:
    """Keys as the caller gave them, and no token of the environment beside them."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def __call__(self) -> Mapping[str, Any]:
        return {
            "access_key_id": self._options.access_key_id,
            "secret_access_key": self._options.secret_access_key,
            "token": self._options.session_token,
            "expires_at": None,
        }


class _BotoCredentials:
    """What botocore finds: environment, profile, SSO, assumed role, container or instance role. Renewed by it."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    @cached_property
    def _session(self) -> Any:
        import botocore.session  # noqa: PLC0415 - optional, and slow to import

        session = botocore.session.Session(profile=self._options.profile)
        if self._options.access_key_id is not None:
            keys = (self._options.access_key_id, self._options.secret_access_key, self._options.session_token)
            session.set_credentials(*keys)
        return session

    @property
    def region(self) -> str | None:
        """The region of the profile or the environment."""
        found: str | None = self._answer(lambda: self._session.get_config_variable("region"))
        return found

    @property
    def endpoint(self) -> str | None:
        """The ``endpoint_url`` of the profile."""
        found: str | None = self._answer(lambda: self._session.get_scoped_config().get("endpoint_url"))
        return found

    def __call__(self) -> Mapping[str, Any]:
        frozen = self._answer(self._frozen)
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _ASK_BOTOCORE_AGAIN,
        }

    def _frozen(self) -> Any:
        return self._credentials.get_frozen_credentials()

    @cached_property
    def _credentials(self) -> Any:
        found = self._session.get_credentials()
        if found is None:
            raise CredentialsError(
                "no AWS credentials: none in the environment, in ~/.aws, or from an instance or container role. "
                "Pass access_key_id and secret_access_key, a profile or a credential_provider; anonymous=True for none"
            )
        return found if self._options.role_arn is None else self._assumed(found)

    def _assumed(self, source: Any) -> Any:
        from botocore.credentials import (  # noqa: PLC0415 - as above
            AssumeRoleCredentialFetcher,
            DeferredRefreshableCredentials,
        )

        region = self._options.region or self._session.get_config_variable("region") or "us-east-1"
        self._session.set_config_variable("region", region)
        fetcher = AssumeRoleCredentialFetcher(
            self._session.create_client, source, self._options.role_arn, extra_args={"RoleSessionName": _SESSION_NAME}
        )
        return DeferredRefreshableCredentials(method="assume-role", refresh_using=fetcher.fetch_credentials)

    @staticmethod
    def _answer(ask: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - as above

        try:
            return ask()
        except (BotoCoreError, ClientError) as error:
            raise CredentialsError(f"no AWS credentials: {error}") from error
