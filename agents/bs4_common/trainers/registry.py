"""Find a trainer by its id, and the spec of a run by the processes of a launcher that a person
started by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bs4_common.errors import BadRequest
from bs4_common.foreign_json import loads
from bs4_common.trainers import launcher, settings
from bs4_common.trainers.base import LaunchSpec, Trainer
from bs4_common.trainers.command import launched, resolved, standalone_inference
from bs4_common.trainers.prime_rl import PrimeRl, described
from bs4_common.trainers.prime_rl_2026_01 import PrimeRl2026_01
from bs4_common.trainers.settings import UNKNOWN_CONFIG
from bs4_common.trainers.verl import Verl

_TRAINERS: Mapping[str, Trainer] = {
    trainer.id: trainer for trainer in (PrimeRl2026_01(), PrimeRl(), Verl())
}
#: In place of ids: every trainer.
ANY = "any"
#: Words of the version before for a trainer, which are read for one version.
FORMER = {"prime-rl-current": launcher.CURRENT}


class Proc(NamedTuple):
    """One process as /proc shows it: its pid, its parent's pid, its command line as separate words,
    and its working directory.
    """

    pid: int
    ppid: int
    cmdline: Sequence[str]
    cwd: Path


def ids() -> tuple[str, ...]:
    """Return the ids of all trainers that the agent knows, one for each version of prime-rl and one
    for verl.
    """
    return tuple(_TRAINERS)


def get(id_: str) -> Trainer:
    """Return the trainer with this id. Raises BadRequest if there is none."""
    try:
        return _TRAINERS[id_]
    except KeyError:
        raise BadRequest(
            f"There is no trainer {id_!r}; choose one of {', '.join(ids())}."
        ) from None


def find(id_: str) -> Trainer | None:
    """Return the trainer with this id, or None if there is none."""
    return _TRAINERS.get(id_)


def named(words: Collection[str]) -> frozenset[str]:
    """Return the ids of the trainers that `words` names. A word is the id of a trainer, a former id
    of it, or `any`, which stands for all trainers. The list `applies` of a playbook has such words.
    """
    if ANY in words:
        return frozenset(_TRAINERS)
    return frozenset(FORMER.get(word, word) for word in words)


def recognise(cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
    """Return the spec with which a launcher was started, from its command line `cmdline` and its
    working directory `cwd`. All trainers are tried. Return None if the process is no launcher, or
    if its command line hides too much. In the second case `recognise_tree` may still recognise it
    from the processes around it.
    """
    for trainer in _TRAINERS.values():
        if (spec := trainer.recognise(cmdline, cwd)) is not None:
            return spec
    return None


def recognise_tree(
    procs: Sequence[tuple[int, int, Sequence[str], Path]],
    environ: Callable[[int], Mapping[str, str]] | None = None,
) -> list[tuple[int, LaunchSpec]]:
    """Return every run whose launcher is among the processes `procs` (pid, parent's pid, command
    line, working directory), as the launcher's pid and the spec with which it was started.
    Inference servers that were started apart from a run are listed too.

    A launcher of current prime-rl hides its command line. It is then read from the `uv run` around
    it, or from WANDB_ARGS in the environment of its children. `environ(pid)` returns a process's
    environment, or {} if that is not permitted. If only the run directory can be seen, the spec's
    config is `Path()`, which stands for unknown; the run can then be watched, but launched again
    only if its config is named.
    """
    table = {pid: Proc(pid, ppid, tuple(cmdline), cwd) for pid, ppid, cmdline, cwd in procs}
    found: dict[int, LaunchSpec] = {}
    for proc in table.values():
        if (spec := _launcher(proc, table, environ)) is not None:
            found[proc.pid] = spec
    # A child that was forked and has not called exec yet looks exactly like the launcher.
    runs = {pid: spec for pid, spec in found.items() if not _is_below(table[pid], found, table)}
    for proc in table.values():
        server = _standalone(proc, table)
        if server is not None and not _is_below(proc, runs, table):
            runs[proc.pid] = server
    return sorted(runs.items())


def _launcher(
    proc: Proc, table: Mapping[int, Proc], environ: Callable[[int], Mapping[str, str]] | None
) -> LaunchSpec | None:
    """Return the spec of a process that is a launcher itself. None for every other process, also
    for the `uv run` around a launcher.
    """
    if launcher.component(proc.cmdline, "") != "launcher":
        # verl's driver and torchrun show their own argv. Ranks and forks below them are
        # distinguished by their parents.
        for trainer in _TRAINERS.values():
            shows = trainer.traits.shows_command
            if shows and (spec := trainer.recognise(proc.cmdline, proc.cwd)) is not None:
                return spec
        return None
    if launcher.launch_words(proc.cmdline) is None:
        return _titled(proc, table, environ)
    if (spec := recognise(proc.cmdline, proc.cwd)) is not None:
        return spec
    # The argv is still visible, but the run has an automatic name. Its directory is known once it
    # has children.
    return _titled(proc, table, environ)


def _titled(
    proc: Proc, table: Mapping[int, Proc], environ: Callable[[int], Mapping[str, str]] | None
) -> LaunchSpec | None:
    """Return the spec of a launcher whose command line is hidden or has no name, from the processes
    around it. None if they do not show enough.
    """
    below = _descendants(proc, table)
    run_dir = next((path for child in below if (path := _run_dir(child)) is not None), None)
    words = _words_around(proc, below, table, environ)
    spec = resolved(launcher.CURRENT, words, proc.cwd) if words is not None else None
    if spec is not None:
        known = settings.settings_of(spec, watching=True)
        if run_dir is None and known.text("run.dir", "run.name") is None:
            return None
        return described(spec, run_dir)
    if run_dir is None:
        return None
    return LaunchSpec(
        run=launcher.run_name(run_dir.name),
        trainer=launcher.CURRENT,
        config=UNKNOWN_CONFIG,
        cwd=proc.cwd,
        output_dir=run_dir.parent,
        trainer_name=run_dir.name,
    )


def _words_around(
    proc: Proc,
    below: Sequence[Proc],
    table: Mapping[int, Proc],
    environ: Callable[[int], Mapping[str, str]] | None,
) -> list[str] | None:
    """Return the words after `rl` of a launcher whose command line is hidden, from its ancestors or
    from the environments of its descendants `below`. None if they do not show them.
    """
    for above in (proc, *_ancestors(proc, table)):
        if said := launcher.launch_words(above.cmdline):
            return said[0]
    if environ is None:
        return None
    for child in below:
        if (kept := _words_in(environ(child.pid))) is not None:
            return kept
    return None


def _words_in(environment: Mapping[str, str]) -> list[str] | None:
    """Return the words after `rl` that the launcher put into its children's WANDB_ARGS, or None."""
    try:
        argv = loads(environment.get("WANDB_ARGS", "null"))
    except ValueError:
        return None
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        return None
    found = launcher.launch_words(["rl", *argv[1:]])
    return found[0] if found is not None else None


