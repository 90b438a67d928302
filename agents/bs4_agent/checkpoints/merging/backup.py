"""Backs one step of a run up: finds out which files would be copied, and to where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bs4_agent.checkpoints.merging import worker
from bs4_agent.checkpoints.merging.merge import MergeRequest, Merging, Prepared
from bs4_agent.tree.changes import entries
from bs4_common.checkpoints.inventory import nearest
from bs4_common.checkpoints.sets import StepSet
from bs4_common.errors import BadRequest, Refused
from bs4_common.trainers.base import LaunchSpec, Trainer

#: Beside the run's output directory, where no trainer cleans and no rotation looks.
_PLACE = "checkpoints_backup"
#: Parts that no resume needs, and that somebody who backs a step up wants.
_ALSO = frozenset({"weights"})


class BackingUp(Merging):
    """Copies complete checkpoints to directories of their own; one object per pod. A copy is made
    in a staging directory, checked and renamed to its final place in the same way as a merged model
    is.
    """

    def find(self, asked: MergeRequest) -> Prepared:
        """Find out what the requested backup would copy now, and return it. Nothing is written.

        Raises NotApplicable if the run has no such step, and Refused if the step is incomplete or
        has something else than files, if the target directory exists or would be in the way of
        other files, or if the disk is too small. Raises BadRequest if the request names an adapter.
        """
        if asked.adapter:
            raise BadRequest("A step is backed up, and no adapter alone; give a step.")
        run = self._runs.get(asked.run)
        one = self._chosen(run, asked)
        trainer = self._runs.trainer(run)
        output = trainer.layout(run.spec).output_dir.resolve()
        roots = _directories(trainer, run.spec, one)
        source = roots[0] if len(roots) == 1 else output
        files = {}
        for root in roots:
            files.update(_files(root, source))
        size = sum(count for count, _ in files.values())
        named = output.parent / _PLACE / run.name / one.directories[0].name
        target = self._target(run, asked, named)
        self._refuse_full(one.bytes if run.live else 0, target, size)
        notes = []
        if nearest(target.parent).stat().st_dev == source.stat().st_dev:
            notes = [f"{target} is on the disk of the checkpoints: it is lost with that disk."]
        prepared = Prepared(
            kind="backup",
            asked=replace(asked, step=one.step),
            step=one.step,
            source=source,
            target=target,
            commands=[],
            cwd=source,
            inside=False,
            files=files,
            bytes=size,
            needed=size,
            notes=notes,
        )
        copied = [str(root.relative_to(source)) for root in roots]
        shown = ["cp", "-r", "--parents", *copied, f"{prepared.staging}/{worker.MODEL}"]
        return replace(prepared, commands=[shown])


def _directories(trainer: Trainer, spec: LaunchSpec, one: StepSet) -> list[Path]:
    """Return the step directories with a part that a resume needs or that people want, without
    links. Those of other parts, such as broadcasts, come and go while a run trains.
    """
    wanted = {rule.name for rule in trainer.parts(spec) if rule.required} | _ALSO
    found: dict[Path, None] = {}
    for name, part in one.parts.items():
        if name in wanted:
            for directory in one.directories:
                if directory == part.path or directory in part.path.parents:
                    found[directory.resolve()] = None
    return list(found)


def _files(root: Path, source: Path) -> dict[str, list[int]]:
    """Return {name from `source`: [bytes, mtime in ns]} of every file below `root`. Raises Refused
    if there is something else than files and directories, if `root` is not below `source`, or if a
    name would spoil the list of digests.
    """
    if root != source and source not in root.parents:
        raise Refused(f"{root} lies outside the run's output directory {source}; copy it by hand.")
    found = {}
    for entry in entries(root):
        name = str(entry.path.relative_to(source))
        if not entry.regular or "\n" in name or "\\" in name:
            raise Refused(
                f"{entry.path} is no regular file with a plain name, so this step cannot be copied "
                "whole; replace it by what it stands for."
            )
        if entry.path.name not in (worker.SUMS, worker.receipt("backup")):
            found[name] = [entry.status.st_size, entry.status.st_mtime_ns]
    return found
