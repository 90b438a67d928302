"""The command `playbook`: the known failures, the plan of a fix, and carrying the plan out after a
confirmation that names its hash.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
from pathlib import Path

from bs4_console.assets import checkout
from bs4_console.cli.actions import act, exit_code
from bs4_console.cli.output import complain, emit, plan_text, table
from bs4_console.cli.sessions import ask, is_terminal, linked, to_act_on
from bs4_console.errors import FINDING, REFUSED, NotApplicableError, RefusedError, UsageError
from bs4_console.failures.new_file import create
from bs4_console.failures.playbook_file import PlaybookFile
from bs4_console.failures.playbooks import lint, shipped
from bs4_console.failures.step_words import sentence, verified
from bs4_console.pods.inventory import Inventory
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PlanView
from bs4_console.suggest import did_you_mean
from bs4_console.trainers.registry import TRAINERS

#: What is said of an option that people expect.
INSTEAD = {
    "--yes": (
        "A playbook has no --yes, because what it does to processes and files is read before it "
        "is done. `bs4-console playbook plan ID --pod NAME` prints the plan and its hash; then "
        "`bs4-console playbook run ID --pod NAME --plan HASH` carries out just that plan, with "
        "--confirm RUN where it asks for the run's name."
    )
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `playbook` and its subcommands to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="every playbook")
    show = verbs.add_parser("show", help="what a failure is, how it is found and what the fix does")
    show.add_argument("id", help="which playbook")
    plan = verbs.add_parser(
        "plan", help="the concrete steps on a pod right now; nothing is touched"
    )
    do = verbs.add_parser("run", help="carry out a plan")
    for verb in (plan, do):
        verb.add_argument("id", help="which playbook")
        verb.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
        verb.add_argument(
            "--run", dest="name", metavar="NAME", help="optional when the pod has one run"
        )
    do.add_argument(
        "--plan",
        dest="hash",
        metavar="HASH",
        help="the hash that `playbook plan` printed; without it, asked for on a terminal",
    )
    attempt = verbs.add_parser("try", help="break a practice pod that way and mend it")
    attempt.add_argument(
        "id",
        nargs="?",
        help="which failure, or id/variant; without it, those that can be tried are listed",
    )
    attempt.add_argument(
        "--trainer",
        choices=tuple(TRAINERS),
        help="which generation (default: one that can fail that way)",
    )
    attempt.add_argument(
        "--no-fix", action="store_true", help="detect and plan, but leave it broken"
    )
    do.add_argument(
        "--confirm", metavar="RUN", help="the run's name, where the playbook asks for it"
    )
    new = verbs.add_parser("new", help="write the file of a new known failure, to be filled in")
    new.add_argument("id", metavar="ID", help="lower-case words with dashes, as in nccl-timeout")
    new.add_argument("--family", help="its folder (default: the family that the id begins with)")
    new.add_argument("--title", default="", metavar="TEXT", help="what is wrong, in plain words")
    new.add_argument(
        "--to",
        metavar="DIR",
        help="a folder per family (default: `playbooks` of the checkout this runs from)",
    )
    check = verbs.add_parser("lint", help="check playbook files, and say what they still lack")
    check.add_argument(
        "directory", nargs="?", help="a folder per family (default: those of this installation)"
    )
    for verb in (listing, show, plan, do, attempt, new, check):
        verb.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Run the subcommand of `playbook` that `options.verb` names, and return its exit code. A
    playbook is the file of one known failure: how it is recognised and what repairs it.

    The code is 1 if `lint` finds problems in a playbook, if the practice run in which `try` caused
    a failure does not train again, or if the repair that `run` carried out failed. It is 4 if `run`
    was refused or not confirmed. Else it is 0.
    """
    if options.verb in ("plan", "run"):
        return asyncio.run(_plan(options) if options.verb == "plan" else _run(options))
    verbs = {"list": _list, "show": _show, "new": _new, "lint": _lint, "try": _try}
    return verbs[options.verb](options)


