"""The live pod in one object: what the detectors see and what the playbooks act on."""

from __future__ import annotations

import os
import resource
import shlex
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import urlsplit

from bs4_agent.book import Book
from bs4_agent.checkpoints import intent
from bs4_agent.launch import plan
from bs4_agent.launch.environment import inherited
from bs4_agent.launch.gpus import device_ids, lived_beside
from bs4_agent.launch.start import composed, launch
from bs4_agent.lifecycle import earlier_boots
from bs4_agent.observe.collect import Collector
from bs4_agent.observe.prober import Prober, Watched
from bs4_agent.playbooks import words
from bs4_agent.playbooks.ports import PortHolder, listening, openers
from bs4_agent.preflight import planned
from bs4_agent.probes.vllm import health
from bs4_agent.runs import adopt, archive, ending, trash
from bs4_agent.runs.follower import RunFollower
from bs4_agent.runs.records import attempt_numbers
from bs4_agent.runs.registry import Runs
from bs4_agent.runs.stop import StopRun
from bs4_agent.scope import Scope
from bs4_agent.telemetry.background import GuardedGpus
from bs4_agent.telemetry.load import GpuLoad
from bs4_agent.telemetry.ownership import attribute, nvml_pids
from bs4_agent.telemetry.processes import ProcessTable, Snapshot
from bs4_agent.telemetry.sampler import RunMembers
from bs4_common.checkpoints.inventory import inventory
from bs4_common.clock import boot_id
from bs4_common.credentials.forms import shown_command
from bs4_common.errors import AgentError, LaunchFailed, NotApplicable, StepFailed
from bs4_common.failures.environment import ConsoleFacts
from bs4_common.failures.facts import Facts, GpuFacts, Holder, RunFacts
from bs4_common.failures.phases import start_up
from bs4_common.failures.stepfiles import step_files
from bs4_common.files import read_json, write_json
from bs4_common.identity import Identity
from bs4_common.runs.model import Attempt, Member, Run
from bs4_common.telemetry import Device
from bs4_common.trainers.base import LaunchSpec

if TYPE_CHECKING:
    from bs4_agent.checkpoints.restoring.restore import Restorable, RestoreBody, Restoring

#: Seconds. The watch uses the sampler's passes over all processes (every 3 s) instead of making its
#: own.
SHARED_PASS_S = 3.5
#: Seconds. A run's end may be known before its last lines, which may show its step. Finding a new
#: log, and taking a line without an end, each take about a second.
LAST_LINES_S = 2.5
#: Bytes. A process with less may only have touched the GPU: a stray context has a few hundred MB.
_STRAY_BYTES = 1_000_000_000
_PARTS = (
    "launcher",
    "trainer",
    "rank",
    "orchestrator",
    "inference",
    "engine",
    "worker",
    "router",
    "env-server",
)


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    class AdoptedRow(TypedDict, total=False):
        """A run that was started by hand."""

        pid: int
        trainer: str
        command: str
        run: str
        adopted: bool
        why: str
        """Why it cannot be adopted. Absent if it can."""


