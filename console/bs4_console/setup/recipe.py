"""The set-up of a pod, seen from the console: the recipe from the known stacks, the plan from the
pod, and its confirmation.

Both `pods setup` and `launch --setup` use this module. The agent does the work (bs4_agent.setup).
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

#: The address of the installer of one version of uv.
_UV = "https://astral.sh/uv/{version}/install.sh"
#: The kind of the action, used in the place of a playbook's id.
NAME = "setup"
NOFILE = 65536


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a pod is to be set up as. An empty field means the value of the trainer's stack."""

    trainer: str
    directory: str = "prime-rl"
    repository: str = ""
    revision: str = ""
    environments: tuple[str, ...] = ()
    uv: str = ""
    nofile: int = NOFILE

    def body(self, credentials: Credentials) -> dict[str, Any]:
        """Return the recipe as it is sent to the agent. It has only the names of the credentials,
        because it is journalled. Raises UsageError if the trainer has no stack.
        """
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
    """Return the trainers for which a set-up can make an environment."""
    return tuple(_stacks())


def variables(vllm: str) -> dict[str, str]:
    """Return the environment variables that a launch needs with this version of vLLM."""
    version = _numbers(vllm)
    found = {}
    for name, rule in _rules().items():
        known = version >= _numbers(rule.get("from", "0"))
        if known and ("below" not in rule or version < _numbers(rule["below"])):
            found[name] = str(rule["value"])
    return found


def left_out(vllm: str) -> dict[str, str]:
    """Return the variables that this version of vLLM does not know any more, or not yet, each with
    the reason why it is in the list.
    """
    known = variables(vllm)
    found = {}
    for name, rule in _rules().items():
        if name not in known:
            found[name] = str(rule["why"])
    return found


def stack_vllm(trainer: str) -> str:
    """Return the version of vLLM in the trainer's stack."""
    return str(_stacks()[trainer]["vllm"])


async def plan(live: PodSession, recipe: Recipe, credentials: Credentials) -> PlanView:
    """Request a new plan from the pod and return it. Raises NotApplicableError with the agent's
    reason if it makes no plan.
    """
    key = await live.submit("plan", setup=recipe.body(credentials))
    async for action in live.follow_action(key):
        if action.state == "failed":
            raise NotApplicableError(action.detail)
    return next(
        view for view in reversed(list(live.state.ledger.plans.values())) if view.action == key
    )


async def begin(live: PodSession, plan_hash: str, credentials: Credentials) -> str:
    """Confirm a plan, which starts the set-up. Return the key of the action."""
    return await live.submit("setup", payload=credentials.payload(), plan_hash=plan_hash)


def under_way(live: PodSession) -> ActionView | None:
    """Return the set-up that the pod is working on, or None."""
    return next(iter(live.state.ledger.unfinished(NAME)), None)


def same(action: ActionView, recipe: Recipe, credentials: Credentials) -> bool:
    """Return True if a running set-up has the same recipe, so that a person who was interrupted can
    go on following it.
    """
    asked, running = recipe.body(credentials), action.body.get("plan", {}).get("recipe", {})
    # Only the pod knows where its home directory is.
    directory = asked.pop("directory")
    place = f"/{running.get('directory', '')}".endswith(f"/{directory}")
    return place and all(running.get(name) == value for name, value in asked.items())


def todo(steps: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the steps of a plan that are not done already."""
    return [step for step in steps if not step["shown"]["done"]]


def _numbers(version: str) -> tuple[int, ...]:
    """Return the release numbers of a version: (0, 26, 0) for 0.26.0+cu129."""
    return tuple(int(part) for part in version.partition("+")[0].split(".") if part.isdigit())


@cache
def _stacks() -> dict[str, dict[str, Any]]:
    return tomllib.loads((assets.find("configs") / "stacks.toml").read_text(encoding="utf-8"))


@cache
def _rules() -> dict[str, dict[str, Any]]:
    return tomllib.loads((assets.find("configs") / "variables.toml").read_text(encoding="utf-8"))
