"""The options of a lake's stores: one set for bytes, Delta tables and Spark (docs/stores.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Self
from urllib.parse import urlsplit

from lakespark.errors import BadRequestException

CredentialProvider = Callable[[], Mapping[str, Any]]
"""Answers with credentials and ``expires_at``: a datetime with a time zone, before which it is asked again, or None.

For S3 ``access_key_id``, ``secret_access_key`` and ``token``; for GCS ``token``; for Azure ``token``, ``sas_token`` or
``access_key``.
"""

_SHORTEST_SECRET = 4
_TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "float": (int, float), "Mapping": (Mapping,)}


def _secret() -> Any:
    """A field that no text shows."""
    return field(default=None, repr=False, metadata={"secret": True})


@dataclass(frozen=True)
class StorageOptions:
    """Everything that a store may be told. An option that a store has no use for is no error: lakes reach into others.

    ``timeout``: seconds until a request is given up. ``retry_seconds``: how long a request is repeated while the store
    throttles or fails. ``client_options``: obstore's, for proxies and certificates. ``durable``: local folders sync
    to the disk what they acknowledge; other stores have done so when they answer.
    """

    # any store
    endpoint: str | None = None
    anonymous: bool | None = None
    credential_provider: CredentialProvider | None = field(default=None, repr=False)
    timeout: float = 30.0
    retry_seconds: float = 30.0
    client_options: Mapping[str, Any] | None = field(default=None, repr=False)
    # local folders
    durable: bool | None = None
    # S3
    profile: str | None = None
    role_arn: str | None = None
    region: str | None = None
    path_style: bool | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = _secret()
    session_token: str | None = _secret()
    server_side_encryption: str | None = None
    sse_kms_key_id: str | None = None
    request_payer: bool | None = None
    # GCS
    service_account: str | None = None
    service_account_key: str | None = _secret()
    # GCS, Azure
    bearer_token: str | None = _secret()
    # Azure
    account_name: str | None = None
    account_key: str | None = _secret()
    sas_token: str | None = _secret()
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = _secret()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """From what a caller passed by name. Raises BadRequestException for an unknown name or an impossible value."""
        for name, value in options.items():
            _check(name, value)
        found = cls(**options)
        _check_together(found)
        return found

    def without_secrets(self, text: str) -> str:
        """A text with every secret of these options blotted out."""
        for known in fields(self):
            value = getattr(self, known.name)
            if known.metadata.get("secret") and value is not None and len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, "***")
        return text


_FIELDS = {known.name: str(known.type) for known in fields(StorageOptions)}


def _check(name: str, value: Any) -> None:
    if name not in _FIELDS:
        close = get_close_matches(name.removeprefix("aws_").removeprefix("azure_").removeprefix("google_"), _FIELDS, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(_FIELDS)}"
        raise BadRequestException(f"unknown storage option {name!r}: {hint}")
    if value is None:
        return
    expected = _FIELDS[name].split(" ", 1)[0].split("[", 1)[0]
    is_right = callable(value) if expected == "CredentialProvider" else isinstance(value, _TYPES[expected])
    if not is_right or (expected == "float" and (isinstance(value, bool) or value <= 0)):
        kinds = {
            "str": "a text",
            "bool": "True or False",
            "float": "a number of seconds above 0",
            "Mapping": "a mapping",
        }
        raise BadRequestException(f"storage option {name!r} must be {kinds.get(expected, 'a callable')}")


def _check_together(options: StorageOptions) -> None:
    if (options.access_key_id is None) != (options.secret_access_key is None):
        raise BadRequestException("access_key_id and secret_access_key are needed together")
    if options.session_token is not None and options.access_key_id is None:
        raise BadRequestException("a session_token needs its access_key_id and secret_access_key")
    given = [
        name
        for name, value in (
            ("credential_provider", options.credential_provider),
            ("access_key_id", options.access_key_id),
            ("profile", options.profile),
            ("anonymous", options.anonymous or None),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise BadRequestException(f"{' and '.join(given)} exclude each other: pass one of them")
    if options.role_arn is not None and (options.credential_provider is not None or options.anonymous):
        raise BadRequestException(
            "a role_arn is assumed by a profile, by keys or by the credentials found: pass no other"
        )
    if options.endpoint is not None:
        _check_endpoint(options.endpoint)


def _check_endpoint(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadRequestException("the endpoint must be a URL such as https://s3.example.com or http://127.0.0.1:9000")
    if "@" in parts.netloc or parts.query:
        raise BadRequestException("the endpoint must hold no credentials: pass them as options of their own")
