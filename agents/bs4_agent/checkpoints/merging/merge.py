"""Merges a step's shards, or an adapter and its base, into a Hugging Face directory: finds out what
would be run, from where and to where, and carries out the two steps.

The merger of shards is the trainer's own. `worker.py` runs it beside the target, under a shim. When
its output is complete, one rename puts it in its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypedDict

from bs4_agent.checkpoints.merging import worker
from bs4_agent.checkpoints.merging.check import lacking
from bs4_agent.checkpoints.remote import process
from bs4_agent.checkpoints.restoring import fetch
from bs4_agent.jobs import Jobs
from bs4_agent.launch.environment import inherited
from bs4_agent.paths import Home
from bs4_agent.probes import merge_adapter
from bs4_agent.runs.registry import Runs
from bs4_agent.telemetry.memory import MemoryMeter
from bs4_agent.tree.changes import remove, rename
from bs4_common.checkpoints.content import wanting
from bs4_common.checkpoints.inventory import nearest
from bs4_common.checkpoints.sets import (
    StepSet,
    complete_sets,
    numbers,
    set_of,
    step_sets,
    verify,
)
from bs4_common.descriptors import open_directory
from bs4_common.errors import BadRequest, NotApplicable, PlanChanged, Refused, StepFailed
from bs4_common.failures.detectors.reporting import size as size_text
from bs4_common.files import read_json, write_json
from bs4_common.ids import safe_name
from bs4_common.runs.model import Run
from bs4_common.trainers import verl_merger, verl_needs

_WORKER = "bs4_agent.checkpoints.merging.worker"
#: The beginnings of the names of step directories.
_STEPS = ("global_step_", "step_")

Say = Callable[[str], None]


class MergeBody(TypedDict, total=False):
    """The request for a merge or a backup, as it stands in the body of an action. The fields are
    those of MergeRequest. Their values are not checked yet, so each may be of any type;
    `MergeRequest.read` checks them.
    """

    run: object
    step: object
    target: object
    adapter: object
    base: object


class MergeParameters(TypedDict):
    """The part of a plan for a merge or a backup that the plan's hash covers, as JSON values.
    `asked` is the request, and the other fields have the same meaning as in Prepared.
    """

    asked: MergeBody
    step: int | None
    source: str
    target: str
    inside: bool
    commands: Sequence[Sequence[str]]
    cwd: str
    files: Mapping[str, Sequence[int]]


class MergeFields(MergeParameters):
    """The plan of a merge or a backup as the journal has it, without its steps. `playbook` is the
    kind of the action. The other fields have the same meaning as in Prepared.
    """

    playbook: Literal["merge", "backup"]
    bytes: int
    needed: int
    notes: Sequence[str]


@dataclass(frozen=True)
class MergeRequest:
    """What a person requests from one merge into a Hugging Face directory. Usually the shards of
    the training step `step` of `run` are merged; None means the newest complete step. If `adapter`
    is not "", it is the directory of an adapter, which is merged instead into the model in the
    directory `base`; `base` "" means the model that the adapter's own config names. The result goes
    to the directory `target`; "" means `merged/NAME` in the run's directory, where NAME is that of
    the step or of the adapter. Relative paths count from the directory in which the run was
    started.
    """

    run: str
    step: int | None = None
    target: str = ""
    adapter: str = ""
    base: str = ""

    @classmethod
    def read(cls, body: MergeBody) -> MergeRequest:
        """Return the request in `body`, the body of an action that a console submitted. Raises
        BadRequest if it is no valid request.
        """
        step = body.get("step")
        if step is not None and (not isinstance(step, int) or isinstance(step, bool) or step < 0):
            raise BadRequest(f"{step!r} is no step to merge; give a number.")
        paths: list[str] = []
        for name in ("target", "adapter", "base"):
            path = body.get(name) or ""
            if not isinstance(path, str) or "\0" in path or path.startswith("~"):
                raise BadRequest(
                    "Give `target`, `adapter` and `base` as absolute paths, or relative to the "
                    "run's cwd."
                )
            paths.append(path)
        _, adapter, base = paths
        if (adapter and step is not None) or (base and not adapter):
            raise BadRequest("Merge a step, or an adapter into its base; give one of the two.")
        return cls(safe_name(str(body.get("run") or "")), step, *paths)

    def body(self) -> MergeBody:
        """Return the request as a dictionary, in the form in which the body of an action has it.
        `read` makes a request of it again.
        """
        return {
            "run": self.run,
            "step": self.step,
            "target": self.target,
            "adapter": self.adapter,
            "base": self.base,
        }


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Everything that one merge will do, found out in advance.

    `asked` is the request. `step` is the step that is read, or None for an adapter that lies in no
    step of the run. `source` is the directory with the shards or the adapter and `target` the
    directory to create. `commands` (argv lists) are run one after the other in `cwd`. `inside` is
    True if the merger writes into the directory that it reads. `files` maps the name of each file
    that is read to [bytes, mtime in ns]. `bytes` is the size of the files of all ranks (of an
    adapter: of the model into which it is merged); the resulting model is not larger, because a
    merge writes bfloat16. `needed` is the number of bytes of disk space that the merge needs.
    `notes` are sentences for the person who reads the plan. `kind` is the kind of the action; a
    "backup" copies `files` and runs no command (backup.py).
    """

    kind: Literal["merge", "backup"] = "merge"
    asked: MergeRequest
    step: int | None
    source: Path
    target: Path
    commands: Sequence[Sequence[str]]
    cwd: Path
    inside: bool
    files: Mapping[str, Sequence[int]]
    bytes: int
    needed: int
    notes: Sequence[str]

    @property
    def what(self) -> str:
        """Return what is merged or copied as text for a person: "step 40", or "the adapter
        PATH".
        """
        if self.asked.adapter:
            return f"the adapter {self.source}"
        return f"step {self.step}"

    @property
    def verb(self) -> str:
        """Return the first word of a title for a person: "Merge" or "Back up"."""
        return "Back up" if self.kind == "backup" else "Merge"

    @property
    def staging(self) -> Path:
        """Return the directory in which the merger works. It is beside `target`."""
        return staging_of(self.target, self.kind)

    def order(self) -> worker.MergeOrder:
        """Return the description of this merge (or backup) of a checkpoint as a dictionary of JSON
        values. The separate program that carries it out reads it. The caller still has to add the
        fields of `worker.WorkerOrder`: the id of the action (`key`) and the environment variables.
        """
        return {
            "kind": self.kind,
            "run": self.asked.run,
            "step": self.step,
            "source": str(self.source),
            "base": self.asked.base,
            "target": str(self.target),
            "staging": str(self.staging),
            "commands": [list(argv) for argv in self.commands],
            "cwd": str(self.cwd),
            "inside": self.inside,
            "files": {name: list(value) for name, value in self.files.items()},
        }


