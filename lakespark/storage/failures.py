"""What a failed request means: the class of error that fits what the store answered, and what to do about it."""

from __future__ import annotations

import re
from typing import NamedTuple

from lakespark.errors import (
    AccessDeniedError,
    BucketNotFoundError,
    ClockSkewError,
    CredentialsError,
    StorageError,
    StoreUnavailableError,
    UnsafeStoreError,
    WrongEndpointError,
)

_STATUSES: dict[int, type[StorageError]] = {
    401: CredentialsError,
    403: AccessDeniedError,
    404: BucketNotFoundError,
    **dict.fromkeys((301, 307, 308), WrongEndpointError),
    **dict.fromkeys((408, 429, *range(500, 600)), StoreUnavailableError),
}
_WITHOUT_A_REASON = {400, 403}
_NOT_SUPPORTED = {405, 501}
_EXPIRED_CODES = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_CODES: dict[str, type[StorageError]] = {
    **dict.fromkeys(_EXPIRED_CODES, CredentialsError),
    **dict.fromkeys(
        ("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidSecurity"), CredentialsError
    ),
    **dict.fromkeys(
        ("AuthenticationFailed", "NoAuthenticationInformation", "AuthenticationRequired"), CredentialsError
    ),
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "AccountProblem"), AccessDeniedError),
    **dict.fromkeys(("AuthorizationFailure", "AuthorizationPermissionMismatch"), AccessDeniedError),
    **dict.fromkeys(("NoSuchBucket", "InvalidBucketName", "ContainerNotFound"), BucketNotFoundError),
    **dict.fromkeys(("PermanentRedirect", "TemporaryRedirect"), WrongEndpointError),
    **dict.fromkeys(("AuthorizationHeaderMalformed", "IllegalLocationConstraintException"), WrongEndpointError),
    **dict.fromkeys(("RequestTimeTooSkewed", "RequestExpired"), ClockSkewError),
    **dict.fromkeys(("SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout"), StoreUnavailableError),
    **dict.fromkeys(("Throttling", "ThrottlingException", "ServerBusy", "RequestLimitExceeded"), StoreUnavailableError),
    **dict.fromkeys(("OperationAborted", "ConditionalRequestConflict"), StoreUnavailableError),
}
"""Error codes of S3 and its like, of Azure, and of Google's XML interface."""

_HINTS: dict[type[StorageError], str] = {
    CredentialsError: "the store does not accept the credentials: check the keys, profile or credential_provider",
    AccessDeniedError: "the credentials do not allow it: ask for the permission",
    BucketNotFoundError: "there is no such bucket: check its name and the endpoint",
    ClockSkewError: "this machine's clock is too far from the store's: set it",
    StoreUnavailableError: "the store is overloaded or failing: repeat later, or pass a longer retry_seconds",
}
_EXPIRED = "the credentials have expired: pass new ones, or a credential_provider that is asked before they expire"
_REGION = "the bucket is in another region{}: pass region= and no endpoint of another one"
_NOTHING_THERE = "nothing answers at the endpoint{}: check endpoint and region"
_SILENT = "the store did not answer in time: repeat later, or pass a longer timeout"
_BROKEN_OFF = "the connection broke off: repeat"

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_RIGHT_REGION = re.compile(r"<Region>([\w-]+)</Region>|expecting '([\w-]+)'|[.-]s3[.-]([a-z]{2}-[a-z-]+-\d)\.")
_CONNECT_REASON = re.compile(r'"(dns error|tcp connect error)"|message: "([^"]+)"')


class Answer(NamedTuple):
    """What is known of a failed request: the HTTP status (0: none came), the store's error code, and the whole text."""

    status: int
    code: str
    text: str

    @classmethod
    def of(cls, error: BaseException) -> Answer:
        """From obstore's error, which has them only in its text."""
        text = str(error)
        status, code = _STATUS.search(text), _CODE.search(text)
        is_redirect = "redirect without LOCATION" in text
        return cls(int(status[1]) if status else 301 if is_redirect else 0, code[1] if code else "", text)

    @property
    def code_is_known(self) -> bool:
        """Whether the code says more than the status."""
        return self.code in _CODES

    @property
    def is_expired(self) -> bool:
        """Whether newer credentials may help."""
        return self.code in _EXPIRED_CODES

    @property
    def is_without_connection(self) -> bool:
        """Whether nothing was reached at all: the request cannot have taken effect."""
        return self.status == 0 and "kind: Connect" in self.text

    @property
    def is_reasonless(self) -> bool:
        """Whether a refusal came without a reason, as it does to a HEAD request, which has no body."""
        return not self.code and self.status in _WITHOUT_A_REASON


def failure(what: str, answer: Answer, *, is_conditional: bool = False) -> StorageError:
    """The error of a request; ``what`` is as in "cannot read s3://bucket/key"."""
    if is_conditional and (answer.code == "NotImplemented" or answer.status in _NOT_SUPPORTED):
        return UnsafeStoreError(f"{what}: the store has no conditional writes (If-None-Match: *), which a lake needs")
    found = _CODES.get(answer.code) or _by_status(answer)
    if found is None:
        return StorageError(f"{what}: {_reason(answer)}")
    return found(f"{what}: {_hint(found, answer)}{_said(answer)}")


def _by_status(answer: Answer) -> type[StorageError] | None:
    if answer.status in _STATUSES:
        return _STATUSES[answer.status]
    if answer.is_without_connection:
        return WrongEndpointError
    is_broken_off = answer.status == 0 and ("kind: Timeout" in answer.text or "HTTP error" in answer.text)
    return StoreUnavailableError if is_broken_off else None


def _hint(found: type[StorageError], answer: Answer) -> str:
    if answer.is_expired:
        return _EXPIRED
    if found is WrongEndpointError and answer.status:
        right = _RIGHT_REGION.search(answer.text)
        region = next(filter(None, right.groups()), "") if right else ""
        return _REGION.format(f", {region}" if region else "")
    if found is WrongEndpointError:
        reasons = [dns or message for dns, message in _CONNECT_REASON.findall(answer.text)]
        return _NOTHING_THERE.format(f" ({', '.join(reasons)})" if reasons else "")
    if found is StoreUnavailableError and answer.status == 0:
        return _SILENT if "kind: Timeout" in answer.text else _BROKEN_OFF
    return _HINTS[found]


def _said(answer: Answer) -> str:
    """The store's own words, as far as they are no more than a status and a code."""
    words = " ".join(word for word in (str(answer.status or ""), answer.code) if word)
    return f" ({words})" if words else ""


def _reason(answer: Answer) -> str:
    return (
        f"the store answered {answer.status} {answer.code}".rstrip() if answer.status else answer.text.split("\n", 1)[0]
    )
