"""The options of a store in delta-rs's form, for tables of others, which it reads without passing through a Store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakespark.storage.backends import CONNECT_SECONDS, account_of, credentials_for, s3_endpoint, s3_region
from lakespark.storage.location import Location
from lakespark.storage.options import StorageOptions

_AZURE_TOKENS = {
    "token": "azure_storage_token",
    "sas_token": "azure_storage_sas_key",
    "access_key": "azure_storage_account_key",
}


def delta_options(location: Location, options: Mapping[str, Any]) -> dict[str, str]:
    """``storage_options`` of a DeltaTable. Credentials are asked for once, for this one reading.

    Raises CredentialsError.
    """
    known = StorageOptions.of(options)
    if location.scheme == "s3":
        found = _s3(location, known)
    elif location.scheme == "gs":
        found = _gcs(location, known)
    elif location.scheme in ("az", "abfss"):
        found = _azure(location, known)
    else:
        return {}
    found |= {"timeout": f"{known.timeout:g}s", "connect_timeout": f"{min(CONNECT_SECONDS, known.timeout):g}s"}
    found["allow_http"] = (found.get("aws_endpoint") or known.endpoint or "http://").startswith("http://")
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items() if value
    }


def _s3(location: Location, options: StorageOptions) -> dict[str, Any]:
    credentials = credentials_for(location, options)
    found: dict[str, Any] = {
        "aws_endpoint": s3_endpoint(options, credentials),
        "aws_region": s3_region(options, credentials),
        "aws_skip_signature": options.anonymous,
        "aws_virtual_hosted_style_request": options.path_style is False,
        "aws_request_payer": options.request_payer,
    }
    if credentials is not None:
        current = credentials.current()
        found["aws_access_key_id"] = current["access_key_id"]
        found["aws_secret_access_key"] = current["secret_access_key"]
        found["aws_session_token"] = current.get("token")
    return found


def _gcs(location: Location, options: StorageOptions) -> dict[str, Any]:
    credentials = credentials_for(location, options)
    return {
        "google_base_url": options.endpoint,
        "google_service_account": options.service_account,
        "google_service_account_key": options.service_account_key,
        "google_bearer_token": options.bearer_token if credentials is None else credentials.current()["token"],
        "google_skip_signature": options.anonymous,
    }


def _azure(location: Location, options: StorageOptions) -> dict[str, Any]:
    found: dict[str, Any] = {
        "azure_endpoint": options.endpoint,
        "azure_storage_account_name": account_of(location) or options.account_name,
        "azure_storage_account_key": options.account_key,
        "azure_storage_sas_key": options.sas_token,
        "azure_storage_token": options.bearer_token,
        "azure_storage_tenant_id": options.tenant_id,
        "azure_storage_client_id": options.client_id,
        "azure_storage_client_secret": options.client_secret,
        "azure_skip_signature": options.anonymous,
    }
    credentials = credentials_for(location, options)
    if credentials is not None:
        current = credentials.current()
        found |= {_AZURE_TOKENS[name]: current[name] for name in _AZURE_TOKENS if current.get(name)}
    return found
