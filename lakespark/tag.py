"""A tag: an immutable name for a commit."""

from __future__ import annotations

from lakespark.operations import refs
from lakespark.reference import Reference


class Tag(Reference):
    """A tag. Making one reads nothing; ``create`` makes it in the repository."""

    def create(
        self,
        source_ref: str | Reference,
        exist_ok: bool = False,  # noqa: FBT001, FBT002 - the SDK's signature
        *,
        idempotency_key: str | None = None,
    ) -> Tag:
        """Create the tag at a ref expression. Raises NameTakenError unless ``exist_ok``.

        ``idempotency_key``: repeated with the same one, nothing is done.
        """
        refs.create_tag(
            self._repository.opened, self._id, str(source_ref), exist_ok=exist_ok, idempotency_key=idempotency_key
        )
        return self

    def delete(self) -> None:
        """Delete the tag."""
        refs.delete_tag(self._repository.opened, self._id)
