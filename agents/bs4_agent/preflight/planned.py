"""Facts about a run that has not been started yet, so that the detectors of a live run can judge a
planned run too.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bs4_agent.observe import surroundings
from bs4_common.checkpoints.inventory import inventory
from bs4_common.failures import environment_probes
from bs4_common.failures.compiled import Playbook
from bs4_common.failures.detectors import DETECTORS
from bs4_common.failures.environment import DatasetCache, Disk, RunEnvironment
from bs4_common.failures.facts import Facts, RunFacts
from bs4_common.failures.stepfiles import step_files
from bs4_common.files import disk_usage
from bs4_common.trainers.base import LaunchSpec, Trainer

if TYPE_CHECKING:
    from bs4_common.preflight import Foreseen

#: Detectors whose facts exist before a launch. The others need logs, steps or living processes of
#: the run.
PLANNED = frozenset(
    {
        "incomplete-resume-set",
        "wandb-step-as-checkpoint",
        "disk-full",
        "disk-high",
        "disk-next-checkpoint",
        "dev-shm-full",
        "readonly-fs",
        "keep-last-missing",
        "keep-last-not-deleting",
        "shared-gpu-budget",
        "model-too-big",
        "curriculum-noop",
        "run-dir-collision",
        "phase-switch-lineage",
        "env-version-drift",
        "dataset-cache-partial",
        "adapter-incomplete",
        "gpu-off-bus",
        "gpu-row-remap-pending",
        "gpu-recovery-action",
    }
)


def run_facts(
    spec: LaunchSpec,
    trainer: Trainer,
    environment: Mapping[str, str],
    lineage_before: Mapping[str, str] | None = None,
) -> RunFacts:
    """Return the facts of the attempt that a launch of `spec` would start now, in the form that
    detectors (the agent's functions that look for failures) read. `environment` has the environment
    variables of the launch. `lineage_before` has the names that the previous attempt used and a
    continued run must keep (`model.name`, `lora_name` and `wandb.name`); it is None if no such
    attempt is known.
    """
    layout = trainer.layout(spec)
    config = environment_probes.flat_settings(spec)
    adapters = None
    if not spec.container:
        # A path in a container's config is one of the container's.
        adapters = environment_probes.adapters(spec, config)
    return RunFacts(
        name=spec.run,
        spec=spec,
        layout=layout,
        attempt=0,
        state="starting",
        started_m=time.monotonic(),
        started_t=time.time(),
        checkpoints=inventory(trainer, spec),
        files=step_files(layout),
        resume=spec.resume,
        config=config,
        environment=RunEnvironment(
            looked_t=time.time(),
            environments=environment_probes.environment_versions(spec, config),
            caches=_caches(environment),
            adapters=adapters,
            lineage=None if config is None else surroundings.names(config),
            lineage_before=lineage_before,
        ),
    )


def findings(
    facts: Facts, run: RunFacts, shm: Path, playbooks: Iterable[Playbook]
) -> list[Foreseen]:
    """Call every detector that can judge a run before its start, and return what they find. The
    list is empty if they find nothing.

    `facts` are those of the pod, and `run` those of the planned attempt. `shm` is the path of the
    pod's shared memory. `playbooks` name the detectors and their parameters; a playbook for other
    trainers is skipped.
    """
    runs = [other for other in facts.runs if other.name != run.name]
    seen = dataclasses.replace(
        facts,
        runs=[*runs, run],
        disks=[_disk(run.layout.output_dir, (run.name,))],
        shm=_disk(shm, ()),
    )
    found: list[Foreseen] = []
    for playbook in playbooks:
        name = playbook.detector
        if name not in PLANNED or not playbook.applies_to(run.spec.trainer):
            continue
        for item in DETECTORS[name](seen, run, playbook.parameters):
            texts = []
            for e in item.evidence:
                texts.append(" ".join(filter(None, (e["file"], e["text"]))))
            found.append(
                {
                    "failure": item.failure,
                    "title": playbook.title,
                    "summary": item.summary,
                    "severity": playbook.severity,
                    "role": playbook.role,
                    "evidence": [text[:300] for text in texts[:6]],
                }
            )
    return found


def _disk(path: Path, runs: tuple[str, ...]) -> Disk:
    """Return the facts of the disk that holds `path`."""
    return Disk(**disk_usage(path), growth=None, runs=runs)


def _caches(environment: Mapping[str, str]) -> list[DatasetCache] | None:
    """Return the caches of the `datasets` library at the place where a launch with this environment
    keeps them.
    """
    home = environment.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")
    return surroundings.dataset_caches_in(
        Path(environment.get("HF_DATASETS_CACHE") or Path(home) / "datasets")
    )
