"""obstore's stores from a location and options."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from lakespark.errors import InvalidUriError
from lakespark.storage.credentials import Credentials, aws_credentials
from lakespark.storage.location import Location
from lakespark.storage.options import StorageOptions

CONNECT_SECONDS = 5
MAX_BACKOFF_SECONDS = 5
FIRST_BACKOFF_SECONDS = 0.1
_memory: dict[str, MemoryStore] = {}


def credentials_for(location: Location, options: StorageOptions) -> Credentials | None:
    """Where the credentials for a location come from; None: obstore finds them, or there are none."""
    if location.scheme == "s3":
        return aws_credentials(options)
    if options.credential_provider is None:
        return None
    return Credentials(options.credential_provider, ("token",) if location.scheme == "gs" else ())


def open_backend(
    location: Location, options: StorageOptions, credentials: Credentials | None, *, is_patient: bool
) -> Any:
    """Open a location as obstore does; ``is_patient``: it repeats failed requests itself. Raises obstore's errors."""
    if location.scheme == "memory":
        return _memory.setdefault(location.bucket, MemoryStore())
    how: dict[str, Any] = {
        "prefix": location.path or None,
        "client_options": _client(options, credentials),
        "retry_config": _retries(options, is_patient=is_patient),
    }
    if credentials is not None:
        how["credential_provider"] = credentials
    if location.scheme == "s3":
        return S3Store(location.bucket, config=_s3(location, options, credentials), **how)
    if location.scheme == "gs":
        return GCSStore(location.bucket, config=_gcs(options), **how)
    container, account = _container(location)
    return AzureStore(container, config=_azure(account, options), **how)


def s3_endpoint(options: StorageOptions, credentials: Credentials | None) -> str | None:
    """The endpoint of an S3 store without the bucket; None: AWS's, or what the environment says."""
    return options.endpoint or (credentials.endpoint if credentials is not None else None)


def s3_region(options: StorageOptions, credentials: Credentials | None) -> str | None:
    """The region of an S3 store; None: what the environment says, or AWS's first."""
    return options.region or (credentials.region if credentials is not None else None)


def allows_http(options: StorageOptions, credentials: Credentials | None) -> bool:
    """Whether the endpoint may be one without TLS: somebody said so, or the environment may."""
    endpoint = s3_endpoint(options, credentials)
    return endpoint is None or endpoint.startswith("http://")


def account_of(location: Location) -> str | None:
    """The Azure account that a location names: ``abfss://container@account.dfs.core.windows.net/...``."""
    return _container(location)[1]


def _s3(location: Location, options: StorageOptions, credentials: Credentials | None) -> dict[str, Any]:
    endpoint = s3_endpoint(options, credentials)
    if endpoint is not None and options.path_style is False:
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{location.bucket}.{host}"
    return _given(
        endpoint=endpoint,
        region=s3_region(options, credentials),
        virtual_hosted_style_request=None if options.path_style is None else not options.path_style,
        skip_signature=options.anonymous,
        server_side_encryption=options.server_side_encryption,
        sse_kms_key_id=options.sse_kms_key_id,
        request_payer=options.request_payer,
    )


def _gcs(options: StorageOptions) -> dict[str, Any]:
    return _given(
        base_url=options.endpoint,
        service_account=options.service_account,
        service_account_key=options.service_account_key,
        bearer_token=options.bearer_token,
        skip_signature=options.anonymous,
    )


def _azure(account: str | None, options: StorageOptions) -> dict[str, Any]:
    return _given(
        endpoint=options.endpoint,
        account_name=account or options.account_name,
        account_key=options.account_key,
        sas_key=options.sas_token,
        token=options.bearer_token,
        tenant_id=options.tenant_id,
        client_id=options.client_id,
        client_secret=options.client_secret,
        skip_signature=options.anonymous,
    )


def _container(location: Location) -> tuple[str, str | None]:
    """Container and account."""
    container, _, host = location.bucket.partition("@")
    if location.scheme == "abfss" and not host:
        raise InvalidUriError(
            f"cannot open {location}: write abfss://<container>@<account>.dfs.core.windows.net/<path>"
        )
    return container, host.split(".", 1)[0] or None


def _client(options: StorageOptions, credentials: Credentials | None) -> dict[str, Any]:
    timeouts = {
        "allow_http": allows_http(options, credentials),
        "timeout": timedelta(seconds=options.timeout),
        "connect_timeout": timedelta(seconds=min(CONNECT_SECONDS, options.timeout)),
    }
    return {**timeouts, **(options.client_options or {})}


def _retries(options: StorageOptions, *, is_patient: bool) -> dict[str, Any]:
    backoff = {
        "init_backoff": timedelta(seconds=FIRST_BACKOFF_SECONDS),
        "max_backoff": timedelta(seconds=MAX_BACKOFF_SECONDS),
        "base": 2,
    }
    tries = 10 if is_patient else 0
    return {"max_retries": tries, "retry_timeout": timedelta(seconds=options.retry_seconds), "backoff": backoff}


def _given(**values: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in values.items() if value is not None}
