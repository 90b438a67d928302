"""Setting a pod up, from the console: the recipe out of the known stacks, the plan from the pod,
and its confirmation.

`pods setup` and `launch --setup` both go this way; the work itself is the agent's
(bs4_agent.setup).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from bs4_console import assets
from bs4_console.errors import NotApplicableError, UsageError
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, PlanView
from bs4_console.setup.credentials import Credentials

#: Where uv's installer of one version is.
_UV = "https://astral.sh/uv/{version}/install.sh"
#: What stands where a playbook's id does.
NAME = "setup"
NOFILE = 65536


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What the pod shall become, as the agent takes it. Empty fields mean: as the stack says."""

    trainer: str
    directory: str = "prime-rl"
    repository: str = ""
    revision: str = ""
    environments: tuple[str, ...] = ()
    uv: str = ""
    nofile: int = NOFILE

    def body(self, credentials: Credentials) -> dict[str, Any]:
        """Names of the credentials only: this is journalled."""
        stack = _stacks().get(self.trainer)
        if stack is None:
            raise UsageError(
                f"No stack is known for {self.trainer!r}.", f"Choose {' or '.join(_stacks())}."
            )
        return {
            "trainer": self.trainer,
            "directory": self.directory,
            "repository": self.repository or stack["repository"],
            "revision": self.revision or stack["revision"],
            "sync": list(stack["sync"]),
            "uv": self.uv or _UV.format(version=stack["uv"]),
            "variables": variables(str(stack["vllm"])),
            "environments": list(self.environments),
            "secrets": credentials.names,
            "nofile": self.nofile,
        }


def trainers() -> tuple[str, ...]:
    """Those whose environment a set-up can make."""
    return tuple(_stacks())


def variables(vllm: str) -> dict[str, str]:
    """What the environment of launches gets with this version of vLLM."""
    version = _numbers(vllm)
    found = {}
    for name, rule in _rules().items():
        if version >= _numbers(rule.get("from", "0")) and (
            "below" not in rule or version < _numbers(rule["below"])
        ):
            found[name] = str(rule["value"])
    return found


def left_out(vllm: str) -> dict[str, str]:
    """Variables that this version of vLLM does not know any more (or yet), and why they are in the
    list at all.
    """
    found = {}
    for name, rule in _rules().items():
        if name not in variables(vllm):
            found[name] = str(rule["why"])
    return found


def stack_vllm(trainer: str) -> str:
    return str(_stacks()[trainer]["vllm"])


async def plan(live: PodSession, recipe: Recipe, credentials: Credentials) -> PlanView:
    """A fresh plan from the pod; NotApplicableError with the agent's reason when there is none."""
    key = await live.submit("plan", setup=recipe.body(credentials))
    async for action in live.follow_action(key):
        if action.state == "failed":
            raise NotApplicableError(action.detail)
    return next(
        view for view in reversed(list(live.state.ledger.plans.values())) if view.action == key
    )


async def begin(live: PodSession, plan_hash: str, credentials: Credentials) -> str:
    """Confirm a plan; the action's key."""
    return await live.submit("setup", payload=credentials.payload(), plan_hash=plan_hash)


def under_way(live: PodSession) -> ActionView | None:
    """The set-up that the pod works at."""
    for action in live.state.ledger.actions.values():
        if action.kind == NAME and not action.ended:
            return action
    return None


def same(action: ActionView, recipe: Recipe, credentials: Credentials) -> bool:
    """Whether that set-up is of this very recipe: who was interrupted then only goes on
    watching.
    """
    asked, running = recipe.body(credentials), action.body.get("plan", {}).get("recipe", {})
    # Only the pod knows where its home directory is.
    place = f"/{running.get('directory', '')}".endswith(f"/{asked['directory']}")
    return place and all(
        running.get(name) == value for name, value in asked.items() if name != "directory"
    )


def todo(steps: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of a plan's steps those that would do something."""
    found = []
    for step in steps:
        if not step["shown"]["done"]:
            found.append(step)
    return found


def _numbers(version: str) -> tuple[int, ...]:
    """The release: 0.26.0+cu129 is (0, 26, 0)."""
    return tuple(int(part) for part in version.partition("+")[0].split(".") if part.isdigit())


@cache
def _stacks() -> dict[str, dict[str, Any]]:
    return tomllib.loads((assets.find("configs") / "stacks.toml").read_text(encoding="utf-8"))


@cache
def _rules() -> dict[str, dict[str, Any]]:
    return tomllib.loads((assets.find("configs") / "variables.toml").read_text(encoding="utf-8"))
