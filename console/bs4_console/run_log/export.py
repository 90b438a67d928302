"""Writes the run log as the Markdown document that people keep by hand: the imported sections as
they were, then what was added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bs4_console.run_log import completed_table, document_import
from bs4_console.run_log.record import Note, RunRecord, in_order
from bs4_console.run_log.text import RUN_LEVEL, Chunk, fenced, utc

_TITLE = "# Training Runs Log\n\n"
_ACTIVE = "Active Runs"
_SEPARATOR = re.compile(r"\n+---[ \t]*\n\s*\Z")


def document(
    parts: Sequence[Chunk],
    added: Mapping[str, tuple[Sequence[Note], Sequence[str]]],
    own: Sequence[RunRecord],
) -> str:
    """Return the whole run log as Markdown. `parts` are the chunks of the imported document.
    `added` holds, by the run's name, the notes on the run and the older versions of its section.
    `own` are records made from pods' journals (the agents' logs of actions and incidents); each
    gets a section, or is added to the section that its run has.
    """
    kept = {run.name: run for run in own}
    texts = completed_table.filled(parts, _completed(parts, kept, added))
    out: list[str] = []
    done: set[str] = set()
    sections = {chunk.run for chunk in parts if chunk.run}
    fresh = "".join(
        _section(kept.get(name) or RunRecord(name=name), *added.get(name, ((), ())))
        for name in dict.fromkeys((*kept, *added))
        if name not in sections
    )
    placed = not fresh
    for chunk, text in zip(parts, texts, strict=True):
        if chunk.run and chunk.run not in done:
            done.add(chunk.run)
            text = _with(text, kept.get(chunk.run), *added.get(chunk.run, ((), ())))
        out.append(text)
        if not placed and chunk.title == _ACTIVE and chunk.level < RUN_LEVEL:
            out.append(fresh)
            placed = True
    if not placed:
        out += [*([] if parts else [_TITLE]), f"## {_ACTIVE}\n\n", fresh]
    return _joined(out)


def _completed(
    parts: Sequence[Chunk],
    kept: Mapping[str, RunRecord],
    added: Mapping[str, tuple[Sequence[Note], Sequence[str]]],
) -> list[RunRecord]:
    """Return the runs that have ended well: those that pods recorded, and those that a person
    called completed by a note. What only the document says of a run is left as it stands there.
    """
    found = {}
    for chunk in parts:
        if chunk.run in added and chunk.run not in found:
            found[chunk.run] = document_import.record(chunk)
    found.update(kept)
    ended = []
    for name in dict.fromkeys((*kept, *added)):
        run = found.get(name) or RunRecord(name=name)
        notes = added[name][0] if name in added else ()
        run.mark(notes)
        said = name in kept or any(note.status for note in notes)
        if said and run.status in completed_table.STATUSES:
            ended.append(run)
    return ended


def _joined(out: Sequence[str]) -> str:
    """Return the pieces as one text. Every piece begins on a line of its own, and the last piece
    ends as it did.
    """
    return "".join(
        piece if piece.endswith("\n") or number == len(out) - 1 else piece + "\n"
        for number, piece in enumerate(out)
        if piece
    )


def _with(
    section: str, kept: RunRecord | None, notes: Sequence[Note], earlier: Sequence[str]
) -> str:
    """Return the section with everything that is not in it yet, placed before the rule (`---`) that
    ends it.
    """
    known = {line.strip() for line in section.split("\n")}
    tail = ""
    journalled = [] if kept is None else kept.notes
    for title, *lines in [*_blocks(kept), *_noted(in_order(journalled, notes))]:
        fresh = [line for line in lines if not line.strip() or line.strip() not in known]
        if "".join(fresh).strip():
            tail += "\n".join([title, *fresh, "", ""])
    for text in earlier:
        tail += f"#### Earlier record\n\n{fenced(text)}\n"
    if not tail:
        return section
    rule = _SEPARATOR.search(section)
    body, end = section, "\n"
    if rule:
        body, end = section[: rule.start()], rule[0]
    return f"{body.rstrip()}\n\n{tail.rstrip()}\n{end}"


def _section(run: RunRecord, notes: Sequence[Note], earlier: Sequence[str]) -> str:
    date = f" ({run.date})" if run.date else ""
    status = f" - {run.status}" if run.status else ""
    text = "\n".join([f"### Run: {run.name}{date}{status}", "", *_fields(run), "", "---\n\n"])
    return _with(text, run, notes, earlier)


def _fields(run: RunRecord) -> list[str]:
    price = ""
    if run.price is not None:
        price = f"${run.price:g}/hr"
    step = ""
    if run.step is not None:
        step = f"{run.step}" + (f"/{run.max_steps}" if run.max_steps else "")
    said = {
        "Model": run.model,
        "Config": run.config,
        "Pod": run.pod,
        "Price": price,
        "Trainer": run.trainer,
        "Start": run.start,
        "End": run.end,
        "Status": run.status,
        "Current Step": step,
        "Reward": "" if run.reward is None else f"{run.reward:.4f}",
        "Step Time": "" if run.pace_s is None else f"~{run.pace_s:.0f} s",
    }
    found = []
    for name, value in said.items():
        if value:
            found.append(f"- **{name}**: {_one_line(value)}")
    return found


def _blocks(run: RunRecord | None) -> list[list[str]]:
    """Return the attempts, incidents and lessons that a run recorded itself. Each block is a list
    of lines that begins with its heading.
    """
    if run is None:
        return []
    attempts = []
    for n, a in enumerate(run.attempts, 1):
        attempts.append(f"{n}. {_one_line(f'{a.title} {a.text}')}".rstrip())
    incidents: list[str] = []
    for number, incident in enumerate(run.incidents, 1):
        incidents += [
            f"**{number}. {_one_line(incident.title)}**",
            *(f"- {line}" for line in incident.text.split("\n") if line.strip()),
        ]
        for name in incident.playbooks:
            incidents.append(f"- Playbook: {name}")
    lessons = [f"{n}. {_one_line(lesson)}" for n, lesson in enumerate(run.lessons, 1)]
    return _headed(
        {
            "Attempts": attempts,
            "Incidents and Recovery": incidents,
            "Lessons Learned": lessons,
        }
    )


def _noted(notes: Sequence[Note]) -> list[list[str]]:
    plain, lessons, statuses = [], [], []
    for note in notes:
        if note.status:
            why = f": {_one_line(note.text)}" if note.text else ""
            statuses.append(f"- {utc(note.t)} {note.who}: **{note.status}**{why}")
        elif note.lesson:
            lessons.append(f"- {_one_line(note.text)}")
        else:
            plain.append(f"- {utc(note.t)} {note.who}: {_one_line(note.text)}")
    return _headed({"Status": statuses, "Notes": plain, "Lessons Learned": lessons})


def _headed(blocks: Mapping[str, list[str]]) -> list[list[str]]:
    """Return the blocks that are not empty, each with its heading and a blank line first."""
    return [[f"#### {title}", "", *body] for title, body in blocks.items() if body]


def _one_line(text: str) -> str:
    """Return the text on one line, so that the words of a person or a pod cannot begin a heading or
    a fence.
    """
    return " ".join(text.split())
