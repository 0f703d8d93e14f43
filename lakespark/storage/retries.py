"""How long and how often a request is repeated: exponential backoff with full jitter, within a number of seconds."""

from __future__ import annotations

import random
import time

from lakespark.storage.backends import FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS


class Retries:
    """The tries of one request. ``is_unsure``: one of them may have taken effect; ``is_renewed``: credentials were."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self.count = 0
        self.is_unsure = False
        self.is_renewed = False

    def wait(self) -> bool:
        """Wait before the next try. False: there is no time left for one."""
        longest = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2**self.count)
        pause = random.uniform(longest / 4, longest)  # noqa: S311 - nothing secret in it
        if time.monotonic() + pause > self._until:
            return False
        self.count += 1
        time.sleep(pause)
        return True
