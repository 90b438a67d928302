"""Parses a run's section of a TRAINING_RUNS document into a record. What is not understood stays in
the text, so nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap

from bs4_console.run_log import written_values
from bs4_console.run_log.record import Attempt, Incident, Lesson, RunRecord, StepTime
from bs4_console.run_log.tables import run_named, run_tables, tables
from bs4_console.run_log.text import RUN_LEVEL, Chunk, Line, lines, run_heading

_FIELD = re.compile(r"[-*]\s+\*\*(?P<name>[^*]+?):?\*\*:?\s*(?P<value>.*)")
#: `**1. Title** rest`, `1. **Title** rest`, `1. rest`
_ITEM = re.compile(r"(?:\*\*)?\d{1,3}[.)]\s+(?P<rest>.*)")
_BULLET = re.compile(r"[-*]\s+(?P<rest>.*)")
_PRICE = re.compile(r"\$\s*(\d[\d,]*(?:\.\d+)?(?:e-?\d{1,3})?)\s*/\s*h(?:r|our)?\b")
_REWARD = re.compile(r"reward\s*[:=]?\s*([-+\u2212]?\d*\.\d+\S*)", re.IGNORECASE)
#: The state that a person wrote behind an incident's title.
_STATE = re.compile(r"\((RESOLVED|OPEN|FIXED|MITIGATED)\)", re.IGNORECASE)
_MARK = re.compile(r"- .{1,120}: \*\*(?P<status>[A-Z]{3,20})\*\*(?:: (?P<why>.*))?")
_METRIC = re.compile(
    r"[-*]\s+(?:\*\*)?(?P<name>Baseline|Final|Improvement)(?:\*\*)?:(?:\*\*)?\s*(?P<value>.+)",
    re.IGNORECASE,
)


def record(chunk: Chunk) -> RunRecord:
    """Return the record of a run that is made from `chunk`, the part of an imported document below
    the run's heading. Raises ValueError if the heading does not name a run (`chunk.run` is "").
    """
    heading = run_heading(chunk.title)
    if heading is None:
        raise ValueError(f"{chunk.title!r} opens no run")
    head, parts = _parts(lines(chunk.text)[1:])
    run = RunRecord(name=heading["name"], date=(heading["date"] or "").strip())
    run.fields = _fields(head)
    run.remarks = _paragraphs(_free(head))
    _known_fields(run, heading["status"] or "")
    run.version = written_values.config_version(run.config, [title for title, _ in parts])
    if issue := run.fields.get("Issue", ""):
        fix = run.fields.get("Fix", "")
        run.incidents.append(Incident(issue, f"Fix: {fix}" if fix else ""))
    for title, body in parts:
        _part(run, title, body)
        if config := written_values.toml_in(body):
            run.configs[title] = config
            run.lineage = run.lineage or written_values.based_on(config)
            run.max_steps = run.max_steps or written_values.max_steps(config)
    for table in tables(lines(chunk.text)):
        heads = table.columns
        if heads[0] == "setting":
            run.lineage = run.lineage or written_values.column_before(run.version, heads)
        elif "step time" in heads[1:]:
            run.step_times += [_step_time(heads, cells) for cells in table.rows if cells[0]]
    return run


def _step_time(heads: Sequence[str], cells: Sequence[str]) -> StepTime:
    """Return a row of a table that has a column of step times."""
    more = {head: cell.strip("*") for head, cell in zip(heads[1:], cells[1:], strict=False)}
    text = more.pop("step time", "")
    return StepTime(
        config=cells[0].strip("*"),
        step_time=text,
        seconds=written_values.seconds(text),
        more=more,
    )


def lessons(parts: Sequence[Chunk]) -> list[Lesson]:
    """Return the lessons of a whole document, in its order. `parts` are the document's chunks.

    Lessons are looked for in two places. In the section of a run they have no topic (""). Below a
    heading of level 1 or 2 that has the word "lesson", each chunk is a lesson, and its heading is
    the topic. The next heading of level 1 or 2 without that word ends this.
    """
    found: list[Lesson] = []
    inside = False
    for chunk in parts:
        if chunk.run:
            said = record(chunk)
            found += [Lesson(said.name, "", text) for text in said.lessons]
            continue
        if 0 < chunk.level < RUN_LEVEL:
            inside = "lesson" in chunk.title.lower()
        text = re.sub(r"\n-{3,}\s*$", "", chunk.text.partition("\n")[2]).strip()
        if inside and text:
            found.append(Lesson("", chunk.title, text))
    return found


def rows(parts: Sequence[Chunk]) -> list[RunRecord]:
    """Return a record of each run that a table of runs lists. `parts` are the chunks of the
    document. The heading above the table says what became of its runs.
    """
    found: list[RunRecord] = []
    for listed in run_tables(parts):
        heads = listed.table.columns
        for cells in listed.table.rows:
            name = run_named(cells[0])
            if not name:
                continue
            said = dict(zip(heads, cells, strict=False))
            run = RunRecord(
                name=name,
                status=listed.status,
                model=said.get("model", ""),
                start=said.get("start", ""),
            )
            run.fields = {head: cell for head, cell in said.items() if cell}
            run.reward = written_values.number(said.get("final reward", ""))
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


def _free(head: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines that belong to no field."""
    inside = False
    for line in head:
        is_further = line.bare.startswith((" ", "\t")) and bool(line.bare.strip())
        inside = bool(_FIELD.fullmatch(line.prose)) or (inside and is_further)
        if not inside:
            yield line


