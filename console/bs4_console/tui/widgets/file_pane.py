"""Any file of a pod, shown like a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.pods.streams import file_stream
from bs4_console.tui.widgets.log_pane import LogPane

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState


class FilePane(LogPane):
    """A LogPane for a file. The file's path takes the place of the run's name."""

    NOUN = "file"

    def __init__(self, pod: PodState, path: str) -> None:
        super().__init__(pod, path, path)

    def stream_of(self, source: str) -> str:
        """Return the stream with the content of the file at this path."""
        return file_stream(source)

    def streams(self) -> list[str]:
        """Return the stream of the file, as a list."""
        return [file_stream(self.run)]
