"""The exceptions under the module and names of the ``lakefs`` SDK, for scripts that import them from there."""

from lakespark.errors import (
    BadRequestException,
    ConflictException,
    ForbiddenException,
    ImportManagerException,
    LakeFSException,
    NotFoundException,
    ObjectExistsException,
    ObjectNotFoundException,
    TransactionException,
)

ServerException = LakeFSException
"""There is no server: every error of lakespark is caught by this name."""

__all__ = [
    "BadRequestException",
    "ConflictException",
    "ForbiddenException",
    "ImportManagerException",
    "LakeFSException",
    "NotFoundException",
    "ObjectExistsException",
    "ObjectNotFoundException",
    "ServerException",
    "TransactionException",
]
