"""The report of one run that one would send to a colleague: what it is, where it ran and what that
cost, how its reward went, what went wrong and what was learned. As Markdown, or as one HTML page
that loads nothing.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bs4_console.printable import one_line, printable
from bs4_console.run_log import eta, spending, validation
from bs4_console.run_log.record import RunRecord
from bs4_console.run_log.spending import Stay
from bs4_console.run_log.text import fenced

#: Fields of the record that stand at the top, with their names on the page.
_FACTS = {
    "model": "Model",
    "trainer": "Trainer",
    "config": "Config",
    "version": "Config version",
    "lineage": "Based on",
    "phase": "Phase",
    "start": "Start",
    "end": "End",
    "duration": "Duration",
    "baseline": "Baseline",
    "final_score": "Final",
    "improvement": "Improvement",
    "env_version": "Environment version",
    "wandb": "W&B",
}
#: The most rewards in the table.
_REWARDS = 12
#: Width and height of the figure, in pixels.
_WIDE, _HIGH = 720, 200
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{padding:.2em .8em .2em 0;text-align:left;"
    "vertical-align:top}pre{background:#8881;padding:1em;overflow:auto}svg{width:100%}"
)


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part of a report: a table with the column headings `heads` and `rows`, or a list of
    `items`, or a block of `code`. `curve` are the (step, reward) pairs of a figure, which only the
    HTML page draws.
    """

    title: str
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    items: Sequence[str] = ()
    code: str = ""
    curve: Sequence[tuple[int, float]] = ()


def markdown(run: RunRecord, stays: Sequence[Stay], config: str) -> str:
    """Return the report of `run` as Markdown. `stays` are its times on its pods, and `config` is
    the text of its newest config, or "" if that was not kept.
    """
    parts = [f"# {_heading(run)}\n"]
    for section in _sections(run, stays, config):
        lines = [f"## {section.title}", ""]
        if section.rows:
            lines += [_row(section.heads), _row(["---"] * len(section.heads))]
            lines += map(_row, section.rows)
        lines += [f"- {one_line(item)}" for item in section.items]
        if section.code:
            lines.append(fenced(section.code, "toml").rstrip("\n"))
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)


def page(run: RunRecord, stays: Sequence[Stay], config: str) -> str:
    """Return the report of `run` as an HTML page with its curve of rewards. `stays` are its times
    on its pods, and `config` is the text of its newest config, or "" if that was not kept.
    """
    title = html.escape(_heading(run))
    parts = [
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>',
        f"<style>{_STYLE}</style>\n<h1>{title}</h1>",
    ]
    for section in _sections(run, stays, config):
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        if len(section.curve) > 1:
            parts.append(_figure(section.curve))
        if section.rows:
            cells = [_cells(section.heads, "th"), *(_cells(row, "td") for row in section.rows)]
            parts.append(f"<table>{''.join(cells)}</table>")
        if section.items:
            items = "".join(f"<li>{html.escape(one_line(item))}</li>" for item in section.items)
            parts.append(f"<ul>{items}</ul>")
        if section.code:
            parts.append(f"<pre>{html.escape(section.code)}</pre>")
    return "\n".join([*parts, "</html>\n"])


def _heading(run: RunRecord) -> str:
    """Return the run's name with its status and the reason of it."""
    text = f"{run.name}: {run.status.lower() or 'state unknown'}"
    if run.status_note:
        text += f" ({run.status_note})"
    return one_line(text)


def _sections(run: RunRecord, stays: Sequence[Stay], config: str) -> Iterator[Section]:
    """Yield the parts of the report that have something to say."""
    rewards = [(step, value) for step, value in run.rewards if math.isfinite(value)]
    for section in (
        Section(title="In short", heads=("", ""), rows=_facts(run)),
        Section(
            title="Reward",
            heads=("step", "reward"),
            rows=[[f"{step}", f"{value:.4f}"] for step, value in _some(rewards)],
            curve=rewards,
        ),
        Section(title="Validation", items=_validations(run)),
        Section(title="Where it ran", heads=("pod", "time", "cost"), rows=_places(stays)),
        Section(
            title="Attempts", items=[f"{one.title} {one.text}".strip() for one in run.attempts]
        ),
        Section(title="What went wrong", items=_incidents(run)),
        Section(
            title="Learned",
            items=[*run.lessons, *(note.text for note in run.notes if note.lesson)],
        ),
        Section(title="As written", items=run.remarks),
        Section(
            title="Notes",
            items=[f"{n.who}: {n.text}" for n in run.notes if not n.lesson and not n.status],
        ),
        Section(title="Config", code=printable(config)),
    ):
        if section.rows or section.items or section.code:
            yield section


