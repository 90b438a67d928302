"""The command `runs`: all runs, the run log about them, and adopting a run that was started by
hand.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from bs4_console.cli import (
    run_checklist,
    run_compare,
    run_costs,
    run_curves,
    run_document,
    run_eta,
    run_evals,
    run_milestones,
    run_notes,
    run_records,
    run_report,
    run_results,
    run_rollouts,
    run_wandb,
)
from bs4_console.cli.actions import act, exit_code
from bs4_console.cli.output import complain, emit, table
from bs4_console.cli.sessions import linked, pods, to_act_on
from bs4_console.errors import UNREACHABLE, LinkError
from bs4_console.pods.state import AttemptView, RunState
from bs4_console.printable import one_line
from bs4_console.run_log import status_file
from bs4_console.run_log.record import FINAL, RunRecord

#: The tag with which `runs list` leaves a run out.
ARCHIVED = "archived"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `runs` and its subcommands to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="the runs of a pod, or of all pods and of the run log")
    listing.add_argument(
        "--pod", metavar="NAME", help="only this pod (default: all, and the run log)"
    )
    listing.add_argument(
        "--tag",
        metavar="TAG",
        help=f"only runs with this tag (default: all but the {ARCHIVED} ones of the run log)",
    )
    show = verbs.add_parser("show", help="all that is recorded of one run")
    compare = verbs.add_parser(
        "compare",
        help="two runs, or two attempts of one, side by side: settings, data, code, packages, "
        "hardware, and what came of it",
    )
    compare.add_argument(
        "record",
        metavar="RUN",
        help="the one; RUN@2 is its attempt 2, RUN@v3 its newest attempt with that version",
    )
    compare.add_argument(
        "other",
        nargs="?",
        metavar="OTHER",
        help="the other (default: the newest launch of RUN, beside the one before that had another "
        "config or other arguments)",
    )
    back = verbs.add_parser(
        "rollback", help="write the config of an earlier version of a run again, as a file"
    )
    run_compare.configure_rollback(back)
    note = verbs.add_parser(
        "note",
        help="write something down for a run, in the run log of this machine (`note` on the screen "
        "writes to the pod, where every console reads it)",
    )
    note.add_argument("record", metavar="RUN", help="its name, as `runs list` says")
    note.add_argument("text", nargs="?", default="", metavar="TEXT", help="what to write down")
    note.add_argument("--lesson", action="store_true", help="it is a lesson learned")
    note.add_argument(
        "--status",
        choices=tuple(word.lower() for word in FINAL),
        help="what became of the run; TEXT is the reason",
    )
    note.add_argument(
        "--price", type=float, metavar="USD", help="what the pod costs, in US dollars an hour"
    )
    tag = verbs.add_parser(
        "tag", help="group runs by words; archived takes a run out of the list and deletes nothing"
    )
    tag.add_argument("record", metavar="RUN", help="its name, as `runs list` says")
    tag.add_argument("tags", nargs="+", metavar="TAG", help="such as baseline or archived")
    tag.add_argument("--remove", action="store_true", help="take these tags from the run")
    taking = verbs.add_parser(
        "import", help="take a TRAINING_RUNS document into the run log; no line of it is lost"
    )
    taking.add_argument("file", metavar="FILE", help="the Markdown document, - for standard input")
    giving = verbs.add_parser("export", help="the run log as a TRAINING_RUNS document")
    giving.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="where to write it (default: standard output)",
    )
    giving.add_argument("--force", action="store_true", help="write over a file that is there")
    listed = verbs.add_parser(
        "checklist", help="what to look at each 100 steps, with what is known of it; or order that"
    )
    run_checklist.configure(listed)
    verbs.add_parser("lessons", help="the lessons of the imported document, of runs and of all")
    costs = verbs.add_parser(
        "cost", help="what runs and rented machines have cost: by run, pod, provider or week"
    )
    run_costs.configure(costs)
    until = verbs.add_parser("eta", help="time and cost to steps 100, 500, 1000 and the end")
    until.add_argument(
        "--pace", type=float, metavar="SECONDS", help="seconds a step (default: as recorded)"
    )
    until.add_argument(
        "--price", type=float, metavar="USD", help="US dollars an hour (default: as recorded)"
    )
    until.add_argument(
        "--max-steps", type=int, metavar="N", help="the last step (default: as recorded)"
    )
    status = verbs.add_parser(
        "status", help="an entry for prime-rl's STATUS.md, printed or appended"
    )
    status.add_argument(
        "--append",
        metavar="FILE",
        help="add it to this file instead of printing it; what stands there stays",
    )
    telling = verbs.add_parser(
        "report", help="a page about a run that one would send to a colleague"
    )
    run_report.configure(telling)
    bench = verbs.add_parser(
        "bench", help="judge evaluation results against the baseline, per archetype"
    )
    bench.add_argument(
        "baseline", metavar="BASELINE", help="results of the model before training (JSON)"
    )
    bench.add_argument(
        "results",
        nargs="+",
        metavar="STEP=FILE",
        help="results of a checkpoint, for example 100=results_100.json",
    )
    results = verbs.add_parser(
        "evals",
        help="the results of an evaluation by environment and archetype, alone or beside an "
        "earlier one",
    )
    run_evals.configure(results)
    written = verbs.add_parser(
        "rollouts", help="what the model was asked, what it wrote and what that was worth"
    )
    run_rollouts.configure(written)
    stages = verbs.add_parser(
        "milestones",
        help="evaluate a run's checkpoints at steps 100, 500 and 1000, one at a time",
    )
    run_milestones.configure(stages)
    offline = verbs.add_parser(
        "wandb", help="W&B runs that were recorded offline, and the command that uploads each"
    )
    offline.add_argument(
        "directory", nargs="?", metavar="DIR", help="where to look, everything below it included"
    )
    offline.add_argument(
        "--pod", metavar="NAME", help="those of a pod's runs, which the printed command uploads"
    )
    offline.add_argument(
        "--sync",
        action="store_true",
        help="upload what is not uploaded yet, with this machine's wandb and its login",
    )
    broken = verbs.add_parser(
        "truncation", help="why tool calls of an evaluation did not parse, from its log"
    )
    broken.add_argument("file", metavar="LOG", help="the evaluation's log")
    adopt = verbs.add_parser("adopt", help="watch a run that was started by hand")
    adopt.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    adopt.add_argument(
        "--pid", type=int, help="its launcher; without it, all that are found are named"
    )
    adopt.add_argument("--run", dest="name", metavar="NAME", help="how to call it")
    for verb in (show, back, until, status, telling, written):
        verb.add_argument("record", metavar="RUN", help="its name, as `runs list` says")
    for verb in verbs.choices.values():
        verb.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Run the subcommand of `runs` that `options.verb` names (such as list, show, compare or
    adopt), and return its exit code. The code is 0 if the subcommand succeeded; what else it means
    depends on the subcommand.
    """
    waiting = {"list": _list, "adopt": _adopt}
    if options.verb in waiting:
        return asyncio.run(waiting[options.verb](options))
    verbs = {
        "show": _show,
        "compare": _compare,
        "rollback": _rollback,
        "note": run_notes.note,
        "tag": run_notes.tag,
        "import": run_document.take_in,
        "export": run_document.write_out,
        "checklist": run_checklist.run,
        "lessons": run_document.lessons,
        "cost": run_costs.cost,
        "eta": run_eta.show,
        "status": _status,
        "report": _report,
        "wandb": run_wandb.run,
        "bench": run_results.bench,
        "evals": run_evals.run,
        "rollouts": run_rollouts.run,
        "milestones": run_milestones.run,
        "truncation": run_results.truncation,
    }
    return verbs[options.verb](options)


