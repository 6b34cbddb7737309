"""Plain data that is made once and written down many times."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any


class Plain(dict[str, Any]):
    """A dict that nobody changes any more, so that its text need be made only once."""

    @cached_property
    def text(self) -> str:
        """Compact JSON. Raises ``ValueError`` or ``TypeError`` for what is not finite or not JSON."""
        return json.dumps(self, allow_nan=False, separators=(",", ":"))
