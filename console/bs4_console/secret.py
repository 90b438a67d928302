"""Text that must never be shown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Secret:
    """A secret text, such as an API key, that `str` and `repr` do not show. Call `reveal` only at
    the place that needs the text.
    """

    _text: str = field(repr=False)

    def __str__(self) -> str:
        return "(hidden)"

    def reveal(self) -> str:
        """Return the hidden text."""
        return self._text
