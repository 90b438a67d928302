"""Adopt a run that a person started by hand. Its processes are found in the process table, its
trainer describes it, and from then on the agent observes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from bs4_agent.containers import inside, processes
from bs4_agent.launch.start import make_attempt
from bs4_agent.runs.places import same_run
from bs4_agent.runs.records import spec_as_dict
from bs4_agent.runs.registry import Runs
from bs4_agent.telemetry.processes import Proc, Snapshot
from bs4_common.clock import stamp
from bs4_common.errors import NotApplicable, RunExists
from bs4_common.files import write_json
from bs4_common.identity import Identity
from bs4_common.ids import safe_name
from bs4_common.runs.model import Run
from bs4_common.trainers import registry, verl_processes
from bs4_common.trainers.base import LaunchSpec

_KEPT = (
    "CUDA_",
    "NCCL_",
    "VLLM_",
    "HF_HOME",
    "HF_HUB_OFFLINE",
    "UV_PROJECT_ENVIRONMENT",
    "VIRTUAL_ENV",
    "VERL_FILE_LOGGER_",
)

#: Seconds after its launcher's end during which an attempt may still count as live. verl's actors
#: take up to ten seconds to end.
_JUDGED_S = 20.0
#: The script that a shim runs once it has started its launcher.
_SHIM = "bs4_agent/runs/reap.py"
Row = tuple[int, int, Sequence[str], Path]
#: A function that gets (pid, parent, cmdline, cwd) of all processes, and a function that reads a
#: process's environment. It returns the launcher's pid and the spec of each run among them.
Recognise = Callable[
    [Sequence[Row], "Callable[[int], Mapping[str, str]] | None"], "list[tuple[int, LaunchSpec]]"
]


@dataclass(frozen=True)
class Candidate:
    """A launcher process that could be adopted because it belongs to no run of this agent.

    `root` is the process that the agent would watch with its descendants: the launcher, or the `uv
    run` process around it. `started_t` is the Unix time in seconds at which `root` started.
    `cmdline` is the launcher's command line, as words, even if `root` is a `uv run`. `spec`
    describes how the trainer was started, as far as the command line and the processes around the
    launcher show it. `inner` is the launcher's pid inside its container, or 0 outside one.
    `problem` says why it cannot be adopted, or is "".
    """

    root: Identity
    spec: LaunchSpec
    cmdline: Sequence[str]
    started_t: float
    inner: int = 0
    """Its pid in its container, which logs and pid files there use, or 0 outside a container."""
    problem: str = ""
    """The reason why it cannot be adopted, or ""."""


def candidates(
    runs: Runs, snapshot: Snapshot, *, recognise: Recognise = registry.recognise_tree
) -> list[Candidate]:
    """Return the launchers among the processes of `snapshot` that could be adopted because they
    belong to no run of `runs` yet, oldest first. The list is empty if there are none. `recognise`
    finds the launchers in a process table; only tests pass another function.

    Only launchers of the agent's own user can be adopted. verl drivers in containers that run as
    another user are listed too, with a `problem` that says why they cannot be adopted. A launcher's
    working directory is read from its process; for a launcher in a container, all directories of
    the spec are translated into paths on the host.
    """
    runs.membership.observe(snapshot)  # else what was started since the last look is nobody's yet
    inside.claim(runs, snapshot)
    rows: dict[int, Row] = {}
    for pid, proc in snapshot.items():
        ours = not proc.ended and proc.uid == runs.scope.uid
        if ours and (cwd := _cwd(proc)) is not None:
            rows[pid] = (pid, proc.ppid, proc.cmdline, cwd)
    table = list(rows.values())
    found = []
    for pid, spec in recognise(table, _environment):
        root = _with_uv_around(runs, snapshot, snapshot[pid], spec)
        known = runs.membership.knows(snapshot[pid].identity) or runs.membership.knows(
            root.identity
        )
        if not known and not _below_a_shim(snapshot, root):
            candidate = Candidate(root.identity, spec, snapshot[pid].cmdline, root.started_t)
            found.append(_from_here(candidate, rows[pid], table, recognise))
    found += _others(runs, snapshot)
    return sorted(found, key=lambda candidate: candidate.started_t)


def _others(runs: Runs, snapshot: Snapshot) -> list[Candidate]:
    """Return the verl drivers in containers that run as another user than the agent. Containers
    mostly run as root.

    Such a driver cannot be adopted. Its `problem` tells a person why.
    """
    found: list[Candidate] = []
    for pid, proc in snapshot.items():
        if (
            proc.ended
            or proc.uid == runs.scope.uid
            or verl_processes.start_words(proc.cmdline) is None
        ):
            continue
        spec = registry.recognise(proc.cmdline, Path("/"))
        if (
            spec is None
            or len(numbers := processes.pids(pid)) < 2
            or proc.ppid in {one.root.pid for one in found}
        ):
            continue
        why = (
            f"pid {pid} trains in a container as another user (uid {proc.uid}); run the agent as "
            "that user to have the run watched."
        )
        found.append(Candidate(proc.identity, spec, proc.cmdline, proc.started_t, numbers[-1], why))
    return found


def too_early(runs: Runs, candidate: Candidate) -> bool:
    """Return True if the agent should wait before it adopts `candidate`. A candidate is a launcher
    process that belongs to no run of this agent, such as one that a person started by hand. To
    adopt it is to watch it as a run from then on.

    The answer is True if the candidate is at most 20 s old, and uses the directory of a run whose
    last attempt still counts as live although that attempt's launcher has ended. Adopted now, it
    would become a run with another name instead of that run's next attempt. For a candidate that is
    older than 20 s the answer is False, and it then becomes a run of its own.
    """
    if time.time() - candidate.started_t > _JUDGED_S:
        return False  # what is left of that attempt goes on working: two runs they are
    for run in runs.all():
        launcher = run.attempt.launcher if run.attempt is not None else None
        gone = launcher is not None and not launcher.alive()
        if run.live and gone and _same(runs, run, candidate.spec):
            return True
    return False


def adopt(runs: Runs, candidate: Candidate, name: str = "") -> Run:
    """Adopt the candidate as run `name` and return the run. The agent then watches the process and
    all its descendants.

    If `name` is empty or is the name that the trainer itself gave the run, the candidate becomes
    the next attempt of the ended run that has the same run directory. If there is no such run, it
    becomes a new run, with a number appended to its name if another run has that name.

    Raises RunExists if the name belongs to a live run or to a run in another directory. Raises
    NotApplicable if the process has ended, belongs to a run already, runs in a container as another
    user, or lives in a container whose files the agent cannot see.
    """
    if candidate.problem:
        raise NotApplicable(candidate.problem)
    before = {}
    for run in runs.all():
        if _same(runs, run, candidate.spec):
            before[run.name] = run
    if name and name != candidate.spec.run:
        name = safe_name(name)
    else:
        name = _next_of(before.values(), safe_name(candidate.spec.run)) or _free_name(
            runs, candidate.spec
        )
    spec = replace(
        candidate.spec,
        run=name,
        trainer_name=candidate.spec.trainer_name or candidate.spec.run,
        env=_kept_environment(candidate.root.pid),
    )
    with runs.launch_lock(name):
        known = runs.find(name)
        if known is not None and known.live:
            raise RunExists(
                f"{name} is the name of a run that is live; adopt pid {candidate.root.pid} "
                "under another name."
            )
        if known is not None and known.attempts and name not in before:
            raise RunExists(
                f"{name} is the name of another run, in {known.spec.output_dir}; adopt pid "
                f"{candidate.root.pid} under another name."
            )
        if known is not None and name in before:
            spec = _in_the_same_place(runs, spec, known)
        if runs.membership.knows(candidate.root) or not candidate.root.alive():
            raise NotApplicable(
                f"pid {candidate.root.pid} has ended or is known already; look for runs again."
            )
        runs.register(spec, adopted=True)
        directory = make_attempt(runs, name)
        now = stamp()
        record = {
            "run": name,
            "attempt": int(directory.name),
            "adopted": True,
            "launcher": candidate.root.as_dict(),
            "argv": list(candidate.cmdline),
            "cwd": str(spec.cwd),
            "launch": spec_as_dict(spec),
            "t": candidate.started_t,
            "m": round(now["m"] - (now["t"] - candidate.started_t), 3),
            "b": now["b"],
        }
        write_json(directory / "spec.json", record)
        runs.reload(name)
    runs.poll()
    run = runs.get(name)
    learn_secrets(runs, run)
    return run


def learn_secrets(runs: Runs, run: Run) -> None:
    """Tell the agent which secrets are in the command line of `run` and, while the run is live, in
    the environment of its launcher, so that no journal and no report shows them. The secrets are
    kept in memory only.
    """
    runs.secrets.learn_words([*run.spec.overrides, *run.spec.argv])
    attempt = run.attempt
    if run.live and attempt is not None and attempt.launcher is not None:
        runs.secrets.learn(_environment(attempt.launcher.pid))


def _from_here(
    candidate: Candidate, launcher: Row, table: Sequence[Row], recognise: Recognise
) -> Candidate:
    """Return the candidate with its paths as they are on the host. A candidate that sees the same
    files as the agent is returned unchanged. `problem` is set if a path is not visible on the host.
    """
    pid, _, _, cwd = launcher
    try:
        view = processes.View.of(pid)
    except processes.HiddenFiles as hidden:
        return replace(candidate, problem=hidden.message)
    if view is None:
        return candidate
    candidate = replace(
        candidate, inner=numbers[-1] if len(numbers := processes.pids(pid)) > 1 else 0
    )
    for path in (cwd, candidate.spec.output_dir):
        if view.here(path) is None:
            return replace(
                candidate,
                problem=(
                    f"pid {pid} writes to {path} inside its container, which no directory of this "
                    "machine shows. Start the container with a directory mounted there (`-v "
                    f"DIR:{path}`) to have the run watched."
                ),
            )
    # The launcher's own words are enough, unless it hides them behind a title. Then its children
    # show them.
    for rows in ([launcher], [row for row in table if processes.share_files(pid, row[0])]):
        translated = []
        for one, parent, words, where in rows:
            translated.append((one, parent, view.words_here(words), view.here(where) or where))
        if (spec := dict(recognise(translated, _environment)).get(pid)) is not None:
            return replace(candidate, spec=replace(spec, container=processes.name_of(pid)))
    return replace(
        candidate,
        problem=f"What pid {pid} trains could not be read from its container; launch it from here "
        "instead.",
    )


def _same(runs: Runs, run: Run, spec: LaunchSpec) -> bool:
    """Return True if `spec` is another start of `run`: the same trainer and component in the same
    run directory, whatever their names are.
    """
    if (run.spec.trainer, run.spec.component) != (spec.trainer, spec.component):
        return False
    trainer = runs.trainer(spec)
    return same_run(trainer.layout(run.spec), trainer.layout(spec))


def _next_of(before: Iterable[Run], wanted: str) -> str | None:
    """Return the name of the ended run that this start continues, or None if all runs of `before`
    are live or there are none.

    Of several runs that had the directory, prefer the one with the trainer's own name `wanted`,
    then the newest. So a run that was once mistaken for another does not stay two runs for ever.
    """
    ended = [run for run in before if not run.live]
    ended.sort(
        key=lambda run: (
            run.name == wanted,
            run.attempt.started_t if run.attempt is not None else 0.0,
        )
    )
    if ended:
        return ended[-1].name
    return None


def _in_the_same_place(runs: Runs, spec: LaunchSpec, known: Run) -> LaunchSpec:
    """Return `spec` with the directories by which the run is known, because its trash and archive
    lie beside those. Return `spec` unchanged if that would make it another run.
    """
    moved = replace(
        spec,
        output_dir=known.spec.output_dir,
        trainer_name=known.spec.trainer_name or known.spec.run,
    )
    if _same(runs, known, moved):
        return moved
    return spec


def _free_name(runs: Runs, spec: LaunchSpec) -> str:
    """Return the run's own name, with the first free number behind it if another run has it."""
    wanted = safe_name(spec.run)
    taken = {run.name for run in runs.all()} | set(runs.unreadable)
    if wanted not in taken:
        return wanted
    numbered = (f"{wanted}-{number}" for number in count(2))
    return next(name for name in numbered if name not in taken)


