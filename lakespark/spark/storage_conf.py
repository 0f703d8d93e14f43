"""The options of a lake's stores as Spark properties, so that one configuration serves both (docs/stores.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakespark.storage.backends import account_of, credentials_for, s3_endpoint, s3_region
from lakespark.storage.location import Location, parse_location
from lakespark.storage.options import StorageOptions

_HADOOP = "spark.hadoop."
_PROVIDERS = "org.apache.hadoop.fs.s3a."


def storage_conf(location: str | os.PathLike[str], options: Mapping[str, Any]) -> dict[str, str]:
    """Spark properties by which a session reaches the stores that a lake at ``location`` reaches with ``options``.

    Without options there are none: Spark then finds credentials in its own way. Hadoop cannot call a
    ``credential_provider`` or assume a ``role_arn``: it gets the credentials of this moment, which expire.
    Raises BadRequestException, CredentialsError.
    """
    known = StorageOptions.of(options)
    place = parse_location(location)
    if replace(known, durable=None) == StorageOptions():  # Spark has no such option
        return {}
    if place.scheme == "s3" or (place.scheme == "file" and _speaks_of_s3(known)):
        found = _s3a(Location("s3", place.bucket, ""), known)
    elif place.scheme == "gs":
        found = _gs(known)
    elif place.scheme in ("az", "abfss"):
        found = _abfs(place, known)
    else:
        found = {}
    return {_HADOOP + name: _text(value) for name, value in found.items() if value is not None}


def _speaks_of_s3(options: StorageOptions) -> bool:
    """Whether a local lake with these options has namespaces or imports in S3."""
    of_others = (options.account_name, options.service_account, options.service_account_key)
    return of_others == (None, None, None) and options.bearer_token is None


def _s3a(location: Location, options: StorageOptions) -> dict[str, Any]:
    credentials = credentials_for(location, options)
    endpoint = s3_endpoint(options, credentials)
    is_plain = endpoint is not None and endpoint.startswith("http://")
    found: dict[str, Any] = {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": s3_region(options, credentials),
        "fs.s3a.path.style.access": options.path_style is not False if endpoint else options.path_style,
        "fs.s3a.connection.ssl.enabled": False if is_plain else None,
        "fs.s3a.requester.pays.enabled": options.request_payer,
        "fs.s3a.encryption.algorithm": _encryption(options),
        "fs.s3a.encryption.key": options.sse_kms_key_id,
    }
    if options.anonymous:
        return {**found, "fs.s3a.aws.credentials.provider": f"{_PROVIDERS}AnonymousAWSCredentialsProvider"}
    if credentials is None:
        return found
    current = credentials.current()
    token = current.get("token")
    return {
        **found,
        "fs.s3a.access.key": current["access_key_id"],
        "fs.s3a.secret.key": current["secret_access_key"],
        "fs.s3a.session.token": token,
        "fs.s3a.aws.credentials.provider": f"{_PROVIDERS}{'Temporary' if token else 'Simple'}AWSCredentialsProvider",
    }


def _encryption(options: StorageOptions) -> str | None:
    names = {"aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
    given = options.server_side_encryption
    return None if given is None else names.get(given, given)


def _gs(options: StorageOptions) -> dict[str, Any]:
    """Google's connector takes a service account's file; a token it takes from a class of the user's own alone."""
    return {
        "fs.gs.storage.root.url": options.endpoint,
        "fs.gs.auth.type": "UNAUTHENTICATED" if options.anonymous else _service_account_type(options),
        "fs.gs.auth.service.account.json.keyfile": options.service_account,
    }


def _service_account_type(options: StorageOptions) -> str | None:
    return None if options.service_account is None else "SERVICE_ACCOUNT_JSON_KEYFILE"


def _abfs(location: Location, options: StorageOptions) -> dict[str, Any]:
    account = f"{account_of(location) or options.account_name}.dfs.core.windows.net"
    if options.account_key is not None:
        return {f"fs.azure.account.key.{account}": options.account_key}
    if options.sas_token is not None:
        return {
            f"fs.azure.account.auth.type.{account}": "SAS",
            f"fs.azure.sas.fixed.token.{account}": options.sas_token,
        }
    if options.client_id is None:
        return {}
    login = f"https://login.microsoftonline.com/{options.tenant_id}/oauth2/token"
    return {
        f"fs.azure.account.auth.type.{account}": "OAuth",
        f"fs.azure.account.oauth.provider.type.{account}": (
            "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
        ),
        f"fs.azure.account.oauth2.client.id.{account}": options.client_id,
        f"fs.azure.account.oauth2.client.secret.{account}": options.client_secret,
        f"fs.azure.account.oauth2.client.endpoint.{account}": login,
    }


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
