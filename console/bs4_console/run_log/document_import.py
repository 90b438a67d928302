"""Parses a run's section of a TRAINING_RUNS document into a record. What is not understood stays in
the text, so nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import starmap

from bs4_console.run_log.record import Attempt, Incident, RunRecord
from bs4_console.run_log.text import Chunk, Line, lines, run_heading

_FIELD = re.compile(r"[-*]\s+\*\*(?P<name>[^*]+?):?\*\*:?\s*(?P<value>.*)")
#: `**1. Title** rest`, `1. **Title** rest`, `1. rest`
_ITEM = re.compile(r"(?:\*\*)?\d{1,3}[.)]\s+(?P<rest>.*)")
_BULLET = re.compile(r"[-*]\s+(?P<rest>.*)")
_PRICE = re.compile(r"\$\s*(\d+(?:\.\d+)?)\s*/\s*h(?:r|our)?\b")
_STEP = re.compile(r"(\d+)(?:\s*/\s*(\d+))?")
_REWARD = re.compile(r"reward\s*[:=]?\s*(-?\d+\.\d+)", re.IGNORECASE)
_ROW = re.compile(r"\|(.+)\|\s*")


def record(chunk: Chunk) -> RunRecord:
    """Make the record of a run from its section of an imported document. Raises ValueError if the
    section's heading does not name a run (`chunk.run` is "").
    """
    heading = run_heading(chunk.title)
    if heading is None:
        raise ValueError(f"{chunk.title!r} opens no run")
    head, parts = _parts(lines(chunk.text)[1:])
    run = RunRecord(name=heading["name"], date=(heading["date"] or "").strip())
    run.fields = _fields(head)
    _known_fields(run, heading["status"] or "")
    if issue := run.fields.get("Issue", ""):
        fix = run.fields.get("Fix", "")
        run.incidents.append(Incident(issue, f"Fix: {fix}" if fix else ""))
    for title, body in parts:
        _part(run, title, body)
    return run


def rows(chunk: Chunk) -> list[RunRecord]:
    """Make a record of each run in the document's table of completed runs, which is recognised by
    its first column "Run ID" or "Run". The list is empty if `chunk` has no such table.
    """
    found: list[RunRecord] = []
    heads: list[str] | None = None
    for line in lines(chunk.text):
        row = _ROW.fullmatch(line.prose.strip())
        if row is None:
            heads = None
            continue
        cells = re.split(r"\s*\|\s*", row[1].strip())
        if heads is None:
            heads = [cell.lower() for cell in cells]
        elif heads[0] in ("run", "run id") and re.fullmatch(r"`?[\w.][^\s*`]*`?", cells[0]):
            said = dict(zip(heads, cells, strict=False))
            run = RunRecord(
                name=cells[0].strip("`"),
                status="COMPLETED",
                model=said.get("model", ""),
                start=said.get("start", ""),
            )
            run.fields = {head: cell for head, cell in zip(heads, cells, strict=False) if cell}
            reward = re.search(r"-?\d+(?:\.\d+)?", said.get("final reward", ""))
            run.reward = float(reward[0]) if reward else None
            found.append(run)
    return found


def _parts(body: Sequence[Line]) -> tuple[list[Line], list[tuple[str, list[Line]]]]:
    """Return the lines before the first heading, and then the title and lines of each heading."""
    head: list[Line] = []
    parts: list[tuple[str, list[Line]]] = []
    for line in body:
        if line.level:
            parts.append((line.title, []))
        else:
            (parts[-1][1] if parts else head).append(line)
    return head, parts


def _fields(head: Sequence[Line]) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in head:
        found = _FIELD.fullmatch(line.prose)
        if found:
            name = found["name"].strip()
            fields[name] = found["value"].strip()
        elif name and line.bare.startswith((" ", "\t")) and line.bare.strip():
            fields[name] = f"{fields[name]} {line.bare.strip()}".strip()
        else:
            name = ""
    return fields


def _known_fields(run: RunRecord, heading_status: str) -> None:
    say = {}
    for name, value in run.fields.items():
        say[name.lower()] = value
    # The heading and the field have the same status. The field may add the reason.
    word = re.match(r"[^\w]*(\w+)", heading_status) or re.match(
        r"[^\w]*(\w+)", say.get("status", "")
    )
    run.status = word[1].upper() if word else ""
    why = re.search(r"\((.*)\)", say.get("status", ""))
    run.status_note = why[1] if why else ""
    run.model, run.config, run.pod = say.get("model", ""), say.get("config", ""), say.get("pod", "")
    run.pod_id, run.start, run.end = say.get("pod id", ""), say.get("start", ""), say.get("end", "")
    run.wandb = say.get("w&b run", say.get("w&b link", say.get("w&b", "")))
    run.trainer = say.get("trainer", "")
    price = _PRICE.search(f"{run.pod} {say.get('price', '')}")
    run.price = float(price[1]) if price else None
    progress = say.get("current step") or say.get("progress", "")
    if found := _STEP.match(progress):
        run.step = int(found[1])
        run.max_steps = int(found[2]) if found[2] else None
    reward = _REWARD.search(f"{progress} {say.get('first step', '')}") or re.match(
        r"()(-?\d+\.\d+)", say.get("reward", "")
    )
    if reward:
        run.reward = float(reward[reward.lastindex or 1])


def _part(run: RunRecord, title: str, body: Sequence[Line]) -> None:
    lower = title.lower()
    if lower.startswith("earlier record"):
        return
    text = "".join(line.text for line in body).strip()
    if "lesson" in lower:
        run.lessons += [f"{head} {more}".strip() for head, more in _items(body, bullets=True)]
    elif one := re.match(r"incident\s*:\s*(.+)", title, re.IGNORECASE):
        run.incidents.append(Incident(one[1], text))
    elif "postmortem" in lower:
        run.incidents.append(Incident(title, text))
    elif re.search(r"\b(incidents?|issues?|problems?|failures?)\b", lower):
        run.incidents += list(starmap(Incident, _items(body))) or [Incident(title, text)]
    elif re.search(r"\b(attempts?|memory .*journey)\b", lower):
        run.attempts += [Attempt(title=head, text=more) for head, more in _items(body)]


def _items(body: Sequence[Line], *, bullets: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the title and the following text of each numbered item. Numbers inside an item's text
    are no items: they are indented, or not bold while the items are bold.

    If there are bold items (`**1. ...**`), only they are items, and a plain list below an item
    belongs to it. With `bullets`, bullet points are items too.
    """
    bold = any(line.prose.startswith("**") and _ITEM.match(line.prose) for line in body)
    title, rest = "", [""]
    for line in body:
        found = None
        if not bold or line.prose.startswith("**"):
            found = _ITEM.match(line.prose)
        if not found and bullets:
            found = _BULLET.match(line.prose)
        if found:
            if title:
                yield title, "".join(rest).strip()
            title, rest = found["rest"].replace("**", "").strip(), [""]
        elif title and not re.fullmatch(r"-{3,}", line.bare):
            rest.append(line.text)
    if title:
        yield title, "".join(rest).strip()