def _facts(run: RunRecord) -> list[list[str]]:
    """Return the facts about a run that are known, as rows, and behind them the other fields of
    an imported run.
    """
    rows = []
    for name, title in _FACTS.items():
        if value := getattr(run, name):
            rows.append([title, str(value)])
    for name, value in run.hardware.items():
        rows.append([name.capitalize(), value])
    if run.step is not None:
        steps = f"{run.step} of {run.max_steps}" if run.max_steps else f"{run.step}"
        rows.append(["Step", steps])
    if run.reward is not None:
        rows.append(["Reward", f"{run.reward:.4f}"])
    if run.pace_s is not None:
        rows.append(["Step time", f"{run.pace_s:.1f} s"])
    shown = {run.name, *(value for _, value in rows)}
    for name, value in run.fields.items():
        if run.source == "log" and value and value not in shown:
            rows.append([name, value])
    return rows


def _some(rewards: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return at most `_REWARDS` of the rewards, evenly spaced, the last one among them."""
    every = -(-len(rewards) // _REWARDS) or 1
    return list(rewards[::-1][::every])[::-1]


def _validations(run: RunRecord) -> list[str]:
    lines = []
    for curve in run.validation:
        lines += validation.describe(curve)
    return lines


def _places(stays: Sequence[Stay]) -> list[list[str]]:
    """Return a row for each pod, and one for all if there are several."""
    rows = []
    for stay in stays:
        cost = "not known" if stay.cost is None else f"${stay.cost:.2f}"
        rows.append([stay.pod, eta.describe(stay.until_t - stay.began_t), cost])
    if len(stays) > 1:
        seconds = sum(stay.until_t - stay.began_t for stay in stays)
        rows.append(["in all", eta.describe(seconds), _in_all(stays)])
    return rows


def _in_all(stays: Sequence[Stay]) -> str:
    """Return what the stays cost together, as far as that is known."""
    known = [stay for stay in stays if stay.price is not None]
    if not known:
        return "not known"
    dollars = f"${spending.total(known):.2f}"
    if len(known) < len(stays):
        return f"at least {dollars}"
    return dollars


def _incidents(run: RunRecord) -> list[str]:
    lines = []
    for incident in run.incidents:
        lines.append(f"{incident.title}: {incident.text}".rstrip(": "))
        for playbook in incident.playbooks:
            lines[-1] += f" Repaired by {playbook}."
    return lines


def _row(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(one_line(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _cells(row: Sequence[str], tag: str) -> str:
    """Return a row of an HTML table."""
    cells = "".join(f"<{tag}>{html.escape(one_line(cell))}</{tag}>" for cell in row)
    return f"<tr>{cells}</tr>"


def _figure(curve: Sequence[tuple[int, float]]) -> str:
    """Return a curve as SVG, with its least and greatest value and its first and last step."""
    steps, values = [step for step, _ in curve], [value for _, value in curve]
    low, high = min(values), max(values)
    across, up = (steps[-1] - steps[0]) or 1, (high - low) or 1.0
    points = []
    for step, value in curve:
        x = (step - steps[0]) / across * _WIDE
        y = _HIGH - (value - low) / up * _HIGH
        points.append(f"{x:.1f},{y:.1f}")
    said = f"Reward from step {steps[0]} to {steps[-1]}, between {low:.4f} and {high:.4f}"
    return (
        f'<svg viewBox="0 -8 {_WIDE} {_HIGH + 16}" role="img"><title>{said}</title>'
        f'<polyline fill="none" stroke="#2a7" stroke-width="2" points="{" ".join(points)}"/></svg>'
        f"<p>{said}.</p>"
    )