async def _list(options: argparse.Namespace) -> int:
    """Print the runs of the pods and of the run log. Return 3 if a pod could not be reached, else
    0.
    """
    found: list[tuple[str, RunState]] = []
    code = 0
    for pod in pods(options.pod):
        try:
            async with linked(pod, deploy=False) as live:
                found += [(pod.name, state) for state in live.state.runs.values()]
        except LinkError as error:
            if options.pod:
                raise
            # The record of the pod's runs is still here. The exit code says that the list is
            # incomplete.
            complain(f"{pod.name}: {error}")
            code = UNREACHABLE
    known = run_records.records()
    tags = {name: record.tags for name, record in known.items()}
    if options.tag:
        found = [(pod, state) for pod, state in found if options.tag in tags.get(state.name, ())]
    here = {state.name for _, state in found}
    kept = {}
    if not options.pod:
        kept = {name: record for name, record in known.items() if name not in here}
    if options.tag:
        kept = {name: record for name, record in kept.items() if options.tag in record.tags}
    if options.json:
        objects = [_as_dict(name, state, known.get(state.name)) for name, state in found]
        emit("runs", runs=objects + [_kept_dict(record) for record in kept.values()])
        return code
    if not options.tag:
        kept = _without_archived(kept)
    if options.tag and not found and not kept:
        print(f"No run has the tag {options.tag}.")
        return code
    if not found and not kept:
        print(
            "No run is known. Start one with `bs4-console launch`, watch one that was started by "
            "hand with `runs adopt`, or take a log of earlier runs in with `runs import`."
        )
        return code
    rows = []
    for name, s in found:
        view = s.view
        cells = [name, s.name, view.trainer, _state(s, known.get(s.name)), _or_dash(s.step)]
        rows.append([*cells, str(len(view.attempts)), view.output_dir])
    for r in kept.values():
        place = f"({_short(r.pod)})" if r.pod else "-"
        noted = _or_dash(r.status.lower())
        if noted == "running":
            noted = "was running"  # as it was noted; no pod of this list says so now
        elif r.still:
            noted = f"was running, noted {noted}"
        cells = [place, r.name, _or_dash(r.trainer), noted, _or_dash(r.step)]
        rows.append([*cells, str(len(r.attempts)), "-"])
    table(rows, ["pod", "run", "trainer", "state", "step", "attempts", "output"])
    return code


