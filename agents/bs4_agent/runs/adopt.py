"""Take on a run that someone started by hand: found by its processes, described by its trainer,
owned by observation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from bs4_agent.clock import stamp
from bs4_agent.containers import inside, processes
from bs4_agent.errors import NotApplicable, RunExists
from bs4_agent.identity import Identity
from bs4_agent.launch.start import make_attempt
from bs4_agent.paths import safe_name
from bs4_agent.runs.files import write_json
from bs4_agent.runs.model import Run
from bs4_agent.runs.places import same_run
from bs4_agent.runs.records import spec_as_dict
from bs4_agent.runs.registry import Runs
from bs4_agent.telemetry.processes import Proc, Snapshot
from bs4_agent.trainers import registry, verl_processes
from bs4_agent.trainers.base import LaunchSpec

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

#: How long after its launcher's end an attempt may still count as live; verl's actors take up to
#: ten seconds to go.
_JUDGED_S = 20.0
#: What a shim is once it has started its launcher.
_SHIM = "bs4_agent/runs/reap.py"
Row = tuple[int, int, Sequence[str], Path]
#: (pid, parent, cmdline, cwd) of all processes, and how to read one's environment -> (launcher's
#: pid, spec) of each run among them.
Recognise = Callable[
    [Sequence[Row], "Callable[[int], Mapping[str, str]] | None"], "list[tuple[int, LaunchSpec]]"
]


@dataclass(frozen=True)
class Candidate:
    """A launcher that is nobody's yet. `root`: the launcher's process, or the `uv run` around it;
    `started_t`: wall seconds.
    """

    root: Identity
    spec: LaunchSpec
    cmdline: Sequence[str]
    started_t: float
    inner: int = 0
    """Its pid in its container, by which logs and pid files there call it; 0 outside of one."""
    problem: str = ""
    """Why it cannot be adopted."""


def candidates(
    runs: Runs, snapshot: Snapshot, *, recognise: Recognise = registry.recognise_tree
) -> list[Candidate]:
    """Every launcher of our user that belongs to no run of ours, oldest first. Directories are
    those of the process, never assumed; of one in a container they are given as they lie on this
    side.
    """
    runs.membership.observe(snapshot)  # else what was started since the last look is nobody's yet
    inside.claim(runs, snapshot)
    visible = []
    for proc in snapshot.values():
        if not proc.ended and proc.uid == runs.scope.uid:
            visible.append(proc)
    table = []
    for proc in visible:
        if (cwd := _cwd(proc)) is not None:
            table.append((proc.identity.pid, proc.ppid, proc.cmdline, cwd))
    found = []
    for pid, spec in recognise(table, _environment):
        root = _with_uv_around(runs, snapshot, snapshot[pid], spec)
        known = runs.membership.knows(snapshot[pid].identity) or runs.membership.knows(
            root.identity
        )
        if not known and not _below_a_shim(snapshot, root):
            candidate = Candidate(root.identity, spec, snapshot[pid].cmdline, root.started_t)
            found.append(
                _from_here(candidate, next(row for row in table if row[0] == pid), table, recognise)
            )
    found += _others(runs, snapshot)
    return sorted(found, key=lambda candidate: candidate.started_t)


def _others(runs: Runs, snapshot: Snapshot) -> list[Candidate]:
    """Containers mostly run as root. A driver in one of another user than ours cannot be adopted,
    and a person should know why.
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
    """Whether the candidate goes on with a run whose last attempt has lost its launcher and is not
    judged to be over yet. Who starts a run again at once would otherwise be given another name,
    because that one still counts as live.
    """
    if time.time() - candidate.started_t > _JUDGED_S:
        return False  # what is left of that attempt goes on working: two runs they are
    again = []
    for run in runs.all():
        if run.live and _same(runs, run, candidate.spec):
            again.append(run)
    for run in again:
        if (
            run.attempt is not None
            and run.attempt.launcher is not None
            and not run.attempt.launcher.alive()
        ):
            return True
    return False


