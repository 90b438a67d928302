"""The checkpoints of a run as rows: the newest first, those that are only in the store too, and one
checkpoint with its parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, cut, fold, hanging, width_of
from bs4_console.tui.views.fleet import Column, Row

if TYPE_CHECKING:
    from bs4_console.checkpoints.listing import CheckpointReport, CheckpointRow
    from bs4_console.pods.state import PodState

COLUMNS = (
    Column("step", "STEP", 6, 9, 100, "right"),
    Column("state", "STATE", 15, 15, 99),
    Column("size", "SIZE", 9, 9, 90, "right"),
    Column("age", "AGE", 5, 7, 95, "right"),
    Column("store", "IN THE STORE", 14, 22, 97),
    Column("parts", "PARTS", 12, 40, 80),
    Column("missing", "WHAT IS MISSING", 15, 0, 96),
)
#: Seconds. A newest checkpoint that is not complete and younger than this is still being written.
WRITTEN_S = 900.0


def rows(found: CheckpointReport, pod: PodState, run: str) -> list[Row]:
    """Return a row for each checkpoint, the newest first. `found` is the run's checkpoint report
    (the result of `checkpoints.listing.of_pod`). A step that is only in the store has a row too. A
    row's key is (pod's name, step as text).
    """
    local = {int(one["step"]): one for one in found["checkpoints"]}
    stored = copies(pod, run)
    newest = max(local, default=-1)
    since = begun(pod, run)
    made = []
    for step in sorted(local.keys() | stored.keys(), reverse=True):
        one = local.get(step)
        fresh = one is not None and step == newest and being_written(one, found, since)
        made.append(_row(pod.name, step, one, stored.get(step), found, fresh))
    return made


def begun(pod: PodState, run: str) -> float:
    """Return when the run's newest attempt began, as a Unix time in seconds by the pod's clock, or
    0.0 if that is not known.
    """
    state = pod.runs.get(run)
    if state is None or state.view.attempt is None:
        return 0.0
    return state.view.attempt.started_t


def is_leftover(one: CheckpointRow, since: float) -> bool:
    """Return True if nothing of the checkpoint `one` was written since `since`, the beginning of
    the run's newest attempt as a Unix time: an earlier attempt has left it.
    """
    written = one.get("t")
    return written is not None and written < since


def being_written(one: CheckpointRow, found: CheckpointReport, since: float) -> bool:
    """Return True if the checkpoint `one` of the report `found` is not complete, and the run may be
    writing it now: a file of it is younger than WRITTEN_S (900) seconds, or it has no file yet.
    Return False if an earlier attempt has left it: `since` is the beginning of the run's newest
    attempt as a Unix time.
    """
    if one["complete"] or not found["live"] or is_leftover(one, since):
        return False
    return one["age_s"] is None or one["age_s"] < WRITTEN_S


def copies(pod: PodState, run: str) -> dict[int, tuple[str, str]]:
    """Return what is known of the copies of the run's checkpoints in the object store, as {step:
    (words, style role)}. The words say that the copy is verified, on its way or incomplete, or that
    it was refused and why. The result is empty if nobody has ever ordered copies for this run.
    """
    view = pod.ledger.syncs.get(run)
    if view is None:
        return {}
    made: dict[int, tuple[str, str]] = {}
    for step in view.done:
        made[step] = ("✔ verified", "good")
    for step, why in (view.listed or {}).items():
        made[step] = ("✔ verified", "good")
        if why:
            made[step] = (f"✖ {why.get('missing') or 'incomplete'}", "warn")
    for step in view.skipped:
        made[step] = ("✖ not uploaded", "warn")
    if view.step is not None:
        share = view.sent / view.total if view.total else 0.0
        made[view.step] = (f"… {min(1.0, share):.0%} on its way", "accent")
    if view.pointer in made:
        words, role = made[view.pointer]
        made[view.pointer] = (f"{words}, newest", role)
    return made


def _row(
    pod: str,
    step: int,
    one: CheckpointRow | None,
    stored: tuple[str, str] | None,
    found: CheckpointReport,
    fresh: bool,
) -> Row:
    from bs4_console.checkpoints import listing  # its import takes as long as ten paints

    cells: dict[str, Line] = {
        "step": [(str(step), "bold")],
        "state": [("only in store", "dim")],
        "size": [],
        "age": [],
        "store": [stored or (formatting.NONE, "dim")],
        "parts": [],
        "missing": [],
    }
    if one is not None:
        parts = " ".join(str(part["name"]) for part in one.get("parts") or ())
        cells |= {
            "state": [_state(one, found, fresh)],
            "size": [(formatting.size(one["bytes"]), "")],
            "age": [(listing.age(one["age_s"]), "")],
            "parts": [(parts or formatting.NONE, "dim")],
            "missing": [(missing(one), "warn")],
        }
    return Row(key=(pod, str(step)), rank=0, cells=cells, values={"step": step})


def _state(one: CheckpointRow, found: CheckpointReport, fresh: bool) -> tuple[str, str]:
    """Return the state of a checkpoint on the pod as (words, role). `fresh` is True if it is being
    written.
    """
    if one["step"] == found["resumable"]:
        return "▸ resumes here", "good bold"
    if one["complete"]:
        return "✔ complete", "good"
    if fresh:
        return "◌ being written", "accent"
    return "✖ incomplete", "warn bold"


def missing(one: CheckpointRow) -> str:
    """Return what the checkpoint `one` lacks, for example "orchestrator: no such directory", or ""
    if it is complete.
    """
    return "; ".join(f"{name}: {why}" for name, why in (one.get("missing") or {}).items())


def heading(found: CheckpointReport, told: str, order: str, width: int) -> list[Line]:
    """Return the lines above the table of a run's checkpoints, at most `width` cells wide. `told`
    is the result of `checkpoints.listing.line`: from which step the run can be resumed, and when
    the disk will be full. `order` says in words which checkpoints stay, by an order to delete the
    others, or that there is no such order. `found` is the run's checkpoint report.
    """
    role = "good" if found["resumable"] is not None else "warn bold"
    lines: list[Line] = [cut([(" now    ", "head"), (told, role)], width)]
    lines.append(cut([(" order  ", "head"), (order or "none: nothing is freed", "dim")], width))
    return lines


def detail(one: CheckpointRow, width: int) -> list[Line]:
    """Return one checkpoint in full, in lines of at most `width` cells: each part with its size and
    path, why a part is not complete, and what is missing.
    """
    lines: list[Line] = [[(f" step {one['step']}", "bold")]]
    for part in one.get("parts") or ():
        sign, role = ("✔", "good") if part.get("complete") else ("✖", "warn bold")
        head: Line = [(f"   {sign} ", role), (f"{part['name']:<14} ", "accent")]
        head.append((f"{formatting.size(part.get('bytes')):>10}  ", ""))
        lines.append(
            cut(
                [*head, (formatting.path_end(part.get("path", ""), width - width_of(head)), "dim")],
                width,
            )
        )
        if part.get("why"):
            lines += fold(str(part["why"]), width - 2, "warn", 5)
    for name, why in (one.get("missing") or {}).items():
        lines += hanging([("   ✖ ", "warn bold")], fold(f"{name}: {why}", width - 6, "warn"))
    return lines