def _state(run: RunState, record: RunRecord | None) -> str:
    """Return what a pod says of a run, with what a person decided beside it if that is another
    word.
    """
    decided = "" if record is None else record.decided.lower()
    if decided in ("", run.word):
        return run.word
    return f"{run.word}, noted {decided}"


def _without_archived(records: dict[str, RunRecord]) -> dict[str, RunRecord]:
    """Return the records that are not archived, and say on stderr how many others there are."""
    left = {name: record for name, record in records.items() if ARCHIVED not in record.tags}
    if len(left) < len(records):
        count = len(records) - len(left)
        complain(f"{count} archived: `bs4-console runs list --tag {ARCHIVED}` shows them.")
    return left


def _short(text: str) -> str:
    """Return a text of at most 28 characters."""
    if len(text) <= 28:
        return text
    return text[:27] + "…"


def _or_dash(value: object) -> str:
    """Return a value as text, or "-" if it is None or ""."""
    if value is None or value == "":
        return "-"
    return str(value)


class RunRow(TypedDict):
    """A run of a pod, in JSON output. `step` is its newest training step and `max_steps` the last
    one that it is to do; each is None if it is not known. `tags` are words that people gave the
    run. `attempts` are the lives of its processes: a relaunch is the next attempt.
    """

    pod: str
    name: str
    trainer: str
    state: str
    """What the run does, in one word: "registered", "starting", "running", "finished", "failed" or
    "stopped".
    """
    status: str
    """The status word that a person gave the run, such as "ABANDONED", or else its state in
    capitals.
    """
    status_note: str
    """The reason for the status, in a person's words, or ""."""
    step: int | None
    max_steps: int | None
    adopted: bool
    """True if a person started the run by hand and the agent watches it since then (it was
    adopted).
    """
    output_dir: str
    tags: Sequence[str]
    attempts: Sequence[AttemptView]


def _as_dict(pod: str, state: RunState, record: RunRecord | None) -> RunRow:
    """Return a pod's run as a JSON object, with what people wrote down for it in `record`."""
    view = state.view
    record = record or RunRecord(name=view.name)
    return {
        "pod": pod,
        "name": view.name,
        "trainer": view.trainer,
        "state": state.word,
        "status": record.decided or state.word.upper(),
        "status_note": record.status_note,
        "step": state.step,
        "max_steps": view.max_steps,
        "adopted": view.adopted,
        "output_dir": view.output_dir,
        "tags": record.tags,
        "attempts": list(view.attempts.values()),
    }


