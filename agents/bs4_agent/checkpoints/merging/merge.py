"""Merges a step's shards into a Hugging Face directory: finds out what would be run, from where and
to where, and carries out the two steps.

The merger is the trainer's own. `worker.py` runs it beside the target, under a shim. When its
output is complete, one rename puts it in its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bs4_agent.checkpoints.inventory import nearest
from bs4_agent.checkpoints.merging import worker
from bs4_agent.checkpoints.merging.check import lacking
from bs4_agent.checkpoints.remote import process
from bs4_agent.checkpoints.restoring import fetch
from bs4_agent.checkpoints.sets import (
    StepSet,
    complete_sets,
    numbers,
    set_of,
    step_sets,
    verify,
)
from bs4_agent.errors import BadRequest, NotApplicable, PlanChanged, Refused, StepFailed
from bs4_agent.jobs import Jobs
from bs4_agent.launch.environment import inherited
from bs4_agent.paths import Home, safe_name
from bs4_agent.probes import merge_adapter
from bs4_agent.runs.files import read_json, write_json
from bs4_agent.runs.model import Run
from bs4_agent.runs.registry import Runs
from bs4_agent.telemetry.memory import MemoryMeter
from bs4_agent.trainers import verl_merger, verl_needs
from bs4_agent.tree.changes import remove, rename
from bs4_agent.tree.descriptors import open_directory

_WORKER = "bs4_agent.checkpoints.merging.worker"
#: The beginnings of the names of step directories.
_STEPS = ("global_step_", "step_")

Say = Callable[[str], None]


@dataclass(frozen=True)
class MergeRequest:
    """What a person requests from one merge of a checkpoint's shards into a Hugging Face directory.
    `step` None means the newest complete step. `target` "" means `merged/global_step_N` in the
    run's directory; a relative target counts from the directory in which the run was started.
    """

    run: str
    step: int | None = None
    target: str = ""

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> MergeRequest:
        """Return the request that the body of an action has. Raises BadRequest if the body is no
        valid request.
        """
        step, target = body.get("step"), body.get("target") or ""
        if step is not None and (not isinstance(step, int) or isinstance(step, bool) or step < 0):
            raise BadRequest(f"{step!r} is no step to merge; give a number.")
        if not isinstance(target, str) or "\0" in target:
            raise BadRequest("`target` is the path of a directory that is not there yet.")
        return cls(safe_name(str(body.get("run") or "")), step, target)

    def body(self) -> dict[str, Any]:
        """Return the request as the body of an action, which `read` accepts again."""
        return {"run": self.run, "step": self.step, "target": self.target}


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Everything that one merge will do, found out in advance.

    `source` is the directory with the shards and `target` the directory to create. `commands` (argv
    lists) are run one after the other in `cwd`. `inside` is True if the merger writes into the
    directory that it reads. `files` maps the name of each file that is read to [bytes, mtime in
    ns]. `bytes` is the size of the ranks' files, which is the most that the model can have (a merge
    writes bfloat16). `needed` is the number of bytes of disk space that the merge needs. `notes`
    are sentences for the person who reads the plan.
    """

    asked: MergeRequest
    step: int
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
    def staging(self) -> Path:
        """Return the directory in which the merger works. It is beside `target`."""
        return staging_of(self.target)

    def order(self) -> dict[str, Any]:
        """Return the merge as a dictionary for the separate program that carries it out. The key of
        the action is not in it.
        """
        return {
            "run": self.asked.run,
            "step": self.step,
            "source": str(self.source),
            "target": str(self.target),
            "staging": str(self.staging),
            "commands": [list(argv) for argv in self.commands],
            "cwd": str(self.cwd),
            "inside": self.inside,
            "files": {name: list(value) for name, value in self.files.items()},
        }