class Pod:
    """The living pod: it collects the facts for detectors (the agent's functions that look for
    failures), and carries out what the steps of playbooks order. It implements
    `playbooks.pod_actions.PodActions`, whose methods are described there.
    """

    boot_id = boot_id()

    def __init__(
        self,
        scope: Scope,
        table: ProcessTable,
        gpus: GuardedGpus,
        runs: Runs,
        follower: RunFollower,
        book: Book,
    ) -> None:
        self.scope, self.table, self.gpus = scope, table, gpus
        self.runs, self.follower, self.book = runs, follower, book
        self.prober = Prober(self._watched)
        self.collector = Collector(runs)
        self._numbering = "unknown"
        self._searched: set[tuple[Identity, tuple[str, ...]]] = set()
        self._load = GpuLoad()
        self._resolved: Callable[[str], None] = lambda incident: None
        self._first = earlier_boots.first_process(scope)
        self.restoring: Callable[[], Restoring] = _no_restoring
        """Returns the code that restores checkpoints from a store. The daemon's actions set it."""
        self._faults: dict[str, str] = {}
        self.fault: Callable[[str], None] = lambda sentence: None
        """Called with a sentence if one run cannot be looked at. The daemon journals it."""
        self.blind: Callable[[], list[str]] = list
        """Returns what else cannot be seen on this pod, as phrases for the coverage of verdicts."""
        self.stores: Callable[[], ConsoleFacts | None] = lambda: None
        """Returns the state of the syncs of this pod's runs and the listing of the store."""

    def on_resolved(self, listener: Callable[[str], None]) -> None:
        """Register `listener`: it is called with the id of each incident that is resolved from now
        on, because the verification of a playbook has passed.
        """
        self._resolved = listener

    # Facts

    def collect_facts(self) -> Facts:
        """Collect and return the present facts of the pod and all its runs, for the detectors (the
        agent's functions that look for failures).
        """
        gpus = self._gpu_facts(self.table.snapshot(SHARED_PASS_S))
        coverage = self.blind()
        runs, unseen = [], set()
        for run, _ in self._started():
            try:
                runs.append(self._run_facts(run))
            except Exception as error:  # noqa: BLE001
                # An odd file of one run must not blind the detection of the others. Facts of
                # earlier are not used: by them, the run would seem to stand still.
                unseen.add(run.name)
                sentence = f"{run.name} cannot be looked at: {type(error).__name__}: {error}"[:500]
                coverage.append(sentence)
                if self._faults.get(run.name) != sentence:
                    self._faults[run.name] = sentence
                    traceback.print_exception(error)
                    self.fault(sentence)
        if gpus.state != "ok":
            coverage.append(f"GPUs are {gpus.state}")
        if gpus.pids == "foreign":
            coverage.append("NVML reports pids of another namespace: memory per process is unknown")
        disks, shm = self.collector.disks()
        if disks is None:
            coverage.append("no disk has answered for a minute")
        kills, kill_m = self.collector.oom_kills()
        return Facts(
            now_m=time.monotonic(),
            now_t=time.time(),
            runs=runs,
            gpus=gpus,
            coverage=coverage,
            disks=disks,
            shm=shm,
            oom_kills=kills,
            oom_kill_m=kill_m,
            console=self.stores(),
            unseen=frozenset(unseen),
        )

    def run_facts(self, run: str) -> RunFacts:
        """Return the present facts of one run. Raises UnknownRun if there is no such run, and
        LaunchFailed if the run was never started.
        """
        self.table.refresh()
        self.runs.poll()
        return self._run_facts(self.runs.get(run))

    def gpu_facts(self) -> GpuFacts:
        """Return the present facts of the GPUs, with every process that uses one."""
        self.runs.poll()
        return self._gpu_facts(self.table.refresh(), thorough=True)

    def watched_processes(self) -> set[Identity]:
        """Return those living processes of runs (for example the trainer) whose end must be noticed
        at once.
        """
        found = set()
        for run, attempt in self._started():
            for member in self.runs.membership.members(run.name, attempt.number):
                if member.alive and member.component in _PARTS:
                    found.add(member.identity)
        return found

    def _started(self) -> Iterator[tuple[Run, Attempt]]:
        """Yield every run that has been started, with its newest attempt."""
        for run in self.runs.all():
            if run.attempt is not None:
                yield run, run.attempt

    def tell_gone(self, gone: Sequence[Identity]) -> None:
        """Write one record to the journal (the agent's log of actions and incidents) for each
        process in `gone` that belonged to a run. The record has the exit code or the signal that
        ended the process, if the shim (the small process that starts a run's launcher) has recorded
        it. `gone` are processes that have ended; those of no run are ignored. Raises SpoolFull if
        the journal has no room.
        """
        for run, attempt in self._started() if gone else ():
            ends = {end.identity: end for end in self.runs.exits(run.name, attempt.number)}
            for member in self.runs.membership.members(run.name, attempt.number):
                if member.identity in gone:
                    end = ends.get(member.identity)
                    self.book.append(
                        "run",
                        event="process-gone",
                        run=run.name,
                        attempt=attempt.number,
                        component=member.component,
                        identity=member.identity.as_dict(),
                        code=end.code if end else None,
                        signal=end.signal if end else None,
                    )

    def run_members(self) -> list[RunMembers]:
        """Return, for each run that was started, the processes that telemetry measures: the living
        processes of all its attempts, and the ended processes of its newest attempt. The list is
        empty if no run was started.
        """
        found = []
        for run, attempt in self._started():
            members = []
            for m in self.runs.members(run.name):
                members.append((m.identity, m.component))
            found.append(RunMembers(run.name, attempt.number, members))
        return found

    def paths(self) -> list[Path]:
        """Return the directories whose disks are watched: the agent's home and the output directory
        of every run. For a directory that does not exist yet, the nearest one above it is returned.
        """
        found = [self.runs.home.root, *(run.spec.output_dir for run in self.runs.all())]
        return [next(p for p in (path, *path.parents) if p.exists()) for path in found]

    def last_step_t(self, run: str) -> float:
        """Return the Unix time in seconds at which the run made its newest training step, or 0.0 if
        it has made no step.
        """
        recent = self.follower.recent(run)
        return max((side.last_step_t or 0.0 for side in recent.sides.values()), default=0.0)

    def _run_facts(self, run: Run) -> RunFacts:
        """Return the present facts of a run's newest attempt. Raises LaunchFailed if the run was
        never started.
        """
        attempt = run.attempt
        if attempt is None:
            raise LaunchFailed(
                f"{run.name} has never been started; start it with `bs4-console launch`."
            )
        trainer = self.runs.trainer(run)
        layout = trainer.layout(run.spec)
        recent = self.follower.recent(run.name, attempt.number)
        config, resume, around = self.collector.of(run.name, attempt.number)
        leaving = None
        if attempt.end is not None:
            leaving = intent.intent_of(self.runs.home, run.name, attempt.number)
        return RunFacts(
            name=run.name,
            spec=run.spec,
            layout=layout,
            attempt=attempt.number,
            state=attempt.state,
            started_m=attempt.started_m,
            started_t=attempt.started_t,
            trainer_side=recent.side("trainer"),
            orchestrator_side=recent.side("orchestrator"),
            median_step_s=recent.median_step_s(),
            last_activity_m=recent.last_activity_m,
            members=[m for m in self.runs.members(run.name) if m.attempt == attempt.number],
            exits=self.runs.exits(run.name, attempt.number),
            events=recent.events,
            checkpoints=inventory(trainer, run.spec),
            files=step_files(layout),
            server=self.prober.probe(run.name, attempt.number),
            good_end=bool(attempt.end and attempt.end.good),
            stop_requested=self.runs.stop_requested(run.name, attempt.number),
            stopped_before=self._stopped_before(run, attempt),
            history=recent.history.records(),
            resume=attempt.resume if attempt.resume is not None else resume,
            config=config,
            environment=around,
            with_pod=earlier_boots.ended_with_the_pod(
                self.runs.attempt_directory(run.name, attempt.number), attempt, self._first, leaving
            ),
            leaving=leaving,
        )

    def _stopped_before(self, run: Run, newest: Attempt) -> frozenset[int]:
        """Return the numbers of the attempts before `newest` that this agent's home records a stop
        for.
        """
        numbers = set()
        for attempt in run.attempts:
            if attempt.number < newest.number and self.runs.stop_requested(
                run.name, attempt.number
            ):
                numbers.add(attempt.number)
        return frozenset(numbers)

    def _gpu_facts(self, snapshot: Snapshot, *, thorough: bool = False) -> GpuFacts:
        """Return the facts of the GPUs. With `thorough`, the open files of every process are read
        again, because a plan must not miss a holder that was last read 30 seconds ago.
        """
        sample = self.gpus.latest()
        if sample["state"] != "ok":
            return GpuFacts(state=sample["state"])
        if sample["pids"] == "unknown":
            sample["pids"] = self._numbering
        open_by = self.table.holders(
            self.scope.dev, set(snapshot) if thorough else nvml_pids(sample)
        )
        membership = self.runs.membership
        seen = attribute(
            sample,
            snapshot,
            open_by,
            membership.owner_of,
            self.table.monitors(self.scope.dev),
            self.table.inner(open_by),
        )
        self._numbering = str(seen["pids"])
        holders = []
        for device in seen["devices"]:
            for proc in device["procs"]:
                if proc["visible"] and (process := snapshot.get(proc["pid"])) is not None:
                    dead = membership.dead_run_holder(process.identity)
                    holders.append(
                        Holder(
                            identity=process.identity,
                            gpu=device["index"],
                            mem=proc["mem"],
                            cmdline=process.cmdline,
                            run=proc["run"],
                            component=proc["component"],
                            dead_run=dead[0] if dead else None,
                            same_user=process.uid == self.scope.uid,
                        )
                    )
        devices = seen["devices"]
        return GpuFacts(
            state="ok",
            pids=self._numbering,
            used=_numbers(devices, "mem_used"),
            total=_numbers(devices, "mem_total"),
            holders=holders,
            errors=_words(devices, "error"),
            remaps=_words(devices, "remap"),
            actions=_words(devices, "recovery"),
            **self._load.of(devices, time.monotonic()),
        )

    def _watched(self) -> list[Watched]:
        """Return the running runs with the inference server of each that is to be probed. The
        address of a server is "" while the run's settings give none, as those of verl never do.
        """
        watched = []
        for run, attempt in self._started():
            if attempt.state != "running" or run.spec.component != "rl":
                continue
            try:
                url = self.runs.trainer(run).inference_url(run.spec)
            except (AgentError, OSError):
                url = ""  # its config gives no address now; what the server answered is kept
            recent = self.follower.recent(run.name, attempt.number)
            moved = max(
                recent.side(name).last_step_m or attempt.started_m
                for name in ("trainer", "orchestrator")
            )
            quiet_s, pace_s = time.monotonic() - moved, recent.median_step_s()
            watched.append(Watched(run.name, attempt.number, url, quiet_s, pace_s))
        return watched

    # Actions

    def stop(self, run: str, say: Callable[[str], None]) -> str:
        """Stop the run in the way that its trainer needs and return a sentence about how it ended.
        `say` receives a sentence for each stage. Raises StepFailed if a process or its GPU memory
        remains.
        """
        return StopRun(self.runs, run, gpu_holders=self._members_on_gpus).execute(say).sentence

    def stop_command(self, run: str) -> str:
        """Return a text for people with the command with which a stop of the run begins and what is
        done after it, or "" if no process of the run lives.
        """
        steps = StopRun(self.runs, run, gpu_holders=self._members_on_gpus).plan()
        if steps:
            return f"{steps[0].command}, then TERM and KILL for what is left of it"
        return ""

    def _members_on_gpus(self, run: str) -> list[Member]:
        """Return the living processes of a run that hold GPU memory."""
        holding = {holder.identity for holder in self.gpu_facts().holders}
        found = []
        for m in self.runs.membership.living(run):
            if m.identity in holding:
                found.append(m)
        return found

    def leftovers(self, run: str) -> Sequence[Member]:
        """Return the processes of the run's ended attempts that are still alive. Raises UnknownRun
        if there is no such run.
        """
        self.runs.poll()
        return self.runs.leftovers(run)

    def end(self, targets: Sequence[Identity], say: Callable[[str], None]) -> str:
        """End the processes `targets`, each identified by pid and start time, with SIGTERM and then
        SIGKILL, and return a sentence about the result. `say` receives progress messages. Raises
        StepFailed if one survives SIGKILL.
        """
        _, left = ending.end(targets, say=say)
        if left:
            raise StepFailed(
                f"{', '.join(map(str, left))} survived SIGKILL: it hangs in the kernel. "
                "Release the pod."
            )
        return f"{words.processes(len(targets))} ended"

    def archive_logs(self, run: str) -> str:
        """Keep a copy of the logs of the run's last attempt in the run's archive on the pod, and
        return a sentence about it. Raises StepFailed if the disk reports an error, and Refused if a
        directory belongs to another user or is writable by another user.
        """
        return archive.archive_logs(self.runs, run).sentence

    def trash(self, run: str, path: Path, key: str, *, everything: bool = False) -> Path:
        """Move `path` with one rename into the run's trash (a directory in which removed files are
        kept), under the action's key `key`, and return its new path. `everything` permits the
        newest complete checkpoint too. Raises Refused if a rule that `runs.trash.trash` describes
        forbids the move, and StepFailed if the file system reports an error.
        """
        return trash.trash(self.runs, run, path, stamp_as=key, everything=everything)

    def launch(self, spec: LaunchSpec, key: str) -> int:
        """Start an attempt for the action with the key `key` and return its number. If this action
        has started an attempt before, return the number of that attempt and start nothing. Raises
        RunExists, BadConfig, BadRequest or LaunchFailed, as `launch.start.launch` describes.
        """
        # Children inherit the limit. The agent itself never opens nearly as many files.
        limit = min(self.nofile(spec.run), self.hard_nofile())
        resource.setrlimit(
            resource.RLIMIT_NOFILE,
            (limit, max(limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1])),
        )
        attempt = launch(self.runs, spec, key=key)
        self.follower.poll()
        return attempt.number

    def launched(self, run: str, key: str) -> int | None:
        """Return the number of the attempt that was started under the action key `key`, or None if
        there is no such attempt.
        """
        attempt = self.runs.launched(run, key)
        if attempt is None:
            return None
        return attempt.number

    def claimed(self, run: str, key: str) -> bool:
        """Return True if the action with the key `key` has prepared an attempt of the run (made its
        directory), whether or not the attempt was started then.
        """
        for number in attempt_numbers(self.runs.home.run(run)):
            spec = read_json(self.runs.attempt_directory(run, number) / "spec.json")
            if spec is not None and spec.get("key") == key:
                return True
        return False

    def command(self, spec: LaunchSpec) -> Sequence[str]:
        """Return the command line (argv) that a launch of `spec` would execute. Raises LaunchFailed
        if its container does not run or does not see the run's directories, and BadConfig if its
        config cannot be used.
        """
        if spec.container:
            return composed(self.runs, spec)[0]
        return spec.argv or self.runs.trainer(spec).command(spec)

    def command_line(self, spec: LaunchSpec) -> str:
        """Return the command line that a launch of `spec` would execute, as text quoted for a
        shell. Raises the errors of `command`.
        """
        return shlex.join(self.command(spec))

    def companion(self, run: str) -> RunFacts | None:
        """Return the facts of the separately started inference server that this run uses, or None
        if no run of this pod serves its port. The server is a run of its own. Raises UnknownRun if
        there is no run `run`.
        """
        me = self.runs.get(run)
        port = urlsplit(self.runs.trainer(me).inference_url(me.spec)).port
        for other in self.runs.all():
            if (
                other.spec.component == "inference"
                and other.attempt
                and port in self.runs.trainer(other).serves(other.spec)
            ):
                return self.run_facts(other.name)
        return None

    def port_holders(self, run: str) -> Sequence[PortHolder]:
        """Return the processes that listen on the ports of this run's servers; empty if all ports
        are free. Raises UnknownRun if there is no such run.
        """
        me = self.runs.get(run)
        return self.port_openers(self.runs.trainer(me).serves(me.spec))

    def gpu_rivals(self, run: str) -> Sequence[Holder]:
        """Return the processes of other living runs that hold more than a gigabyte on a GPU that
        the next attempt of this run will use. The sequence is empty if there are none, or if it is
        not certain which GPUs the attempt will use. A run that has lived at the same time as this
        one before is left out, because the two share a GPU by choice. Raises UnknownRun if there is
        no such run.
        """
        me = self.runs.get(run)
        variables = {**os.environ, **inherited(self.runs.home, me.spec.cwd), **me.spec.env}
        start = planned.run_facts(me.spec, self.runs.trainer(me), variables)
        rivals = []
        for holder in self.gpu_facts().holders:
            if (
                holder.gpu in (device_ids(start, variables) or ())
                and (holder.mem or 0) > _STRAY_BYTES
                and holder.run not in (None, run)
                and not lived_beside(me, self.runs.get(holder.run))
            ):
                rivals.append(holder)
        return rivals

    def port_openers(self, ports: Collection[int]) -> Sequence[PortHolder]:
        """Return the processes that listen on any of `ports`. An entry with `identity` None is a
        port that is in use by a process that the agent cannot see.
        """
        found = listening(ports)
        snapshot = self.table.refresh()
        opened = openers(found, snapshot)
        holders = []
        for inode, port in found.items():
            for pid in opened.get(inode, ()):
                process = snapshot[pid]
                owner = self.runs.membership.owner_of(process.identity)
                dead = self.runs.membership.dead_run_holder(process.identity)
                holders.append(
                    PortHolder(
                        port,
                        process.identity,
                        process.cmdline,
                        owner[0] if owner else None,
                        dead[0] if dead else None,
                        process.uid == self.scope.uid,
                    )
                )
            if inode not in opened:
                holders.append(PortHolder(port, None))
        return holders

    def server_answers(self, run: str) -> bool:
        """Return True if the run's inference server answers GET /health with HTTP status 200 within
        5 seconds. Raises UnknownRun if there is no such run.
        """
        me = self.runs.get(run)
        return health(self.runs.trainer(me).inference_url(me.spec), 5.0).ok

    def shared_memory(self) -> Path:
        """Return the path of the pod's shared-memory directory."""
        return self.scope.dev / "shm"

    def nofile(self, run: str) -> int:
        """Return the soft limit of open files with which the run's next attempt would start."""
        highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        for path in (self.runs.home.limits, self.runs.home.run(run) / "limits.json"):
            highest = max(highest, int((read_json(path) or {}).get("nofile", 0)))
        return highest

    def hard_nofile(self) -> int:
        """Return the hard limit of open files on this pod, which no process can raise."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = int(Path("/proc/sys/fs/nr_open").read_text())
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, highest))
        except (ValueError, PermissionError):
            return hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return highest

    def set_nofile(self, run: str, limit: int) -> None:
        """Save `limit` as the soft limit of open files with which every later attempt of the run
        starts.
        """
        write_json(self.runs.home.run(run) / "limits.json", {"nofile": limit})

    def note(self, run: str, text: str, key: str) -> None:
        """Write a note about the run to the journal, under the action key `key`. Raises SpoolFull
        if the journal has no room.
        """
        self.book.append("note", sync=True, run=run, text=text, who="playbook", action=key)

    def noted(self, run: str, text: str, key: str) -> bool:
        """Return True if the action `key` has already written the note `text` about the run."""
        view = self.book.ledger.runs.get(run)
        return view is not None and any(
            note.get("action") == key and note.get("text") == text for note in view.notes
        )

    def plan_launch(
        self, asked: Mapping[str, Any], record: Mapping[str, Any], tries: int
    ) -> plan.LaunchPlan:
        """Return the plan of a launch; nothing on the pod is changed. `asked` is the launch
        request, `record` is stored in the plan as it is, and `tries` is the number of launches of
        this run that have ended, so that a further try has a plan with another hash. Raises an
        AgentError that says why no plan can be made.
        """
        self.runs.poll()
        return plan.make(self.runs, asked, tries=tries, record=record)

    def move_aside(self, spec: LaunchSpec, paths: Sequence[Path], key: str) -> str:
        """Move `paths`, which must be gone before a start of `spec`, into the run's trash, each
        with one rename, and return a sentence about the result. `key` is the action's key. Paths
        that an earlier call with this key has moved stay in the trash (a directory in which removed
        files are kept).

        Checkpoints may be among the paths, even the newest complete one: a person confirms such a
        plan by typing the run's name. Raises StepFailed if the disk reports an error, and Refused
        if a path is not the run's own.
        """
        if any(run.name == spec.run and run.attempts for run in self.runs.all()):
            archive.archive_logs(self.runs, spec.run)
        self.runs.register(spec)
        for path in paths:
            trash.trash(self.runs, spec.run, path, stamp_as=key, everything=True)
        return f"moved {words.directories(len(paths))} to the trash of {spec.run}"

    def remote_step(self, run: str) -> Restorable | None:
        """Return the newest checkpoint of the run in its object store that can be restored, as a
        dictionary with the keys that `PodActions.remote_step` describes. Return None if no store of
        the run is known. Raises NotApplicable if the store has no complete checkpoint, and
        StepFailed if it does not answer. Raises UnknownRun if there is no such run.
        """
        spec, synced = self.runs.get(run).spec, self.book.ledger.syncs.get(run)
        if synced is None or not synced.place:
            return None
        asked: RestoreBody = {
            "run": run,
            "from": synced.place,
            "step": None,
            "trainer": spec.trainer,
            "cwd": str(spec.cwd),
            "output_dir": str(spec.output_dir),
            "config": str(spec.config),
        }
        return self.restoring().described(asked)

    def restored(self, run: str, parameters: Mapping[str, Any]) -> bool:
        """Return True if the checkpoint of a planned restore is complete where the trainer looks
        for it. `parameters` are those of the plan's step `restore_set`; in them, `asked` (the
        request) and `identity` (the hash of the list of the checkpoint's files) say which
        checkpoint it is, as `remote_step` returned them.
        """
        restoring = self.restoring()
        return restoring.placed(restoring.of(parameters))

    def restore(
        self, run: str, parameters: Mapping[str, Any], key: str, say: Callable[[str], None]
    ) -> str:
        """Fetch the checkpoint of a planned restore, put it where the trainer looks for it, and
        return a sentence about the result. `parameters` are those of the plan's step `restore_set`;
        in them, `asked` (the request) and `identity` (the hash of the list of the checkpoint's
        files) say which checkpoint it is, as `remote_step` returned them. `key` is the action's
        key, and `say` receives progress messages. Raises an AgentError, for example if the disk has
        too little space.
        """
        restoring = self.restoring()
        prepared = restoring.of(parameters)
        restoring.refuse_full(prepared)
        fetched = restoring.fetch(prepared, key, say)
        return f"{fetched}; {restoring.put(prepared, key)}"

    def wait_first_step(
        self,
        run: str,
        attempt: int,
        say: Callable[[str], None] = lambda text: None,
        pause: Callable[[float], object] = time.sleep,
    ) -> int | None:
        """Wait until the attempt has finished its first step and return the number of that step.
        For an inference server or an evaluation, wait until it answers or has a result, and return
        None.

        Raises LaunchFailed if the attempt ends before that, or if nothing is seen within 45
        minutes. `say` receives each phase of the start-up as text. `pause` sleeps for a number of
        seconds between two polls; an error that it raises ends the wait.
        """
        deadline = time.monotonic() + plan.FIRST_STEP_S
        said = ""
        ended_m: float | None = None
        while time.monotonic() < deadline:
            facts = self.run_facts(run)
            if facts.attempt != attempt:
                raise LaunchFailed(
                    f"Attempt {attempt} of {run} was replaced by attempt {facts.attempt} "
                    "before its first step."
                )
            awaited = plan.WATCHED.get(facts.spec.component)
            side = facts.orchestrator_side if awaited == "orchestrator" else facts.trainer_side
            if side.last_step is not None:
                return side.last_step
            result = facts.last_event("eval", "eval") or facts.last_event("eval", "evals")
            evaluated = awaited == "eval" and (result or (facts.over and facts.good_end))
            if evaluated or (awaited == "inference" and self.server_answers(run)):
                return None
            if facts.over:
                ended_m = ended_m or time.monotonic()
                if time.monotonic() - ended_m < LAST_LINES_S:
                    self.follower.poll()
                    pause(0.25)
                    continue
                end = self.runs.get(run).attempt
                detail = "its end is not known"
                if end is not None and end.end is not None:
                    detail = end.end.detail
                source: str = facts.spec.component
                if source in ("rl", "sft"):
                    source = facts.layout.own_log
                what = "result" if awaited == "eval" else "step"
                raise LaunchFailed(
                    f"{run} ended before its first {what}: {detail} See `bs4-console logs "
                    f"{run} --source {source}`."
                )
            phase = start_up(facts)
            if phase != said:
                said = phase
                say(phase)
            pause(0.25)
        what = "result" if awaited == "eval" else "step"
        raise LaunchFailed(
            f"{run} has shown no {what} for {plan.FIRST_STEP_S / 60:.0f} minutes; it "
            "goes on, so look at its logs."
        )

    def adopt_new(self) -> None:
        """Adopt the runs that were started by hand, so that the agent watches them from then on. Do
        nothing if the machine's processes are the same as at the last call. Raises NotApplicable if
        a run cannot be adopted, for example because its process has just ended, and RunExists if
        its name belongs to a live run.
        """
        snapshot = self.table.snapshot(SHARED_PASS_S)
        seen = {(proc.identity, proc.cmdline) for proc in snapshot.values()}
        if seen != self._searched:
            self._searched = seen
            self.adopt()

    def adopt(self, pid: object = None, name: str = "") -> list[AdoptedRow]:
        """Adopt runs that were started by hand, so that the agent watches them from then on. With
        `pid`, only the run that has this launcher process is adopted, under `name` if one is given.

        Return one row for each launcher that was found: its pid, trainer, command, the name of its
        run, and whether it was adopted (if it cannot be, also why). Raises RunExists or
        NotApplicable, as `adopt.adopt` describes.
        """
        found: list[AdoptedRow] = []
        for candidate in adopt.candidates(self.runs, self.table.snapshot(1.0)):
            # a container's own log names the launcher by its inner pid
            asked = pid is not None and pid in (
                candidate.root.pid,
                candidate.inner,
            )
            if pid is None and adopt.too_early(self.runs, candidate):
                # scanned again in the next pass, even if no process has changed
                self._searched = set()
                continue
            run = None
            if asked or (pid is None and not candidate.problem):
                run = adopt.adopt(self.runs, candidate, name)
            row: AdoptedRow = {
                "pid": candidate.root.pid,
                "trainer": candidate.spec.trainer,
                "command": shown_command(candidate.cmdline, 300),
                "run": run.name if run else candidate.spec.run,
                "adopted": run is not None,
            }
            if candidate.problem:
                row["why"] = candidate.problem
            found.append(row)
        return found

    def resolved(self, run: str, playbook: str, incident: str) -> None:
        """Write to the journal (the agent's log of actions and incidents) that the run's open
        incidents of this playbook, and the incident with the id `incident`, are resolved, because
        the playbook's verification has passed. Raises SpoolFull if the journal has no room.
        """
        for view in self.book.ledger.open_incidents(run):
            if view.id == incident or view.playbook == playbook:
                self.book.append(
                    "incident", event="resolved", incident=view.id, run=run, failure=view.failure
                )
                self._resolved(view.id)


def _no_restoring() -> Restoring:
    """Raise NotApplicable. It is used until the daemon's actions set the code that restores."""
    raise NotApplicable(
        "This agent carries no actions out, so it restores nothing; ask the pod's own."
    )


def _words(devices: Sequence[Device], key: Literal["error", "remap", "recovery"]) -> dict[int, str]:
    """Return what the driver reports of its devices under `key`, by device index. Devices without a
    report are left out.
    """
    found = {}
    for device in devices:
        if device.get(key):
            found[device["index"]] = str(device[key])
    return found


def _numbers(devices: Sequence[Device], key: Literal["mem_used", "mem_total"]) -> dict[int, int]:
    """Return the devices' numbers under `key`, by device index. Unknown numbers are left out."""
    found = {}
    for device in devices:
        if (number := device.get(key)) is not None:
            found[device["index"]] = number
    return found