def _kept_dict(record: RunRecord) -> dict[str, Any]:
    """Return a record of the run log as a JSON object."""
    return {**record.as_dict(), "state": record.status.lower()}


def _show(options: argparse.Namespace) -> int:
    """Print one run, and return 0."""
    record = run_records.record_of(options.record)
    run_curves.add_checkpoints(record)
    if options.json:
        emit("run", run=_kept_dict(record))
        return 0
    print(
        f"{record.name}: {record.status.lower() or 'state unknown'}"
        + (f" ({record.status_note})" if record.status_note else "")
        + (f", {record.still}" if record.still else "")
    )
    for name in (
        "model",
        "config",
        "version",
        "lineage",
        "phase",
        "pod",
        "pod_id",
        "price",
        "start",
        "end",
        "duration",
        "step_time",
        "trainer",
        "step",
        "max_steps",
        "reward",
        "baseline",
        "final_score",
        "improvement",
        "reward_remark",
        "tokens_s",
        "expected",
        "actual",
        "speedup",
        "gpu_usage",
        "env_version",
        "wandb_project",
        "wandb",
    ):
        if getattr(record, name) not in (None, ""):
            print(f"  {name:9} {getattr(record, name)}")
    for row in record.step_times:
        print(f"  step time {row.config}: {row.step_time}")
    for attempt in record.attempts:
        print(f"  {'attempt':10}{' '.join(attempt.title.split())}")
        if attempt.number is not None and attempt.text:
            print(f"  {'':10}{attempt.text}")
    for incident in record.incidents:
        print(f"  {'incident':10}{' '.join(incident.title.split())}")
    for remark in record.remarks:
        print(f"  {'remark':10}{one_line(remark)}")
    if record.tags:
        print(f"  {'tags':9} {', '.join(record.tags)}")
    run_curves.show(record)
    for lesson in [*record.lessons, *(n.text for n in record.notes if n.lesson)]:
        print(f"  lesson    {lesson}")
    for note in record.notes:
        if not note.lesson:
            print(
                f"  note      {time.strftime('%Y-%m-%d %H:%M', time.localtime(note.t))} "
                f"{note.who}: {note.text}"
            )
    return 0


def _compare(options: argparse.Namespace) -> int:
    """Print two runs, or two attempts of one, side by side, and return 0. Raises UsageError if they
    are the same.
    """
    words = [options.record]
    if options.other is not None:
        words.append(options.other)
    one, other = run_compare.chosen(words)
    return run_compare.compare(one, other, as_json=options.json)


def _rollback(options: argparse.Namespace) -> int:
    """Write the config of an earlier version of a run, and return 0."""
    run_records.may_write(options)
    return run_compare.rollback(run_records.record_of(options.record), options)


def _status(options: argparse.Namespace) -> int:
    """Print an entry for STATUS.md or append it to a file, and return 0."""
    text = status_file.entry(run_records.record_of(options.record), time.time())
    if options.append:
        run_records.may_write(options)
        status_file.append(Path(options.append), text)
    if options.json:
        emit("run-status", run=options.record, entry=text, file=options.append)
    elif not options.append:
        print(text, end="")
    return 0


def _report(options: argparse.Namespace) -> int:
    """Write a page about one run, and return 0."""
    if options.output is not None:
        run_records.may_write(options)
    record = run_records.record_of(options.record)
    run_curves.add_checkpoints(record)
    return run_report.report(record, options)


async def _adopt(options: argparse.Namespace) -> int:
    """Adopt a run that was started by hand, or print the candidates. Return the exit code."""
    async with linked(to_act_on(options)) as live:
        action = await act(
            live, "adopt", as_json=options.json, pid=options.pid, run=options.name or ""
        )
        for candidate in action.result.get("candidates", []):
            print(f"  pid {candidate['pid']} {candidate['trainer']} {candidate['command']}")
            if candidate.get("why"):
                print(f"    {candidate['why']}")
    return exit_code(action)