def staging_of(target: Path) -> Path:
    """Return the directory in which the merger for the directory `target` works: beside `target`,
    so that the result can be renamed.
    """
    return target.with_name(f".{target.name}.merging")


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

        Raises NotApplicable if there is no such step, no merger or nothing to merge; Refused if the
        step is incomplete, the target exists or would be in the way of other files, or the disk or
        the memory is too small; and BadRequest if a relative target cannot be resolved.
        """
        run = self._runs.get(asked.run)
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
        target = self._target(run, asked, one)
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
            commands.append(
                [
                    verl_needs.interpreter(run.spec, absolute=True),
                    "-B",
                    merge_adapter.__file__,
                    "--base",
                    str(first),
                    "--adapter",
                    str(adapter),
                    "--target",
                    str(staging / worker.MODEL),
                ]
            )
        needed = shards * (2 if lora else 1)
        notes = self._refuse_small(run, one, target, shards, needed)
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

    def _chosen(self, run: Run, asked: MergeRequest) -> StepSet:
        """Return the requested step, or the newest one whose files verify."""
        sets = step_sets(self._runs.trainer(run), run.spec)
        if asked.step is None:
            for one in complete_sets(sets):
                if not verify(one):
                    return one
            raise NotApplicable(
                f"{asked.run} has no complete checkpoint to merge; `bs4-console "
                "checkpoints list` says what they lack."
            )
        found = set_of(sets, asked.step)
        if found is None:
            known = ", ".join(map(str, numbers(complete_sets(sets)[:8]))) or "none"
            raise NotApplicable(f"{asked.run} has no step {asked.step}; complete are: {known}.")
        if why := verify(found):
            raise Refused(
                f"Step {asked.step} of {asked.run} is torn ({why}) and is not merged; take "
                "another one with --step."
            )
        return found

    def _target(self, run: Run, asked: MergeRequest, one: StepSet) -> Path:
        """Return the absolute path of the target. Raises Refused if it exists, cannot be written,
        is among the checkpoints, or lies in a directory that is in other people's hands.
        """
        layout = self._runs.trainer(run).layout(run.spec)
        if asked.target.startswith("~"):
            raise BadRequest("Give --target as an absolute path, or relative to the run's cwd.")
        named = layout.run_dir / "merged" / f"global_step_{one.step}"
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

    def _refuse_small(
        self, run: Run, one: StepSet, target: Path, shards: int, needed: int
    ) -> list[str]:
        """Return notes for the person. Raises Refused if the disk or the host's memory is too
        small.
        """
        free = fetch.free_bytes(staging_of(target))
        reserve = one.bytes if run.live else 0
        if needed + reserve + fetch.MARGIN > free:
            beside = f", beside {_gb(reserve)} for the next checkpoint of the run"
            raise Refused(
                f"The disk of {target} has {_gb(free)} free, and the merge needs up to "
                f"{_gb(needed)}{beside if reserve else ''}. Free space there, or name another disk "
                "with --target."
            )
        used, total = self._memory()
        left = total - used
        if left < shards:
            raise Refused(
                f"The merger holds the whole model in the host's memory, up to {_gb(shards)}, and "
                f"{_gb(left)} are left; when it is used up the kernel ends processes of the run "
                "too. Merge when nothing trains, or on another machine."
            )
        if left < 2 * shards:
            return [
                (
                    f"{_gb(left)} of the host's memory are left, and the merger needs up to "
                    f"{_gb(2 * shards)} while it puts shards together."
                )
            ]
        return []

    def merged(self, prepared: Prepared, key: str) -> bool:
        """Return True if the action with the key `key` has produced the merged model and verified
        it. The model is then in the staging directory beside the target, or already in the target
        directory.
        """
        return _made_by(key, _beside(prepared)) or _made_by(key, prepared.target)

    def merge(self, prepared: Prepared, key: str, say: Say) -> str:
        """Run the merger for the action `key` to its end and return a sentence about the result.
        `say` receives progress messages. Raises PlanChanged if the checkpoint has changed since the
        plan, and StepFailed if the merge fails or another merge works in the same directory.
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
                str(told.get("message") or f"The program that merges ended with {how} Merge again.")
            ) from failure
        done = read_json(answer) or {}
        return f"{done.get('files', 0)} files, {_gb(done.get('bytes', 0))}, verified"

    def placed(self, prepared: Prepared, key: str) -> bool:
        """Return True if the model of the action `key` is in the target directory and the staging
        directory is gone.
        """
        return _made_by(key, prepared.target) and not prepared.staging.exists()

    def place(self, prepared: Prepared, key: str) -> str:
        """Move the merged model to the target directory with one rename and return a sentence about
        it. Raises PlanChanged if the target exists by now, and StepFailed if the model is not
        complete any more.
        """
        model, target = _beside(prepared), prepared.target
        if not _made_by(key, target):
            if os.path.lexists(target):
                raise PlanChanged(
                    f"{target} is there by now; the merged model waits in {model}. Move it "
                    "where you want it."
                )
            if why := lacking(model):
                raise StepFailed(
                    f"{model} is not whole any more ({why}) and was not put in its place; "
                    "merge again."
                )
            rename(model, target)
        # this holds our own mark, and the base into which an adapter was merged
        remove(prepared.staging, ours=prepared.staging)
        return f"{target} is a Hugging Face directory"


def again(body: Mapping[str, Any]) -> Prepared:
    """Return the merge that a journalled plan describes, so that a restarted agent can continue the
    merge. `body` is the dictionary that describes the merge in the plan; its keys are the fields of
    Prepared.
    """
    return Prepared(
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


def _made_by(key: str, model: Path) -> bool:
    """Return True if the action `key` has made the model."""
    return (read_json(model / worker.RECEIPT) or {}).get("key") == key


def _beside(prepared: Prepared) -> Path:
    """Return the merged model before it is put in its place."""
    return prepared.staging / worker.MODEL


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


def _gb(size: float) -> str:
    """Return a size in bytes as text in GB."""
    return f"{size / 1e9:.2f} GB"
