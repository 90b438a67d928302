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


#: The number of rollouts on a page, and of the first and of the last messages of each. A file of a
#: pod can have any number in one line.
_ROLLOUTS, _MESSAGES = 40, 20
#: The cells that the role of a message takes at most.
_ROLE_CELLS = 24


def page(path: str, found: Sequence[Shown], whole: str, width: int) -> list[Line]:
    """Return rollouts in lines of at most `width` cells, in the order of `found`. `path` is the
    file of the pod in which they lie, and `whole` the command that prints messages in full, which
    is named if something is left out: the rest of long texts, messages in the middle of many, and
    the first of many rollouts.
    """
    # Imported already, for the reading.
    from bs4_console.run_log import pod_rollouts

    lines: list[Line] = [cut([(path, "dim")], width), *fold(AGAIN, width, "dim"), []]
    if not found:
        return [*lines, [("No rollout is in that file yet.", "bold")]]
    is_cut = False
    if len(found) > _ROLLOUTS:
        is_cut = True
        lines += [[(f"… {len(found) - _ROLLOUTS:,} earlier rollouts", "dim")], []]
    for one in found[-_ROLLOUTS:]:
        title, _ = pod_rollouts.begun(pod_rollouts.name(one))
        head: Line = [(title, "bold"), (f"  {pod_rollouts.worth(one)}", "accent")]
        lines.append(cut(head, width))
        late = one.messages[_MESSAGES:]
        more = len(late) - _MESSAGES
        for number, message in enumerate([*one.messages[:_MESSAGES], *late[-_MESSAGES:]]):
            if number == _MESSAGES and more > 0:
                is_cut = True
                lines.append([(f"  … {more:,} more messages", "dim")])
            text, was_cut = _beginning(message.text)
            is_cut = is_cut or was_cut
            role: Line = [*cut([(f"  {message.role}", "dim")], _ROLE_CELLS), (": ", "dim")]
            lines += hanging(role, _folded(text, width - width_of(role)), 4)
        if one.error:
            text, was_cut = _beginning(one.error)
            is_cut = is_cut or was_cut
            lines += fold(f"error: {text}", width, "bad", 2)
        lines.append([])
    if is_cut:
        lines += fold(f"Whole messages: `{whole}`", width, "dim")
    return lines


def _beginning(text: str) -> tuple[str, bool]:
    """Return (beginning, was_cut): the beginning of a long text, and True if it is cut; it then
    says how many characters more there are.
    """
    # Imported already, for the reading.
    from bs4_console.run_log import pod_rollouts

    shown, left = pod_rollouts.begun(text)
    if left:
        return f"{shown} ({left} more characters)", True
    return shown, False


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
