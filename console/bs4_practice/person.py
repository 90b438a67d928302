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
    """As the advice says: `playbook run resume-run`, or start-afresh (its name typed) for a run
    that has no complete checkpoint.
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
    """For a run that was to begin anew: what it has written is moved aside."""
    await recover(stage, ways=_WAYS[1:])


def edit_config(stage: Stage, values: dict[str, Any], name: str = "rl.toml") -> None:
    """Change keys of a config of the pod; the original is kept beside it once."""
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
    """For what dotted keys cannot name (arrays of tables)."""
    path = stage.pod.project / "configs" / name
    shutil.copy(path, path.with_suffix(".orig"))
    text = path.read_text()
    if old not in text:
        raise StageError(f"{path} has no {old!r}.")
    path.write_text(text.replace(old, new))


def restore_config(stage: Stage, name: str = "rl.toml") -> None:
    """The config as it was; the wrong one is kept as evidence."""
    path = stage.pod.project / "configs" / name
    path.rename(path.with_suffix(".wrong"))
    shutil.copy(path.with_suffix(".orig"), path)


async def restore_and_recover(stage: Stage) -> None:
    restore_config(stage)
    await recover(stage)


def with_config(values: Callable[[Stage], dict[str, Any]]) -> Callable[[Stage], Awaitable[None]]:
    """Start a run whose config has these wrong values."""

    async def act(stage: Stage) -> None:
        edit_config(stage, values(stage))
        await stage.launch(wait=False, preflight=False)

    return act


def aside(path: Path) -> Path:
    """`path`, renamed so that no trainer finds it; nothing is deleted."""
    target = path.with_name(f"aside-{path.name}")
    path.rename(target)
    return target