def staging_of(target: Path, kind: str = "merge") -> Path:
    """Return the path of the directory in which the content of `target` is made before it is
    complete. It lies beside `target`, so that the result only has to be renamed. `kind` is "merge"
    or "backup" and is part of its name.
    """
    return target.with_name(f".{target.name}.{'copying' if kind == 'backup' else 'merging'}")


class Merging:
    """Merges the shards of checkpoints into Hugging Face directories; one object per pod. The
    merger runs as a process of its own (see `jobs.Jobs`), so it goes on while the agent is replaced
    or killed. `memory` is a function that returns (used, total) bytes of the pod's memory.
    """

    def __init__(
        self,
        home: Home,
        runs: Runs,
        jobs: Jobs,
        memory: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._home, self._runs, self._jobs = home, runs, jobs
        self._memory = memory or MemoryMeter().used_and_total

    def find(self, asked: MergeRequest) -> Prepared:
        """Find out what the requested merge would do now, and return it. Nothing is written.

        Raises NotApplicable if there is no such step, no merger or nothing to merge; and Refused if
        the step, the adapter or the base is incomplete, the target exists or would be in the way of
        other files, or the disk or the memory is too small. Raises UnknownRun if there is no such
        run.
        """
        run = self._runs.get(asked.run)
        if asked.adapter:
            return self._of_adapter(run, asked)
        if not self._runs.trainer(run).merges:
            raise NotApplicable(
                f"{asked.run} is a run of {run.spec.trainer}, which writes whole weights "
                "itself; only verl's steps are merged."
            )
        if run.spec.container:
            raise NotApplicable(
                f"{asked.run} runs in the container {run.spec.container}, which alone has its "
                f"verl; merge it there: `docker exec {run.spec.container} python3 -m "
                "verl.model_merger merge --backend fsdp --local_dir STEP/actor --target_dir DIR`."
            )
        one = self._chosen(run, asked)
        source = one.parts["model" if "model" in one.parts else "actor"].path.resolve()
        target = self._target(run, asked, self._merged(run, f"global_step_{one.step}"))
        merger = verl_merger.find(run.spec)
        if merger is None:
            raise NotApplicable(
                f"The verl of {asked.run} is older than its merger, and {run.spec.cwd} has "
                "no scripts/model_merger.py; check it out there."
            )
        files = worker.stamp(source)
        shards = sum(size for name, (size, _) in files.items() if "/" not in name)
        _refuse_unmergeable(source, shards)
        staging = staging_of(target)
        inside, adapter = merger.form == "inside", source / "lora_adapter"
        lora = adapter.is_dir() and not inside  # such releases support no adapters
        first = staging / (worker.BASE if lora else worker.MODEL)
        commands = [merger.argv(staging / worker.INPUT if inside else source, first)]
        if lora:
            _refuse_alpha(adapter)
            commands.append(_adapter_merger(run, first, adapter, staging))
        needed = shards * (2 if lora else 1)
        self._refuse_full(one.bytes if run.live else 0, target, needed)
        notes = self._refuse_small(shards)
        # The person confirms this step, even if the run saves a newer one in the meantime.
        asked = replace(asked, step=one.step)
        return Prepared(
            asked=asked,
            step=one.step,
            source=source,
            target=target,
            commands=commands,
            cwd=merger.cwd,
            inside=inside,
            files=files,
            bytes=shards,
            needed=needed,
            notes=notes,
        )

    def _of_adapter(self, run: Run, asked: MergeRequest) -> Prepared:
        """Return the merge of an adapter into its base, by the interpreter of the run."""
        if run.spec.container:
            raise NotApplicable(
                f"{asked.run} runs in the container {run.spec.container}, which alone has its "
                f"libraries; copy {merge_adapter.__file__} there and run it with --base, --adapter "
                "and --target."
            )
        adapter = Path(os.path.normpath(run.spec.cwd / asked.adapter))
        config = read_json(adapter / "adapter_config.json")
        if config is None:
            raise NotApplicable(f"{adapter} is no adapter: it has no adapter_config.json.")
        _refuse_alpha(adapter)
        named = str(config.get("base_model_name_or_path") or "")
        own = Path(os.path.normpath(run.spec.cwd / named))
        base = Path(os.path.normpath(run.spec.cwd / asked.base)) if asked.base else own
        if not (asked.base or named) or not base.is_dir():
            raise NotApplicable(
                f"The base of {adapter} is {named or 'not named'}, and there is no directory "
                f"{base} here; give the one that has it with --base."
            )
        for place, why in ((adapter, wanting("weights", adapter)), (base, lacking(base))):
            if why:
                raise Refused(f"{place} is not whole ({why}) and is not merged.")
        target = self._target(run, asked, self._merged(run, adapter.name))
        for place in (adapter.resolve(), base.resolve()):
            if place in target.parents:
                raise Refused(
                    f"{target} lies in {place}, which is only read; name another --target."
                )
        sets = step_sets(self._runs.trainer(run), run.spec)
        asked = replace(asked, adapter=str(adapter), base=str(base))
        files = worker.stamp(adapter, asked.base)
        size = sum(path.stat().st_size for path in base.iterdir() if path.is_file())
        reserve = max((one.bytes for one in sets), default=0) if run.live else 0
        self._refuse_full(reserve, target, size)
        notes = self._refuse_small(size)
        if named and base != own:
            notes.append(f"The adapter's own config names {named} as its base.")
        return Prepared(
            asked=asked,
            step=_holding(sets, adapter.resolve()),
            source=adapter,
            target=target,
            commands=[_adapter_merger(run, base, adapter, staging_of(target))],
            cwd=run.spec.cwd,
            inside=False,
            files=files,
            bytes=size,
            needed=size,
            notes=notes,
        )

    def _chosen(self, run: Run, asked: MergeRequest) -> StepSet:
        """Return the requested step, or the newest one whose files verify."""
        sets = step_sets(self._runs.trainer(run), run.spec)
        if asked.step is None:
            for one in complete_sets(sets):
                if not verify(one):
                    return one
            raise NotApplicable(
                f"{asked.run} has no complete checkpoint; `bs4-console "
                "checkpoints list` says what they lack."
            )
        found = set_of(sets, asked.step)
        if found is None:
            known = ", ".join(map(str, numbers(complete_sets(sets)[:8]))) or "none"
            raise NotApplicable(f"{asked.run} has no step {asked.step}; complete are: {known}.")
        if why := verify(found):
            raise Refused(
                f"Step {asked.step} of {asked.run} is torn ({why}); take another one with --step."
            )
        return found

    def _merged(self, run: Run, name: str) -> Path:
        """Return the directory of a merged model if no other is requested."""
        return self._runs.trainer(run).layout(run.spec).run_dir / "merged" / name

    def _target(self, run: Run, asked: MergeRequest, named: Path) -> Path:
        """Return the absolute path of the target, which is `named` if none was requested. Raises
        Refused if it exists, cannot be written, is among the checkpoints, or lies in a directory
        that is in other people's hands.
        """
        layout = self._runs.trainer(run).layout(run.spec)
        if asked.target:
            named = run.spec.cwd / asked.target
        target = Path(os.path.normpath(named))
        if os.path.lexists(target):
            raise Refused(
                f"{target} is there already, and is left as it is; name another directory "
                "with --target."
            )
        parent = nearest(target.parent)
        # Links are resolved, so that the directory that is shown is the one that is meant.
        target = parent.resolve() / target.relative_to(parent)
        parent = parent.resolve()
        root = layout.trainer_checkpoints.resolve()
        if root in target.parents and target.relative_to(root).parts[0].startswith(_STEPS):
            raise Refused(
                f"{target} lies among the checkpoints, where a trainer deletes what it does "
                "not need; name another --target."
            )
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise Refused(
                f"Nothing can be written to {parent}; name another directory with --target."
            )
        if parent == target.parent:
            with open_directory(parent, ours=parent):
                pass  # the model is not put where others can change it
        return target

    def _refuse_full(self, reserve: int, target: Path, needed: int) -> None:
        """Raise Refused if the disk, of which `reserve` bytes are the run's, is too small."""
        free = fetch.free_bytes(target)
        if needed + reserve + fetch.MARGIN > free:
            beside = f", beside {size_text(reserve)} for the next checkpoint of the run"
            raise Refused(
                f"The disk of {target} has {size_text(free)} free, and this needs up to "
                f"{size_text(needed)}{beside if reserve else ''}. Free space there, or name "
                "another disk with --target."
            )

    def _refuse_small(self, shards: int) -> list[str]:
        """Return notes for the person. Raises Refused if the host's memory is too small."""
        used, total = self._memory()
        left = total - used
        if left < shards:
            raise Refused(
                f"The merger holds the whole model in the host's memory, up to "
                f"{size_text(shards)}, and {size_text(left)} are left; when it is used up the "
                "kernel ends processes of the run too. Merge when nothing trains, or on another "
                "machine."
            )
        if left < 2 * shards:
            return [
                (
                    f"{size_text(left)} of the host's memory are left, and the merger needs up to "
                    f"{size_text(2 * shards)} while it puts shards together."
                )
            ]
        return []

    def merged(self, prepared: Prepared, key: str) -> bool:
        """Return True if the action with the key `key` has produced the merged model and verified
        it. The model is then in the staging directory beside the target, or already in the target
        directory.
        """
        return _made_by(key, prepared, _beside(prepared)) or self._there(prepared, key)

    def _there(self, prepared: Prepared, key: str) -> bool:
        """Return True if the target is what the action `key` has made."""
        return _made_by(key, prepared, prepared.target)

    def merge(self, prepared: Prepared, key: str, say: Say) -> str:
        """Run the merger for the action `key` to its end and return a sentence about the result.
        `say` receives progress messages. Raises PlanChanged if the checkpoint has changed since the
        plan, and StepFailed if the merge fails or another merge works in the same directory. Raises
        LaunchFailed if the program for it cannot be started.
        """
        orders = self._home.state / "merges"
        orders.mkdir(mode=0o700, exist_ok=True)
        order, answer = orders / f"{key}.json", orders / f"{key}.answer.json"
        spec = self._runs.get(prepared.asked.run).spec
        write_json(
            order,
            {
                **prepared.order(),
                "key": key,
                "environment": inherited(self._home, spec.cwd) | dict(spec.env),
            },
        )
        try:
            self._jobs.run(
                key,
                process.own(_WORKER, str(order), str(answer)),
                self._home.root,
                {"BS4_HOME": str(self._home.root)},
                say,
            )
        except StepFailed as failure:
            told = (read_json(answer) or {}).get("error") or {}
            kind = PlanChanged if told.get("type") == PlanChanged.type else StepFailed
            # The command line is the agent's own and long; only how it ended matters.
            how = failure.message.rpartition(" ended with ")[2]
            raise kind(
                str(told.get("message") or f"The program for it ended with {how} Ask again.")
            ) from failure
        done = read_json(answer) or {}
        return f"{done.get('files', 0)} files, {size_text(done.get('bytes', 0))}, verified"

    def placed(self, prepared: Prepared, key: str) -> bool:
        """Return True if the model of the action `key` is in the target directory and the staging
        directory is gone.
        """
        return self._there(prepared, key) and not prepared.staging.exists()

    def place(self, prepared: Prepared, key: str) -> str:
        """Move the merged model to the target directory with one rename and return a sentence about
        it. Raises PlanChanged if the target exists by now, and StepFailed if the model is not
        complete any more. Raises Refused if a directory in the path belongs to another user or is
        writable by another user, and OSError if the disk reports an error.
        """
        model, target = _beside(prepared), prepared.target
        if not self._there(prepared, key):
            if os.path.lexists(target):
                raise PlanChanged(
                    f"{target} is there by now; what was made waits in {model}. Move it where "
                    "you want it."
                )
            if why := worker.unwhole(prepared.kind, prepared.files, model):
                raise StepFailed(
                    f"{model} is not whole any more ({why}) and was not put in its place; "
                    "ask again."
                )
            rename(model, target)
        # this holds our own mark, and the base into which an adapter was merged
        remove(prepared.staging, ours=prepared.staging)
        if prepared.kind == "backup":
            return f"{target} is a copy, whose digests are in {worker.SUMS}"
        return f"{target} is a Hugging Face directory"


def again(body: MergeFields) -> Prepared:
    """Return the merge or backup that the plan `body`, read from the journal, describes, so that a
    restarted agent can continue it.
    """
    return Prepared(
        kind=body["playbook"],
        asked=MergeRequest.read(body["asked"]),
        step=body["step"],
        source=Path(body["source"]),
        target=Path(body["target"]),
        commands=body["commands"],
        cwd=Path(body["cwd"]),
        inside=body["inside"],
        files=body["files"],
        bytes=body["bytes"],
        needed=body["needed"],
        notes=body["notes"],
    )


def _made_by(key: str, prepared: Prepared, made: Path) -> bool:
    """Return True if the action `key` has made the directory."""
    return (read_json(made / worker.receipt(prepared.kind)) or {}).get("key") == key


def _beside(prepared: Prepared) -> Path:
    """Return the merged model before it is put in its place."""
    return prepared.staging / worker.MODEL


def _adapter_merger(run: Run, base: Path, adapter: Path, staging: Path) -> list[str]:
    """Return the command that merges an adapter into its base, by the interpreter of the run."""
    return [
        verl_needs.interpreter(run.spec, absolute=True),
        "-B",
        merge_adapter.__file__,
        "--base",
        str(base),
        "--adapter",
        str(adapter),
        "--target",
        str(staging / worker.MODEL),
    ]


def _holding(sets: Iterable[StepSet], place: Path) -> int | None:
    """Return the step in whose directories `place` lies, or None. Both are without links."""
    for one in sets:
        if any(directory.resolve() in place.parents for directory in one.directories):
            return one.step
    return None


def _refuse_unmergeable(source: Path, shards: int) -> None:
    """Raise NotApplicable if the directory has nothing that verl's merger can merge."""
    if (source / "dist_ckpt").is_dir():
        raise NotApplicable(
            f"{source} is Megatron's; merge it by hand with `python -m verl.model_merger "
            "merge --backend megatron ...`."
        )
    if not shards:
        raise NotApplicable(
            f"{source} holds no model_world_size_* files: it is a Hugging Face directory "
            "already, copy it as it is."
        )
    if not (source / "huggingface" / "config.json").exists():
        raise NotApplicable(
            f"{source} has no huggingface/config.json, without which verl cannot merge it; "
            "copy the base model's there."
        )


def _refuse_alpha(adapter: Path) -> None:
    """Raise Refused if the adapter has lora_alpha 0. verl's merger writes 0 into the adapters that
    it makes, and merging such an adapter changes nothing.
    """
    config = read_json(adapter / "adapter_config.json") or {}
    if not config.get("lora_alpha"):
        raise Refused(
            f"{adapter}/adapter_config.json says lora_alpha {config.get('lora_alpha')}, so "
            "nothing would be merged; set it first."
        )