def _try(options: argparse.Namespace) -> int:
    """Play a failure on a practice pod. Return 0 if it was detected and the run trains again, or
    was left broken as requested, and 1 otherwise.
    """
    from bs4_practice.play import play
    from bs4_practice.tries import TRIES, choose, summary

    if options.id is None:
        if options.json:
            emit(
                "playbook-tries",
                tries=[
                    {"scenario": s.name, "failure_id": s.failure, "trainers": list(s.trainers)}
                    for s in TRIES.values()
                ],
            )
        else:
            table(
                [[s.name, ", ".join(s.trainers), s.needs()] for s in TRIES.values()],
                ["scenario", "trainers", "not here, because"],
            )
        return 0
    scenario, trainer = choose(options.id, options.trainer)
    say = (lambda text: None) if options.json else print
    report = asyncio.run(play(scenario, trainer, fix=not options.no_fix, say=say))
    if options.json:
        emit("playbook-try", trainer=trainer, **report)
    else:
        print(summary(report))
    if report["recovered"] or options.no_fix:
        return 0
    return FINDING


def _list(options: argparse.Namespace) -> int:
    """Print all playbooks, and return 0."""
    good = shipped()
    if options.json:
        emit(
            "playbooks",
            playbooks=[
                {
                    k: p[k]
                    for k in ("id", "family", "title", "role", "severity", "danger", "applies")
                }
                for p in good
            ],
        )
    else:
        table(
            [[p["id"], p["family"], p["danger"], p["title"]] for p in good],
            ["id", "family", "danger", "title"],
        )
    return 0


def _find(name: str) -> PlaybookFile:
    """Return the playbook with this id. Raises UsageError if there is none."""
    good = shipped()
    for playbook in good:
        if playbook["id"] == name:
            return playbook
    raise UsageError(
        f"There is no playbook {name!r}.",
        f"{did_you_mean(name, [p['id'] for p in good])} `bs4-console playbook list` shows all.",
    )


def _show(options: argparse.Namespace) -> int:
    """Print one playbook, and return 0."""
    playbook = _find(options.id)
    if options.json:
        playbook.pop("cases", None)
        emit("playbook", **playbook)
        return 0
    print(f"{playbook['id']}: {playbook['title']}\n")
    for head, said in (
        ("Looks like", playbook["looks_like"]),
        ("Why", playbook["explanation"]),
        ("Prevent", playbook["prevent"]),
    ):
        print(f"{head}: {said.strip()}\n")
    detect = playbook.get("detect", {})
    print(
        f"Found by: {detect.get('detector') or 'log signatures'} (held {detect.get('for', '0s')})"
    )
    print(f"Applies to: {', '.join(playbook['applies'])}; danger: {playbook['danger']}")
    for head, lines in (
        ("Fix", [sentence(s) for s in playbook.get("fix", [])]),
        ("What to do", playbook.get("advice", [])),
    ):
        if lines:
            print(f"{head}:")
        for number, line in enumerate(lines, 1):
            print(f"  {number}. {' '.join(line.split())}")
    if "leads_to" in playbook:
        print(f"What helps: `bs4-console playbook show {playbook['leads_to']}`")
    if "verify" in playbook:
        print(f"Verified by: {verified(playbook['verify'])}")
    print("Sources: " + "; ".join(playbook["sources"]))
    return 0


def _new(options: argparse.Namespace) -> int:
    """Write the file; 0. UsageError (2) when it cannot be written there."""
    root = checkout()
    if options.to is not None:
        place = Path(options.to)
    elif root is not None:
        place = root / "playbooks"
    else:
        raise UsageError(
            "An installed bs4-console does not change its own playbooks.",
            "Run this in a checkout, or name a folder of your own with --to DIR.",
        )
    path = create(place, options.id, options.family, options.title)
    if options.json:
        emit("playbook-new", id=options.id, family=path.parent.name, file=str(path))
        return 0
    command = "bs4-console playbook lint"
    if options.to is not None:
        command = f"{command} {shlex.quote(options.to)}"
    print(f"{path} written. Fill it in; `{command}` says what is still missing.")
    return 0