def _with_uv_around(runs: Runs, snapshot: Snapshot, launcher: Proc, spec: LaunchSpec) -> Proc:
    """Return the `uv run` process around the launcher, or the launcher itself if there is none."""
    parent = snapshot.get(launcher.ppid)
    if parent is not None and runs.trainer(spec).component(parent.cmdline, parent.comm) == "uv":
        return parent
    return launcher


def _below_a_shim(snapshot: Snapshot, proc: Proc) -> bool:
    """Return True if the process descends from a shim of this agent. Its attempt was just started
    and its processes are not recorded yet.
    """
    while (parent := snapshot.get(proc.ppid)) is not None and parent is not proc:
        if any("bs4_agent.shim" in word or word.endswith(_SHIM) for word in parent.cmdline):
            return True
        proc = parent
    return False


def _cwd(proc: Proc) -> Path | None:
    """Return the working directory of a process, or None if the process has ended or forbids
    inspection.
    """
    try:
        return Path(f"/proc/{proc.identity.pid}/cwd").readlink()
    except OSError:
        return None  # it has ended, or forbids inspection


def _kept_environment(pid: int) -> Mapping[str, str]:
    """Return the environment variables of a process that a relaunch needs, for example which GPUs
    and which caches a person has set. Names that may hold a secret are left out.
    """
    kept = {}
    for name, value in _environment(pid).items():
        secret = any(word in name for word in ("KEY", "TOKEN", "SECRET", "PASS"))
        if name.startswith(_KEPT) and not secret:
            kept[name] = value
    view = processes.View.of(pid)
    if view is None:
        return kept
    return dict(zip(kept, view.words_here(kept.values()), strict=True))


def _environment(pid: int) -> Mapping[str, str]:
    """Return the environment variables of a process by name. Empty if they cannot be read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    words = raw.decode("utf-8", "replace").split("\0")
    rows = {}
    for word in words:
        rows[word.partition("=")[0]] = word.partition("=")[2]
    return rows
