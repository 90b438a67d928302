"""Writes the run log as the Markdown document that people keep by hand: the imported sections as
they were, then what was added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bs4_console.run_log import completed_table, document_import
from bs4_console.run_log.record import Note, RunRecord, in_order
from bs4_console.run_log.text import RUN_LEVEL, Chunk, Line, closed, fenced, lines, utc
from bs4_console.run_log.written_values import written_number

_TITLE = "# Training Runs Log\n\n"
_ACTIVE = "Active Runs"
_NUMBER = re.compile(r"(?:\*\*)?\d{1,3}[.)]\s+")
_SEPARATOR = re.compile(r"\n+---[ \t]*\n\s*\Z")


@dataclass(frozen=True)
class _Item:
    """What an export writes about one thing: its first line, by which it is found again, and the
    lines below it. `older` is its first line as earlier versions of this program wrote it, without
    its number, or "".
    """

    head: str
    further: list[str] = field(default_factory=list)
    older: str = ""


@dataclass(frozen=True)
class _Block:
    """Items below a heading with this title. An item's first line begins with `opener`."""

    title: str
    opener: re.Pattern[str]
    items: list[_Item]


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
    pieces = _on_own_lines(out)
    whole = "".join(pieces)
    if lines(whole) == [line for piece in pieces for line in lines(piece)]:
        return whole
    # A fence that one document left open would hide what another has behind it.
    return "".join(closed(piece) for piece in pieces)


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


def _on_own_lines(out: Sequence[str]) -> list[str]:
    """Return the pieces that are not empty. Every piece begins on a line of its own, and the last
    piece ends as it did.
    """
    pieces = [piece for piece in out if piece]
    for number, piece in enumerate(pieces[:-1]):
        if not piece.endswith("\n"):
            pieces[number] = piece + "\n"
    return pieces


def _with(
    section: str, kept: RunRecord | None, notes: Sequence[Note], earlier: Sequence[str]
) -> str:
    """Return the section with everything that is not in it yet. What is new of an item that the
    section has, such as the end of an attempt, is placed below that item, and everything else
    before the rule (`---`) that ends the section.
    """
    body = lines(section)
    below: dict[int, list[str]] = {}
    tail = ""
    journalled = [] if kept is None else kept.notes
    for block in [*_blocks(kept), *_noted(in_order(journalled, notes))]:
        there = _there(body, block)
        fresh = []
        for item in block.items:
            if places := there.get(_key(item.head)):
                place = places.pop(0)
                known = {line.bare.strip() for line in body[place.start : place.stop]}
                new = [line for line in item.further if line.strip() not in known]
                below.setdefault(place.stop, []).extend(new)
            elif not item.older or item.older not in there:
                fresh += [item.head, *item.further]
        if fresh:
            tail += "\n".join([f"#### {block.title}", "", *fresh, "", ""])
    for text in earlier:
        tail += f"#### Earlier record\n\n{fenced(text)}\n"
    section = _inserted(body, below)
    if not tail:
        return section
    section = closed(section)
    rule = _SEPARATOR.search(section)
    head, end = section, "\n"
    if rule:
        head, end = section[: rule.start()], rule[0].lstrip("\n")
    return f"{head.rstrip()}\n\n{tail.rstrip()}\n\n{end}"


def _there(body: Sequence[Line], block: _Block) -> dict[str, list[range]]:
    """Return {key of an item: the numbers of its lines} for the items that stand below the headings
    of `block`, with an entry for each item of that key. Blank lines behind an item are not counted.
    """
    found: dict[str, list[range]] = {}
    inside, key = False, ""
    for number, line in enumerate(body):
        if line.level:
            inside, key = line.title == block.title, ""
        elif inside and block.opener.match(line.prose):
            key = _key(line.prose)
            found.setdefault(key, []).append(range(number, number + 1))
        elif re.fullmatch(r"-{3,}", line.prose.strip()):
            key = ""
        elif key and line.bare.strip():
            found[key][-1] = range(found[key][-1].start, number + 1)
    return found


def _key(head: str) -> str:
    """Return what stays the same of an item's first line: all but its number and bold type."""
    return _NUMBER.sub("", head).replace("**", "").strip()


def _inserted(body: Sequence[Line], below: Mapping[int, Sequence[str]]) -> str:
    """Return the text of the lines `body` with further lines before those whose number is a key of
    `below`.
    """
    out = ""
    for number in range(len(body) + 1):
        for line in below.get(number, ()):
            out += line + "\n" if out.endswith("\n") else "\n" + line
        if number < len(body):
            out += body[number].text
    return out


def _section(run: RunRecord, notes: Sequence[Note], earlier: Sequence[str]) -> str:
    date = f" ({run.date})" if run.date else ""
    status = f" - {run.status}" if run.status else ""
    text = "\n".join([f"### Run: {run.name}{date}{status}", "", *_fields(run), "", "---\n\n"])
    return _with(text, run, notes, earlier)


def _fields(run: RunRecord) -> list[str]:
    price = ""
    if run.price is not None:
        price = f"${written_number(run.price)}/hr"
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
        "Reward": "" if run.reward is None else written_number(run.reward),
        "Step Time": "" if run.pace_s is None else f"~{written_number(run.pace_s)} s",
    }
    found = []
    for name, value in said.items():
        if value:
            found.append(f"- **{name}**: {_one_line(value)}")
    return found


def _blocks(run: RunRecord | None) -> list[_Block]:
    """Return the attempts, incidents and lessons that a run recorded itself, without empty ones."""
    if run is None:
        return []
    attempts = []
    for n, a in enumerate(run.attempts, 1):
        title, text = _one_line(a.title), _one_line(a.text)
        further = [f"   {text}"] if text else []
        attempts.append(_Item(f"{n}. {title}", further, f"{title} {text}".strip()))
    incidents = []
    for n, incident in enumerate(run.incidents, 1):
        further = [f"- {line}" for line in incident.text.split("\n") if line.strip()]
        further += [f"- Playbook: {name}" for name in incident.playbooks]
        incidents.append(_Item(f"**{n}. {_one_line(incident.title)}**", further))
    lessons = [_Item(f"{n}. {_one_line(lesson)}") for n, lesson in enumerate(run.lessons, 1)]
    return [
        block
        for block in (
            _Block("Attempts", re.compile(r"\d{1,3}\. "), attempts),
            _Block("Incidents and Recovery", re.compile(r"\*\*\d{1,3}\. "), incidents),
            _Block("Lessons Learned", re.compile(r"\d{1,3}\. "), lessons),
        )
        if block.items
    ]


def _noted(notes: Sequence[Note]) -> list[_Block]:
    """Return the notes of people, the statuses and the lessons among them apart, without empty
    blocks.
    """
    plain, lessons, statuses = [], [], []
    for note in notes:
        if note.status:
            why = f": {_one_line(note.text)}" if note.text else ""
            statuses.append(_Item(f"- {utc(note.t)} {note.who}: **{note.status}**{why}"))
        elif note.lesson:
            lessons.append(_Item(f"- {_one_line(note.text)}"))
        else:
            plain.append(_Item(f"- {utc(note.t)} {note.who}: {_one_line(note.text)}"))
    bullet = re.compile(r"- ")
    blocks = [
        _Block("Status", bullet, statuses),
        _Block("Notes", bullet, plain),
        _Block("Lessons Learned", bullet, lessons),
    ]
    return [block for block in blocks if block.items]


def _one_line(text: str) -> str:
    """Return the text on one line, so that the words of a person or a pod cannot begin a heading or
    a fence.
    """
    return " ".join(text.split())
