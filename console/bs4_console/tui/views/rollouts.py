"""The newest rollouts of a run on a page: what the model was asked, what it wrote, and what that
was worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bs4_console.tui.styled_text import Line, cut, fold, hanging, width_of

if TYPE_CHECKING:
    from bs4_console.run_log.rollout_lines import Shown

#: What another reading needs, on every page.
AGAIN = (
    "As they were when this was read; :rollouts reads the newest step, :rollouts STEP another "
    "one, and :rollouts PATH a file of the pod."
)


def page(path: str, found: Sequence[Shown], whole: str, width: int) -> list[Line]:
    """Return rollouts in lines of at most `width` cells, in the order of `found`. `path` is the
    file of the pod in which they lie, and `whole` the command that prints messages in full, which
    is named if one is cut.
    """
    # Imported already, for the reading.
    from bs4_console.run_log import pod_rollouts

    lines: list[Line] = [cut([(path, "dim")], width), *fold(AGAIN, width, "dim"), []]
    if not found:
        return [*lines, [("No rollout is in that file yet.", "bold")]]
    is_cut = False
    for one in found:
        head: Line = [(pod_rollouts.name(one), "bold"), (f"  {pod_rollouts.worth(one)}", "accent")]
        lines.append(cut(head, width))
        for message in one.messages:
            text, left = pod_rollouts.begun(message.text)
            if left:
                is_cut = True
                text = f"{text} ({left} more characters)"
            role: Line = [(f"  {message.role}: ", "dim")]
            lines += hanging(role, _folded(text, width - width_of(role)), 4)
        if one.error:
            lines += fold(f"error: {one.error}", width, "bad", 2)
        lines.append([])
    if is_cut:
        lines += fold(f"Whole messages: `{whole}`", width, "dim")
    return lines


def _folded(text: str, width: int) -> list[Line]:
    """Return a message in lines of at most `width` cells. What a model writes may be code, so the
    blanks at the beginning of a line stay.
    """
    lines: list[Line] = []
    for line in text.expandtabs(4).split("\n"):
        bare = line.lstrip(" ")
        indent = min(len(line) - len(bare), width // 2)
        lines += fold(bare, width, "", indent)
    return lines