def _run_dir(proc: Proc) -> Path | None:
    """Return the run directory that a child's words name (`@ RUN/configs/x.json`,
    `--log-dir=RUN/logs/attempt_N/...`, `tail -F 'RUN/logs/...'`), or None.
    """
    for word in proc.cmdline:
        path = Path(word.removeprefix("--log-dir=").removeprefix("tail -F ").strip("'"))
        for marker in ("configs", "logs"):
            if not path.is_absolute() or marker not in path.parts:
                continue
            index = len(path.parts) - 1 - path.parts[::-1].index(marker)
            rest = path.parts[index + 1 :]
            if (marker == "configs" and path.suffix == ".json") or (
                rest and rest[0].startswith("attempt_")
            ):
                return Path(*path.parts[:index])
    return None


def _standalone(proc: Proc, table: Mapping[int, Proc]) -> LaunchSpec | None:
    """Return the spec of an inference server's own process, with the words of the `uv run` around
    it, or else its own words. None for other processes.
    """
    above = _ancestors(proc, table)
    kinds = []
    for other in (proc, *above):
        kinds.append(launcher.component(other.cmdline, ""))
    if kinds[0] != "inference" or "inference" in kinds[1:]:
        return None  # a further API process of the server above it
    candidate = above[0] if kinds[1:2] == ["uv"] else proc
    titled = proc.cmdline[0].startswith("PRIME-RL::")
    return standalone_inference(
        launcher.CURRENT if titled else _generation_of_server(candidate),
        candidate.cmdline,
        candidate.cwd,
    )


def _generation_of_server(proc: Proc) -> str:
    """Return the trainer id of the generation whose `inference` this is.

    The current generation overwrites its argv at once, so a visible argv is 2026-01's, unless the
    config has keys that only the current one knows.
    """
    spec = launched(launcher.V2026_01, proc.cmdline, proc.cwd, "inference")
    table = settings.settings_of(spec, watching=True).data if spec is not None else {}
    if {"vllm", "router", "backend_port"} & set(table):
        return launcher.CURRENT
    return launcher.V2026_01


def _ancestors(proc: Proc, table: Mapping[int, Proc]) -> list[Proc]:
    """Return the parents of a process, nearest first. A circle in the table, from pids that were
    reused while it was read, ends the list.
    """
    found: list[Proc] = []
    seen = {proc.pid}
    while (parent := table.get(proc.ppid)) is not None and parent.pid not in seen:
        seen.add(parent.pid)
        found.append(parent)
        proc = parent
    return found


def _descendants(proc: Proc, table: Mapping[int, Proc]) -> list[Proc]:
    """Return all descendants of a process."""
    found = []
    for other in table.values():
        if _is_below(other, (proc.pid,), table):
            found.append(other)
    return found


def _is_below(proc: Proc, pids: Collection[int], table: Mapping[int, Proc]) -> bool:
    """Return True if an ancestor of the process has one of these pids."""
    return any(above.pid in pids for above in _ancestors(proc, table))
