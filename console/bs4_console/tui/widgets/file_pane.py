"""Any one file of a pod, shown as a log is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.pods.streams import file_stream
from bs4_console.tui.widgets.log_pane import LogPane

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState


class FilePane(LogPane):
    """Where a run stands in a LogPane the file's path does: in what it is called, and in which
    stream is read.
    """

    NOUN = "file"

    def __init__(self, pod: PodState, path: str) -> None:
        super().__init__(pod, path, path)

    def stream_of(self, source: str) -> str:
        return file_stream(source)

    def streams(self) -> list[str]:
        return [file_stream(self.run)]
