"""The command `runs`: all runs, the run log about them, and adopting a run that was started by
hand.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import re
import shlex
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from bs4_console import files
from bs4_console.cli import (
    run_checklist,
    run_compare,
    run_costs,
    run_curves,
    run_evals,
    run_milestones,
    run_report,
    run_rollouts,
)
from bs4_console.cli.actions import act, exit_code
from bs4_console.cli.output import complain, emit, finding_code, table
from bs4_console.cli.sessions import linked, pods, to_act_on, who
from bs4_console.errors import (
    UNREACHABLE,
    ConsoleError,
    LinkError,
    RefusedError,
    RemoteError,
    UsageError,
)
from bs4_console.pods import shell
from bs4_console.pods.inventory import Pod
from bs4_console.pods.state import AttemptView, RunState
from bs4_console.run_log import config_texts, eta, evals, record_fold, status_file, wandb_import
from bs4_console.run_log.document import RunLog
from bs4_console.run_log.record import FINAL, RunRecord, in_order
from bs4_console.secret import redacted

#: Seconds to wait for a pod's newest data about its runs.
_LOOK_S = 20.0
#: The tag with which `runs list` leaves a run out.
ARCHIVED = "archived"
_TAG = re.compile(r"[\w.-]{1,40}")
#: Bytes. A log that is kept by hand has some hundred KB; a larger file is probably the wrong one.
_DOCUMENT_BYTES = 32 * 1024 * 1024


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
        help="two runs side by side: settings, data, code, packages, hardware, and what came of it",
    )
    compare.add_argument("record", metavar="RUN", help="the one")
    compare.add_argument("other", metavar="OTHER", help="the other")
    back = verbs.add_parser(
        "rollback", help="write the config of an earlier version of a run again, as a file"
    )
    run_compare.configure_rollback(back)
    note = verbs.add_parser("note", help="write something down for a run")
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
    costs = verbs.add_parser("cost", help="what runs have cost, on each of their pods and in all")
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
    adopt), and return its exit code. The code is 0 if the subcommand succeeded.
    """
    waiting = {"list": _list, "adopt": _adopt}
    if options.verb in waiting:
        return asyncio.run(waiting[options.verb](options))
    verbs = {
        "show": _show,
        "compare": _compare,
        "rollback": _rollback,
        "note": _note,
        "tag": _tag,
        "import": _import,
        "export": _export,
        "checklist": run_checklist.run,
        "lessons": _lessons,
        "cost": run_costs.cost,
        "eta": _eta,
        "status": _status,
        "report": _report,
        "wandb": _wandb,
        "bench": _bench,
        "evals": run_evals.run,
        "rollouts": run_rollouts.run,
        "milestones": run_milestones.run,
        "truncation": _truncation,
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
    known = _records()
    tags = {name: record.tags for name, record in known.items()}
    if options.tag:
        found = [(pod, state) for pod, state in found if options.tag in tags.get(state.name, ())]
    kept = {} if options.pod else known
    for _, state in found:
        kept.pop(state.name, None)
    if options.tag:
        kept = {name: record for name, record in kept.items() if options.tag in record.tags}
    if options.json:
        objects = [_as_dict(name, state, tags.get(state.name, [])) for name, state in found]
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
        cells = [name, s.name, view.trainer, s.word, _or_dash(s.step)]
        rows.append([*cells, str(len(view.attempts)), view.output_dir])
    for r in kept.values():
        place = f"({_short(r.pod)})" if r.pod else "-"
        noted = _or_dash(r.status.lower())
        if noted == "running":
            noted = "was running"  # as it was noted; no pod of this list says so now
        cells = [place, r.name, _or_dash(r.trainer), noted, _or_dash(r.step)]
        rows.append([*cells, str(len(r.attempts)), "-"])
    table(rows, ["pod", "run", "trainer", "state", "step", "attempts", "output"])
    return code


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
    """A pod's run in JSON output."""

    pod: str
    name: str
    trainer: str
    state: str
    """In one word; see RunState.word."""
    step: int | None
    max_steps: int | None
    adopted: bool
    """True if it was started by hand."""
    output_dir: str
    tags: Sequence[str]
    attempts: Sequence[AttemptView]


def _as_dict(pod: str, state: RunState, tags: list[str]) -> RunRow:
    """Return a pod's run with its tags as a JSON object."""
    view = state.view
    return {
        "pod": pod,
        "name": view.name,
        "trainer": view.trainer,
        "state": state.word,
        "step": state.step,
        "max_steps": view.max_steps,
        "adopted": view.adopted,
        "output_dir": view.output_dir,
        "tags": tags,
        "attempts": list(view.attempts.values()),
    }


def _kept_dict(record: RunRecord) -> dict[str, Any]:
    """Return a record of the run log as a JSON object."""
    return {**record.as_dict(), "state": record.status.lower()}


def _own() -> dict[str, RunRecord]:
    """Return what the runs recorded themselves, by name. If several pods have a run of the same
    name, they are one history: that of a run that was moved.
    """
    found: dict[str, list[RunRecord]] = {}
    for pod in record_fold.mirrored():
        for state in pod.runs.values():
            found.setdefault(state.name, []).append(record_fold.fold(pod, state))
    return {name: record_fold.continued(records) for name, records in found.items()}


def _records() -> dict[str, RunRecord]:
    """Return the run log by name. What the runs recorded themselves overrides what was written by
    hand, except for the price.
    """
    found = RunLog().records()
    for name, own in _own().items():
        by_hand = found.get(name)
        if by_hand is not None:
            own.notes = in_order(own.notes, by_hand.notes)
            own.lessons, own.tags = by_hand.lessons, by_hand.tags
            own.mark(own.notes)
            own.incidents = [*by_hand.incidents, *own.incidents]
            own.attempts = [*by_hand.attempts, *own.attempts]
            own.fields = by_hand.fields
            if by_hand.price is not None:  # it overrides the inventory's
                own.price = by_hand.price
            for key in ("model", "config", "pod_id", "wandb", "reward"):
                setattr(own, key, getattr(own, key) or getattr(by_hand, key))
        found[name] = own
    return found


def _record(name: str) -> RunRecord:
    """Return the record of a run as its pod knows it now, or as it was last seen if the pod cannot
    be reached.

    All pods are searched for a run without a record. Raises UsageError if none knows it.
    """
    known = _records().get(name)
    asked = list(pods(None))
    if known is not None:
        going = known.status not in FINAL
        asked = [pod for pod in asked if going and pod.name == known.source]
    asyncio.run(_look_again(asked))
    found = _records().get(name)
    if found is None:
        raise UsageError(f"No run {name} is known.", "`bs4-console runs list` names them all.")
    return found


async def _look_again(asked: Sequence[Pod]) -> None:
    """Update what is kept of some pods. A pod that cannot be reached is named, and what was last
    seen of it counts.
    """

    async def look(pod: Pod) -> None:
        try:
            async with linked(pod, deploy=False, timeout=_LOOK_S) as live:
                await config_texts.keep_of(live)
        except ConsoleError as error:
            complain(
                f"{pod.name} could not be asked, so its runs are as they were last seen: {error}"
            )

    await asyncio.gather(*(look(pod) for pod in asked))


def _show(options: argparse.Namespace) -> int:
    """Print one run, and return 0."""
    record = _record(options.record)
    run_curves.add_checkpoints(record)
    if options.json:
        emit("run", run=_kept_dict(record))
        return 0
    print(
        f"{record.name}: {record.status.lower() or 'state unknown'}"
        + (f" ({record.status_note})" if record.status_note else "")
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
    for title, items in (("attempts", record.attempts), ("incidents", record.incidents)):
        for item in items:
            print(f"  {title[:-1]:10}{item.title}")
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


def _lessons(options: argparse.Namespace) -> int:
    """Print the lessons of the imported document, and return 0."""
    found = RunLog().lessons()
    if options.json:
        emit("run-lessons", lessons=found)
        return 0
    for one in found:
        print(f"{one.run or one.topic}:")
        print(textwrap.indent(one.text, "  "))
    if not found:
        print("No lesson is known. `runs import FILE` takes a document in.")
    return 0


def _compare(options: argparse.Namespace) -> int:
    """Print two runs side by side, and return 0. Raises UsageError if they are the same run."""
    one, other = _record(options.record), _record(options.other)
    if one.name == other.name:
        raise UsageError(
            f"{one.name} cannot be compared with itself.", "Name two runs; `runs list` has them."
        )
    return run_compare.compare(one, other, as_json=options.json)


def _rollback(options: argparse.Namespace) -> int:
    """Write the config of an earlier version of a run, and return 0."""
    _may_write(options)
    return run_compare.rollback(_record(options.record), options)


def _note(options: argparse.Namespace) -> int:
    """Write a note, a lesson or a price to the run log, and return 0."""
    _may_write(options)
    if not options.text.strip() and options.price is None and options.status is None:
        raise UsageError("There is nothing to write down.", "Give a TEXT, --status or --price.")
    if options.lesson and options.status is not None:
        raise UsageError("A status is no lesson.", "Write the lesson down by a second `runs note`.")
    if options.price is not None and not 0 <= options.price < 10_000:
        raise UsageError(f"${options.price:g} an hour is no price.", "Give US dollars an hour.")
    _record(options.record)
    RunLog().note(
        options.record,
        options.text.strip(),
        who(),
        lesson=options.lesson,
        price=options.price,
        status=(options.status or "").upper(),
    )
    if options.json:
        emit(
            "run-note",
            run=options.record,
            text=options.text.strip(),
            lesson=options.lesson,
            price=options.price,
            status=options.status,
        )
    else:
        print(f"Written down for {options.record}.")
    return 0


def _tag(options: argparse.Namespace) -> int:
    """Give a run tags or take them from it, and return 0."""
    _may_write(options)
    for tag in options.tags:
        if _TAG.fullmatch(tag) is None:
            raise UsageError(
                f"{tag!r} is no tag.", "Give a word of letters, digits, `.`, `_` and `-`."
            )
    _record(options.record)
    tags = RunLog().tag(options.record, options.tags, who(), remove=options.remove)
    if options.json:
        emit("run-tag", run=options.record, tags=tags)
    else:
        print(f"{options.record}: {', '.join(tags) or 'no tags'}")
    return 0


def _import(options: argparse.Namespace) -> int:
    """Import a TRAINING_RUNS document into the run log, and return 0."""
    _may_write(options)
    done = RunLog().import_text(_text(options.file))
    listed = dataclasses.asdict(done)
    if options.json:
        emit("runs-import", **listed)
        return 0
    for word, names in listed.items():
        for name in names:
            print(f"{word:9}{name}")
    if not (done.added or done.changed or done.same):
        print(
            "No run is in it; its text is kept. A run's heading reads: ### Run: NAME (DATE) "
            "- STATUS"
        )
    return 0


def _export(options: argparse.Namespace) -> int:
    """Write the run log as a TRAINING_RUNS document, and return 0. Raises RefusedError if the file
    exists and --force is not given.
    """
    asyncio.run(_look_again(pods(None)))
    own = _own()
    log = RunLog()
    for name, record in log.records().items():
        if name in own:
            own[name].price = own[name].price or record.price
    text = redacted(log.export(own.values()))
    if options.json:
        emit("runs-export", markdown=text, runs=list(_records()))
        return 0
    if options.file == "-":
        # As bytes, so that what was imported comes out unchanged, whatever the line ends and the
        # locale.
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
        return 0
    path = Path(options.file)
    if path.exists() and not options.force:
        raise RefusedError(f"{path} is there already.", "Write over it with --force.")
    files.replace(path, text.encode())
    return 0


def _eta(options: argparse.Namespace) -> int:
    """Print the time and cost to several steps, and return 0. Raises UsageError if the step time is
    not known.
    """
    record = _record(options.record)
    pace = options.pace or record.pace_s
    price = record.price if options.price is None else options.price
    if pace is None:
        raise UsageError(
            f"No step time of {record.name} is recorded.", "Give seconds a step with --pace."
        )
    done = record.step or 0
    if record.step is not None and record.source != "log":
        done += 1
    so_far = run_costs.spent(record.name, options.price)
    if record.source == "log":
        so_far = eta.cost(price, _elapsed(record, done * pace))
    goals = eta.milestones(
        done, pace, max_steps=options.max_steps or record.max_steps, price=price, spent=so_far
    )
    if options.json:
        emit(
            "run-eta",
            run=record.name,
            done=done,
            pace_s=pace,
            price=price,
            cost_so_far=so_far,
            milestones=goals,
        )
        return 0
    spent = "cost so far unknown (give --price)"
    if so_far is not None:
        spent = f"${so_far:.2f} so far"
    print(f"{record.name}: {done} steps done, {pace:.0f} s a step, {spent}")
    rows = []
    for g in goals:
        rows.append(
            [
                str(g.step),
                eta.describe(g.seconds) if g.seconds else "reached",
                "-" if g.cost is None else f"${g.cost:.2f}",
            ]
        )
    table(rows, ["step", "in", "cost until then"])
    return 0


def _elapsed(record: RunRecord, trained_s: float) -> float | None:
    """Return the seconds for which an imported run had its pod, or None if they are not known. A
    document of months ago still says RUNNING, so a run without an end had it for `trained_s`, the
    seconds that its steps took.
    """
    if record.ended_t is None:
        return trained_s
    if record.started_t is None:
        return None
    return record.ended_t - record.started_t


def _status(options: argparse.Namespace) -> int:
    """Print an entry for STATUS.md or append it to a file, and return 0."""
    text = status_file.entry(_record(options.record), time.time())
    if options.append:
        _may_write(options)
        status_file.append(Path(options.append), text)
    if options.json:
        emit("run-status", run=options.record, entry=text, file=options.append)
    elif not options.append:
        print(text, end="")
    return 0


def _report(options: argparse.Namespace) -> int:
    """Write a page about one run, and return 0."""
    if options.output is not None:
        _may_write(options)
    record = _record(options.record)
    run_curves.add_checkpoints(record)
    return run_report.report(record, options)


def _wandb(options: argparse.Namespace) -> int:
    """Print the W&B runs that were recorded offline and upload them with --sync. Return 1 if some
    are not uploaded, else 0.
    """
    if (options.directory is None) == (options.pod is None) or (options.pod and options.sync):
        raise UsageError(
            "Offline runs are looked for below one directory, or on one pod.",
            "Give DIR, or --pod NAME without --sync.",
        )
    if options.pod:
        found = asyncio.run(_offline_of_pod(options.pod))
    elif (root := Path(options.directory)).is_dir():
        found = wandb_import.find(root)
    else:
        raise UsageError(
            f"There is no directory {root}.", "Give one that holds W&B's own `wandb` directory."
        )
    waiting = [run for run in found if not run.synced]
    failed = waiting
    if options.sync:
        _may_write(options)
        failed = [run for run in waiting if wandb_import.sync(run) != 0]
    if options.json:
        emit("runs-wandb", runs=found, waiting=[run.id for run in failed])
    else:
        for run in failed:
            print(shlex.join(run.argv))
        print(f"{len(found)} offline runs, {len(failed)} not uploaded.")
    return finding_code(failed)


async def _offline_of_pod(name: str) -> list[wandb_import.OfflineRun]:
    """Return the offline W&B runs of all runs of a pod. A run whose directories cannot be listed is
    named on standard error.
    """
    (pod,) = pods(name)
    found = {}
    async with linked(pod, deploy=False) as live:
        for state in live.state.runs.values():
            try:
                words = () if pod.is_local else shell.of_pod(pod)
                for one in await wandb_import.of_pod(live, state.view, words):
                    found[one.path] = one
            except RemoteError as error:
                complain(f"{state.name}: {error}")
    return list(found.values())


def _bench(options: argparse.Namespace) -> int:
    """Compare evaluation results with the baseline. Return 1 if a result is behind, worse or at a
    standstill, else 0.
    """
    baseline = evals.read(Path(options.baseline))
    results: dict[int, evals.Result] = {}
    for word in options.results:
        step, _, file = word.partition("=")
        if not step.isdecimal() or not file:
            raise UsageError(
                f"{word!r} names no result.", "Write STEP=FILE, for example 100=results_100.json."
            )
        results[int(step)] = evals.read(Path(file))
    verdicts = []
    for number in sorted(results):
        verdicts.append(evals.judge(baseline, number, results[number], results.get(500)))
    if options.json:
        emit("run-bench", verdicts=verdicts)
    else:
        for v in verdicts:
            print(f"step {v.step}: {v.points:+.1f} points, {v.word}. {v.advice}")
            for name, change in v.archetypes.items():
                print(f"  {change:+.3f}  {name}")
    return finding_code(any(v.word in ("behind", "worse", "standstill") for v in verdicts))


def _truncation(options: argparse.Namespace) -> int:
    """Print why tool calls did not parse. Return 1 if there are malformed calls, else 0."""
    found = evals.truncation(_text(options.file))
    if options.json:
        emit("run-truncation", **dataclasses.asdict(found))
    else:
        causes = ", ".join(f"{count} {name}" for name, count in found.causes.items() if count)
        print(
            f"{found.malformed} malformed tool calls, {found.unrepaired} not repaired: "
            f"{causes or 'no known cause'}. {found.advice}".rstrip()
        )
    return finding_code(found.malformed)


def _text(file: str) -> str:
    """Return the text of a file, or of standard input for "-". Raises UsageError if it cannot be
    read, is too large, or is not UTF-8.
    """
    path = Path(file)
    if file != "-" and path.is_file() and path.stat().st_size > _DOCUMENT_BYTES:
        raise UsageError(
            f"{file} is larger than {_DOCUMENT_BYTES >> 20} MiB.", "Is it the right file?"
        )
    try:
        return (
            sys.stdin.buffer.read(_DOCUMENT_BYTES) if file == "-" else path.read_bytes()
        ).decode()
    except FileNotFoundError:
        raise UsageError(
            f"There is no file {file}.", "Give the path of a file, or - for standard input."
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file} is no UTF-8 text (byte {error.start}).", "Convert it, for example with iconv."
        ) from error


def _may_write(options: argparse.Namespace) -> None:
    """Raise RefusedError if the console is read-only."""
    if getattr(options, "read_only", False):
        raise RefusedError(
            "Nothing was written down: this console was started with --read-only.",
            "Start it without, to write.",
        )


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
