"""Judge the start itself: whether the agent would make it, what an earlier run left in its way,
space for its checkpoints, and its ports.
"""

from __future__ import annotations

from collections.abc import Sequence

from bs4_common.preflight import Foreseen, NeededPort, StartPart
from bs4_console.configs.families import billions
from bs4_console.failures import playbooks
from bs4_console.preflight.checks import (
    Check,
    Wanted,
    gib,
    said,
    space,
    unseen,
)

_LAUNCH = ("launch", "launch")
_EARLIER = ("stale-checkpoint-deadlock", "what an earlier run left")
_DISK = ("disk-next-checkpoint", "disk for checkpoints")
_SECRET = ("secrets-exposed", "secrets")
_PORTS = ("port-in-use", "ports")

#: The failure that a refused launch would have become, by type of the refusal.
_REFUSALS = {
    "run-exists": "run-dir-collision",
    "bad-config": "config-rejected",
    "refused": "stale-checkpoint-deadlock",
    "launch-failed": "path-drift",
}
#: Agents that do not tell how many older checkpoints there are list at most this many.
_TOLD_BEFORE = 16
#: The severity of playbooks with which a start fails or loses work. Milder findings are shown and
#: do not stop it.
_GRAVE = "critical"


def judge(run: StartPart | None, wanted: Wanted) -> list[Check]:
    """Return the checks of the start `wanted` itself: whether the agent can launch the run, what an
    earlier run left in the output directory, the disk space for checkpoints, the secrets and the
    ports. `run` is the part of the agent's answer about the start; None means that it is missing,
    and the checks are then "unknown".
    """
    subjects = [_LAUNCH, _EARLIER]
    if wanted.saves:
        subjects.append(_DISK)
    if wanted.needs_ports:
        subjects.append(_PORTS)
    if (blind := unseen(subjects, run)) is not None:
        return blind
    found: StartPart = run or {}
    own = [_launch(found), _earlier(found, wanted)]
    if wanted.saves:
        own.append(_disk(found, wanted))
    if wanted.needs_ports:
        own += _ports(found, wanted)
    # A failure that a detector reports too is reported once: by the check if that is bad, because
    # it has the numbers.
    bad = {check.id for check in own if check.is_bad}
    if found.get("secret"):
        own.append(
            said(
                _SECRET,
                "blocking",
                f"Its options hold what looks like {found['secret']} (not shown): every user of "
                "the machine could read it.",
                f"Take it out; {wanted.setup('--credentials ask')} puts it into a file of "
                "mode 0600.",
            )
        )
    seen = []
    for row in found.get("findings", ()):
        if (check := _finding(row)).id not in bad:
            seen.append(check)
    told = {check.id for check in seen}
    return [*(check for check in own if check.id not in told or check.state != "ok"), *seen]


def _launch(run: StartPart) -> Check:
    refused = run.get("refused")
    if refused is None:
        return said(
            _LAUNCH,
            "ok",
            f"`{run.get('command')}`" if run.get("command") else "Nothing refuses it.",
        )
    message, kind = refused.get("message", ""), refused.get("type", "")
    identifier = "uv-missing"
    if not message.startswith("uv "):
        identifier = _REFUSALS.get(kind, "launch")
    if "step-desync" in message:
        identifier = "step-desync"
    what, _, todo = message.rpartition("; ")
    return said(
        (identifier, _LAUNCH[1]),
        "blocking",
        what or message,
        todo[:1].upper() + todo[1:] if what else "Change the form, then look again.",
    )


def _earlier(run: StartPart, wanted: Wanted) -> Check:
    plan = run.get("plan") or {}
    whole: list[int] = []
    torn: list[int] = []
    for row in run.get("checkpoints", ()):
        if "step" in row:
            (whole if row.get("complete") else torn).append(row["step"])
    older = run.get("older") or {}
    there = f"Complete steps there: {_steps(whole, older.get('complete', 0))}"
    if torn or older.get("incomplete"):
        there += f"; incomplete: {_steps(torn, older.get('incomplete', 0))}"
    if "older" not in run and len(whole) + len(torn) >= _TOLD_BEFORE:
        there += " (the newest; this agent does not say whether there are older ones)"
    there += "."
    if run.get("refused") is not None:
        return said(_EARLIER, "unknown", f"The launch is refused before this is looked at. {there}")
    moves = plan.get("moves")
    if moves:
        why = (
            f"{len(moves)} directories would be moved aside first: {', '.join(moves[:4])}. {there}"
        )
        identifier = _EARLIER[0]
        if plan.get("resume") is not None:
            identifier = wanted.of.ahead or identifier
        return said(
            (identifier, _EARLIER[1]),
            "warning",
            why,
            "The plan of the launch names them; nothing is deleted.",
        )
    text = plan.get("why", "")
    if text:
        there = f"{text[:1].upper()}{text[1:]}. {there}"
    return said(_EARLIER, "ok", there)