def _paragraphs(body: Iterable[Line]) -> list[str]:
    """Return the paragraphs of prose, each on one line. Code, tables and rules are left out."""
    found = [""]
    for line in body:
        text = line.prose.strip()
        if not text:
            found.append("")
        elif not text.startswith("|") and not re.fullmatch(r"-{3,}", text):
            found[-1] = f"{found[-1]} {text}".strip()
    return [paragraph for paragraph in found if paragraph]


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
    run.lineage = say.get("based on", say.get("lineage", ""))
    price = _PRICE.search(f"{run.pod} {say.get('price', '')}")
    run.price = float(price[1].replace(",", "")) if price else None
    progress = say.get("current step") or say.get("progress", "")
    run.step, run.max_steps = written_values.steps(progress)
    run.step_time, run.duration = say.get("step time", ""), say.get("duration", "")
    run.gpu_usage, run.baseline = say.get("gpu usage", ""), say.get("baseline", "")
    run.speedup, run.env_version = say.get("speedup", ""), say.get("env version", "")
    run.wandb_project = say.get("w&b project", "")
    run.expected, run.actual = say.get("expected", ""), say.get("actual", "")
    run.reward_remark = say.get("rewards", "")
    numbers = f"{progress} {say.get('first step', '')}"
    run.pace_s = written_values.seconds(run.step_time)
    if run.pace_s is None:
        run.pace_s = written_values.seconds_within(numbers)
    run.tokens_s = written_values.tokens_within(numbers)
    run.started_t = written_values.moment(run.start)
    run.ended_t = written_values.moment(run.end)
    if run.started_t is not None and run.ended_t is not None and run.ended_t < run.started_t:
        run.ended_t = None
    reward = _REWARD.search(numbers)
    run.reward = written_values.number(reward[1] if reward else say.get("reward", ""))


def _part(run: RunRecord, title: str, body: Sequence[Line]) -> None:
    lower = title.lower()
    if lower.startswith("earlier record"):
        return
    text = "".join(line.text for line in body).strip()
    if lower == "status":
        _marks(run, body)
    elif lower == "metrics":
        _metrics(run, body)
    elif "lesson" in lower:
        run.lessons += [f"{head} {more}".strip() for head, more in _items(body, bullets=True)]
    elif one := re.match(r"incident\s*:\s*(.+)", title, re.IGNORECASE):
        run.incidents.append(Incident(one[1], text))
    elif "postmortem" in lower:
        run.incidents.append(Incident(title, text))
    elif re.search(r"\b(incidents?|issues?|problems?|failures?)\b", lower):
        found = list(starmap(Incident, _items(body))) or [Incident(title, text)]
        for incident in found:
            if state := _STATE.search(incident.title):
                incident.state = state[1].lower()
        run.incidents += found
    elif re.search(r"\b(attempts?|memory .*journey)\b", lower):
        run.attempts += [Attempt(title=head, text=more) for head, more in _items(body)]
    else:
        run.remarks += [f"{title}: {paragraph}" for paragraph in _paragraphs(body)]


def _marks(run: RunRecord, body: Sequence[Line]) -> None:
    """Take the last status that a person gave the run by command (`- TIME WHO: **WORD**: why`)."""
    for line in body:
        if found := _MARK.fullmatch(line.prose.strip()):
            run.status, run.status_note = found["status"], found["why"] or ""


def _metrics(run: RunRecord, body: Sequence[Line]) -> None:
    """Take the results on a benchmark (`- Baseline: 40%`)."""
    for line in body:
        found = _METRIC.fullmatch(line.prose.strip())
        if found is None:
            continue
        value = found["value"].strip()
        if found["name"].lower() == "baseline":
            run.baseline = value
        elif found["name"].lower() == "final":
            run.final_score = value
        else:
            run.improvement = value


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