def _lint(options: argparse.Namespace) -> int:
    """Check playbook files and print their problems. Return 1 if there are any, else 0."""
    directory = None
    if options.directory:
        directory = Path(options.directory)
    if directory is not None and not directory.is_dir():
        raise UsageError(
            f"{directory} is no directory.", "Give the one that holds a folder per family."
        )
    good, problems = lint(directory, need_cases=True)
    if options.json:
        listed = []
        for p in problems:
            listed.append({"file": str(p.file), "where": p.where, "message": p.message})
        emit("playbook-lint", valid=[p["id"] for p in good], problems=listed)
        if problems:
            return FINDING
        return 0
    for problem in problems:
        complain(str(problem))
    print(f"{len(good)} playbooks are valid, {len(problems)} problems.")
    if problems:
        return FINDING
    return 0


def _run_name(live: PodSession, name: str | None) -> str:
    """Return the given run's name, or that of the pod's only run. Raises UsageError if the pod does
    not have exactly one.
    """
    if name is not None:
        return name
    runs = sorted(live.state.runs)
    if len(runs) != 1:
        raise UsageError(
            f"{live.state.name} has {len(runs)} runs ({', '.join(runs) or 'none'}).",
            "Name one with --run.",
        )
    return runs[0]


async def make_plan(live: PodSession, playbook: str, run: str) -> PlanView:
    """Have the pod make a new plan for the run `run` from the playbook with the id `playbook` (a
    known failure and its repair), and return the plan. If the run has an open incident that this
    playbook repairs, the plan is for that incident. Raises NotApplicableError, with the agent's
    reason, if the agent can make no plan. Raises Unreachable if there is no link.
    """
    incident = ""
    for i in live.state.ledger.open_incidents(run):
        if i.playbook == playbook:
            incident = i.id
            break
    key = await live.submit("plan", playbook=playbook, run=run, incident=incident)
    async for action in live.follow_action(key):
        if action.state == "failed":
            raise NotApplicableError(action.detail)
    return next(
        plan for plan in reversed(list(live.state.ledger.plans.values())) if plan.action == key
    )


def _not_there(live: PodSession, playbook: str, run: str) -> str:
    """Return a sentence that the failure which the playbook mends is not there now, or "" if the
    run has an open incident of it.
    """
    mended = []
    for incident in live.state.ledger.open_incidents(run):
        mended.append(incident.playbook)
        mended.append(incident.failure)
    if playbook in mended:
        return ""
    return (
        f"{run} has no open incident of {playbook} now: this plan would be carried out all the "
        "same. Be sure that you want it."
    )


async def _plan(options: argparse.Namespace) -> int:
    """Print the plan of a playbook, and return 0."""
    _find(options.id)
    async with linked(Inventory().get(options.pod)) as live:
        plan = await make_plan(live, options.id, _run_name(live, options.name))
        if options.json:
            emit(
                "plan",
                plan_hash=plan.plan_hash,
                expires=plan.expires_t,
                playbook=plan.playbook,
                run=plan.run,
                attempt=plan.attempt,
                steps=plan.plan["steps"],
            )
        else:
            print(plan_text(plan))
            if told := _not_there(live, options.id, plan.run):
                print(told)
    return 0


async def _run(options: argparse.Namespace) -> int:
    """Carry out a playbook after its confirmation, and return the exit code."""
    playbook = _find(options.id)
    async with linked(to_act_on(options)) as live:
        name = _run_name(live, options.name)
        confirmed = options.hash
        typed = options.confirm
        if confirmed is None:
            if not is_terminal() or options.json:
                complain(
                    "Nothing was done: confirm the plan by its hash (`playbook plan "
                    f"{options.id} --pod {options.pod}`, then --plan HASH)."
                )
                return REFUSED
            plan = await make_plan(live, options.id, name)
            print(plan_text(plan))
            if told := _not_there(live, options.id, name):
                print(told)
            word = "yes"
            if playbook.get("typed_name") or playbook["danger"] in ("kill", "move", "command"):
                word = name
            if ask(f"Type {word} to carry it out: ") != word:
                raise RefusedError("Nothing was done.", "Run it again when you are sure.")
            confirmed, typed = plan.plan_hash, name
        action = await act(
            live,
            "playbook",
            as_json=options.json,
            playbook=options.id,
            run=name,
            plan_hash=confirmed,
            confirm_run=typed or "",
        )
    return exit_code(action)