def _steps(listed: Sequence[int], older: int) -> str:
    """Return checkpoints as text: the steps of those that are listed, and how many older ones there
    are, such as "300, 305 and 59 older".
    """
    if not listed:
        return f"{older} older ones" if older else "none"
    steps = ", ".join(map(str, listed))
    return f"{steps} and {older} older" if older else steps


def _disk(run: StartPart, wanted: Wanted) -> Check:
    free, _ = space(run.get("disk"))
    if free is None:
        return said(_DISK, "unknown", "The disk of the output directory does not answer.")
    size, origin = _checkpoint_bytes(run, wanted)
    if size is None:
        return said(
            _DISK, "unknown", f"{gib(free)} are free; how large a checkpoint will be is not known."
        )
    keep, goal, interval = run.get("keep_last"), run.get("max_steps"), run.get("interval")
    there = sum(1 for row in run.get("checkpoints", ()) if row.get("complete"))
    there += (run.get("older") or {}).get("complete", 0)
    plan = run.get("plan") or {}
    if plan.get("resume") is None and plan.get("moves"):
        there = 0  # they are moved aside on the same disk, so that no rotation frees their room
    one = f"a checkpoint is {gib(size)} ({origin})"
    if keep is not None and keep >= 1:
        # A trainer deletes the oldest checkpoint after the newest is saved. A short run never has
        # so many.
        ever = int(goal // interval) + 1 if goal and interval else keep + 1
        more = max(min(keep + 1, ever) - there, 1)
        fit = f"{keep:.0f} + 1" if ever > keep else f"at most {ever:.0f}"
        why = f"{gib(free)} are free; {one}, and {fit} of them have to fit ({there} are there)."
        if free < more * size:
            return said(
                _DISK,
                "blocking",
                why,
                f"Free {gib(more * size - free)}, or keep fewer; `df -h` shows the disk.",
            )
        return said(_DISK, "ok", why)
    if free < 2 * size:
        return said(
            _DISK,
            "blocking",
            f"{gib(free)} are free; {one}, and two of them have to fit.",
            f"Free {gib(2 * size - free)}.",
        )
    count = int(goal // interval) if goal and interval else None
    fits = int(free // size)
    if count is not None and count + 1 <= fits:
        return said(_DISK, "ok", f"{gib(free)} are free; {one}, and {count} are to come.")
    return said(
        ("keep-last-missing", _DISK[1]),
        "warning",
        f"{gib(free)} are free; {one}, nothing limits their number, and {fits} fit.",
        f"Launch with {wanted.of.keep_fewer}.",
    )


def _checkpoint_bytes(run: StartPart, wanted: Wanted) -> tuple[float | None, str]:
    largest = 0.0
    for row in run.get("checkpoints", ()):
        if row.get("complete"):
            largest = max(largest, row.get("bytes", 0))
    if largest > 0:
        return largest, "as the largest that is there"
    size = billions(run.get("model", ""))
    each = run.get("bytes_each") or wanted.of.bytes_each
    if size:
        return (size * 1e9 * each, f"{size:g}B x {each:g} bytes")
    return (None, "")


def _ports(run: StartPart, wanted: Wanted) -> list[Check]:
    ports: Sequence[NeededPort] = run.get("ports", ())
    held = [row for row in ports if row.get("holder")]
    numbers = ", ".join(str(row.get("port")) for row in ports)
    if not ports:
        return [said(_PORTS, "unknown", "Which ports this start needs is not known.")]
    if run.get("serves_itself") is False:
        if held:
            return [
                said(
                    _PORTS,
                    "ok",
                    f"The config starts no inference server, and one listens: {held[0]['holder']}.",
                )
            ]
        return [
            said(
                ("inference-unreachable", "inference server"),
                "warning",
                f"The config starts none, and nobody listens on {numbers}.",
                f"Start the server first: `bs4-console launch CONFIG --pod {wanted.pod} "
                "--component inference ...`.",
            )
        ]
    if not held:
        return [said(_PORTS, "ok", f"Nobody listens on {numbers}.")]
    checks = []
    for row in held:
        owner = ""
        fix = (
            f"See who it is: `ss -ltnp 'sport = :{row.get('port')}'`; end it, or choose another "
            "port in the config."
        )
        if row.get("run"):
            owner = f" It is of {row['run']}."
            fix = f"{wanted.stop(row['run'])} ends it."
        checks.append(
            said(
                _PORTS, "blocking", f"Port {row.get('port')} is taken: {row['holder']}.{owner}", fix
            )
        )
    return checks


def _finding(row: Foreseen) -> Check:
    """Return the check of a detector's finding about the planned run. Its fix is the advice of the
    failure's playbook.
    """
    failure = row.get("failure", "")
    grave = row.get("severity") == _GRAVE
    why = row.get("summary", "")
    for text in row.get("evidence", ()):
        if text:
            why += f" ({text})"
            break
    fix = " ".join(playbooks.advice(failure)[:2]) or f"See `bs4-console playbook show {failure}`."
    return said((failure, row.get("title", failure)), "blocking" if grave else "warning", why, fix)