def adopt(runs: Runs, candidate: Candidate, name: str = "") -> Run:
    """Watch the candidate as run `name`; its processes are those seen below its root while that
    lives.

    Without a name, or with the one that the trainer knows it by, it is the next attempt of the run
    that has its directory, and else a run of its own, with a number where another run has that
    name. Raises RunExists when a live run, or one in another directory, has the given name,
    NotApplicable when the process has ended or is known already, or lives in a container that hides
    its files.
    """
    if candidate.problem:
        raise NotApplicable(candidate.problem)
    before = {}
    for run in runs.all():
        if _same(runs, run, candidate.spec):
            before[run.name] = run
    if name and name != candidate.spec.run:
        name = safe_name(name, "run")
    else:
        name = _next_of(before.values(), safe_name(candidate.spec.run, "run")) or _free_name(
            runs, candidate.spec
        )
    kept = _kept_environment(candidate.root.pid)
    spec = replace(
        candidate.spec,
        run=name,
        trainer_name=candidate.spec.trainer_name or candidate.spec.run,
        env=kept,
    )
    with runs.launch_lock(name):
        known = None
        for run in runs.all():
            if run.name == name:
                known = run
                break
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
    return runs.get(name)


def _from_here(
    candidate: Candidate, launcher: Row, table: Sequence[Row], recognise: Recognise
) -> Candidate:
    """The candidate with the paths that it has on this side; itself, where it sees the files as we
    do.
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
    # Its own words are enough, unless it hides them behind a title and only its children tell.
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
    """Whether `spec` is another start of `run`: the same program in the same run directory,
    whatever either is called.
    """
    if (run.spec.trainer, run.spec.component) != (spec.trainer, spec.component):
        return False
    trainer = runs.trainer(spec)
    return same_run(trainer.layout(run.spec), trainer.layout(spec))


def _next_of(before: Iterable[Run], wanted: str) -> str | None:
    """The name of the run that goes on, None where there is none that has ended. Of several that
    had the directory, the one that the trainer itself calls so, else the newest: a run that was
    taken for another one once must not stay two for ever.
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
    """`spec` by the directories that the run is known by: what was moved aside and archived lies
    beside those.
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
    """The run's own name, with a number where another run has it already."""
    wanted = safe_name(spec.run, "run")
    taken = {run.name for run in runs.all()} | set(runs.unreadable)
    return next(
        name
        for number in count(1)
        if (name := wanted if number == 1 else f"{wanted}-{number}") not in taken
    )


def _with_uv_around(runs: Runs, snapshot: Snapshot, launcher: Proc, spec: LaunchSpec) -> Proc:
    parent = snapshot.get(launcher.ppid)
    if parent is not None and runs.trainer(spec).component(parent.cmdline, parent.comm) == "uv":
        return parent
    return launcher


def _below_a_shim(snapshot: Snapshot, proc: Proc) -> bool:
    """An attempt of ours whose shim has just started it, before anybody noted its processes: no run
    of somebody else's.
    """
    while (parent := snapshot.get(proc.ppid)) is not None and parent is not proc:
        if any("bs4_agent.shim" in word or word.endswith(_SHIM) for word in parent.cmdline):
            return True
        proc = parent
    return False


def _cwd(proc: Proc) -> Path | None:
    try:
        return Path(f"/proc/{proc.identity.pid}/cwd").readlink()
    except OSError:
        return None  # it has ended, or forbids inspection


def _kept_environment(pid: int) -> Mapping[str, str]:
    """What a relaunch needs of the environment that a person set: which GPUs, which caches. Never
    anything that may be a secret.
    """
    kept = {}
    for k, v in _environment(pid).items():
        if k.startswith(_KEPT):
            kept[k] = v
    kept = {
        k: v
        for k, v in kept.items()
        if not any(word in k for word in ("KEY", "TOKEN", "SECRET", "PASS"))
    }
    view = processes.View.of(pid)
    if view is None:
        return kept
    return dict(zip(kept, view.words_here(kept.values()), strict=True))


def _environment(pid: int) -> Mapping[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    words = []
    for word in raw.decode("utf-8", "replace").split("\0"):
        words.append(word.partition("="))
    return {name: value for name, _, value in words}
