"""What a person does on a practice pod, where the safe fix is theirs: put a file right, end their
own process, and have the run resumed.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import tomlkit

from bs4_practice.stage import Stage, StageError

#: The two ways to go on once the cause is gone: from the newest complete step, or from nothing
#: where there is none.
_WAYS = ("resume-run", "start-afresh")
#: Whoever still saves while it ends changes the plan; a person then makes another one.
_TIMES = 3


async def recover(stage: Stage, run: str = "demo", ways: Sequence[str] = _WAYS) -> None:
    """Bring the run with the name `run` back as a person does who follows the advice: stop it if it
    is alive, and then have the agent carry out the first playbook of `ways` that it can plan. By
    default these are `resume-run` (go on at the newest complete checkpoint) and, if there is none,
    `start-afresh`. If a plan has changed before it is carried out, it is made anew, up to three
    times.

    Raises StageError if the agent can plan none of the playbooks, or if a playbook or the stop
    fails.
    """
    if stage.session.state.runs[run].alive:
        await stage.must("stop", run=run)
    said = []
    for playbook in [way for way in ways for _ in range(_TIMES)]:
        planned = await stage.act("plan", playbook=playbook, run=run)
        if planned.state != "done":
            said.append(planned.detail)
            continue
        confirm = {
            "playbook": playbook,
            "run": run,
            "plan_hash": planned.result["plan_hash"],
            "confirm_run": run,
        }
        action = await stage.act("playbook", **confirm)
        if action.state == "done":
            return
        said.append(action.detail)
        if action.state != "plan-changed":
            raise StageError(f"{playbook} did not bring the run back: {action.detail}")
    raise StageError(f"No way to go on ({', '.join(ways)}) has a plan: {'; '.join(said)}")


async def start_afresh(stage: Stage) -> None:
    """Have the agent start the run `demo` from its first step, with the playbook `start-afresh`,
    which first moves aside what the run has written. Raises StageError if that fails.
    """
    await recover(stage, ways=_WAYS[1:])


def edit_config(stage: Stage, values: dict[str, Any], name: str = "rl.toml") -> None:
    """Set values in the training config `configs/<name>` of the pod's project. `values` maps dotted
    keys, such as "trainer.optim.lr", to values; missing tables are made. Before the first change
    the config is copied to a file beside it with the suffix `.orig`.
    """
    path = stage.pod.project / "configs" / name
    original = path.with_suffix(".orig")
    if not original.exists():
        shutil.copy(path, original)
    document = tomlkit.parse(path.read_text())
    for dotted, value in values.items():
        *parents, last = dotted.split(".")
        table: Any = document
        for part in parents:
            if part not in table:
                table[part] = tomlkit.table()
            table = table[part]
        table[last] = value
    path.write_text(tomlkit.dumps(document))


def replace_in_config(stage: Stage, old: str, new: str, name: str = "rl.toml") -> None:
    """Replace the text `old` by `new` in the training config `configs/<name>` of the pod's project.
    This is for what `edit_config` cannot change, such as arrays of tables. The config as it was is
    kept beside it with the suffix `.orig`. Raises StageError if the config does not contain `old`.
    """
    path = stage.pod.project / "configs" / name
    shutil.copy(path, path.with_suffix(".orig"))
    text = path.read_text()
    if old not in text:
        raise StageError(f"{path} has no {old!r}.")
    path.write_text(text.replace(old, new))


def restore_config(stage: Stage, name: str = "rl.toml") -> None:
    """Restore the training config `configs/<name>` of the pod's project from the copy with the
    suffix `.orig`. The changed config is kept beside it with the suffix `.wrong`.
    """
    path = stage.pod.project / "configs" / name
    path.rename(path.with_suffix(".wrong"))
    shutil.copy(path.with_suffix(".orig"), path)


async def restore_and_recover(stage: Stage) -> None:
    """Restore the training config `rl.toml` from its copy, and have the agent resume the run (see
    `recover`). Raises StageError if it cannot be resumed.
    """
    restore_config(stage)
    await recover(stage)


def with_config(values: Callable[[Stage], dict[str, Any]]) -> Callable[[Stage], Awaitable[None]]:
    """Return a function that breaks a pod (the `inject` of a Scenario) by a wrong config. When it
    is called with a stage, it sets the config keys that `values(stage)` returns in `rl.toml`, and
    launches the run without waiting for its first step.
    """

    async def act(stage: Stage) -> None:
        edit_config(stage, values(stage))
        await stage.launch(wait=False, preflight=False)

    return act


def aside(path: Path) -> Path:
    """Rename `path` to `aside-<name>` in the same directory, so that no trainer finds it, and
    return its new path. Nothing is deleted.
    """
    target = path.with_name(f"aside-{path.name}")
    path.rename(target)
    return target
