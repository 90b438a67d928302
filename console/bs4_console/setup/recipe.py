"""The set-up of a pod, seen from the console: the recipe from the known stacks, the plan from the
pod, and its confirmation.

Both `pods setup` and `launch --setup` use this module. The agent does the work (bs4_agent.setup).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypedDict

from bs4_console import assets
from bs4_console.errors import NotApplicableError, UsageError
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, PlanView
from bs4_console.setup.credentials import Credentials

_WITH_HASH = re.compile(r"(?P<url>[^#]+)#sha256=(?P<sha256>[0-9a-f]{64})")
#: The machine types, as `uname -m` prints them, for which one archive of a person is taken.
_MACHINES = ("x86_64", "aarch64")
#: The kind of the action, used in the place of a playbook's id.
NAME = "setup"
NOFILE = 65536
#: In the place of a trainer: store the credentials and nothing else.
CREDENTIALS = "credentials"


class Stack(TypedDict):
    """The versions of libraries that are known to work together with one trainer, as
    configs/stacks.toml has them. `repository` and `revision` are those of the trainer's source.
    Only the fields that the console reads are named here.
    """

    title: str
    package: str
    """The version of the trainer itself."""
    revision: str
    repository: str
    python: str
    vllm: str
    torch: str
    flash_attn: str
    verifiers: str
    uv: str
    """The version of the program uv that installs all this, which is a key of configs/uv.toml."""
    sync: Sequence[str]
    """The options of `uv sync`."""


#: A variable of configs/variables.toml. `from` and `below` are versions of vLLM.
Rule = TypedDict("Rule", {"value": str, "why": str, "from": str, "below": str}, total=False)


class StepShown(TypedDict):
    """What the agent says of one step of a set-up's plan."""

    done: bool
    """True if nothing is left to do."""


class SetupStep(TypedDict):
    """One step of the plan of a pod's set-up. Only the field that the console reads is named
    here.
    """

    shown: StepShown


class Archive(TypedDict):
    """An archive of the program uv that the pod has to fetch: its address, and the SHA-256 that it
    must have.
    """

    url: str
    sha256: str


class RecipeBody(TypedDict, total=False):
    """What a pod is to be set up with (see Recipe), as the JSON object that is sent to the agent.
    `variables` are environment variables that launches get, and `nofile` is the limit of open
    files. If only credentials are to be stored, it has only `trainer`, `directory` and `secrets`.
    """

    trainer: str
    directory: str
    secrets: Sequence[str]
    """The names of the credentials that the set-up brings, such as "wandb"."""
    repository: str
    revision: str
    sync: Sequence[str]
    """The options of `uv sync`."""
    uv_archives: Mapping[str, Archive]
    """{machine type, such as "x86_64": the archive of uv for it}."""
    variables: Mapping[str, str]
    environments: Sequence[str]
    nofile: int


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a pod is to be set up with: the trainer, its repository and revision, its training
    environments, and the program uv, which installs them. An empty field means the value that
    configs/stacks.toml has for the trainer. `directory` is where the trainer goes on the pod, and
    `nofile` the limit of open files. `uv` is the address of a wheel of uv with its hash,
    `URL#sha256=HASH`. If `trainer` is the constant CREDENTIALS, only credentials are stored on the
    pod.
    """

    trainer: str
    directory: str = "prime-rl"
    repository: str = ""
    revision: str = ""
    environments: tuple[str, ...] = ()
    uv: str = ""
    nofile: int = NOFILE

    def body(self, credentials: Credentials) -> RecipeBody:
        """Return the recipe as the dictionary that is sent to the agent. Of `credentials` it has
        only the names, because the pod's journal (the agent's log of actions and incidents) keeps
        the dictionary. Raises UsageError if configs/stacks.toml has no entry for the trainer, or if
        `uv` names no hash. Raises ConsoleError if this installation of bs4-console has no directory
        configs.
        """
        if self.trainer == CREDENTIALS:
            return {
                "trainer": CREDENTIALS,
                "directory": self.directory,
                "secrets": credentials.names,
            }
        stack = stacks().get(self.trainer)
        if stack is None:
            raise UsageError(
                f"No stack is known for {self.trainer!r}.", f"Choose {' or '.join(stacks())}."
            )
        return {
            "trainer": self.trainer,
            "directory": self.directory,
            "repository": self.repository or stack["repository"],
            "revision": self.revision or stack["revision"],
            "sync": list(stack["sync"]),
            "uv_archives": _given_archive(self.uv) if self.uv else _uv()[stack["uv"]],
            "variables": variables(stack["vllm"]),
            "environments": list(self.environments),
            "secrets": credentials.names,
            "nofile": self.nofile,
        }


def trainers() -> tuple[str, ...]:
    """Return the names of the trainers that a pod can be set up for. Raises ConsoleError if this
    installation of bs4-console has no directory configs.
    """
    return tuple(stacks())


def variables(vllm: str) -> dict[str, str]:
    """Return the environment variables, {name: value}, that a launch needs with the vLLM version
    `vllm`, such as "0.12.0".
    """
    version = _numbers(vllm)
    found = {}
    for name, rule in _rules().items():
        known = version >= _numbers(rule.get("from", "0"))
        if known and ("below" not in rule or version < _numbers(rule["below"])):
            found[name] = rule["value"]
    return found


def left_out(vllm: str) -> dict[str, str]:
    """Return those environment variables of configs/variables.toml that are not set for the vLLM
    version `vllm`, because it is too old or too new for them. The result maps the name of each
    variable to the file's reason why it is set for other versions.
    """
    known = variables(vllm)
    found = {}
    for name, rule in _rules().items():
        if name not in known:
            found[name] = rule["why"]
    return found


def stack_vllm(trainer: str) -> str:
    """Return the version of vLLM that a set-up for the trainer with the id `trainer` installs, such
    as "0.12.0". It is read from the shipped file configs/stacks.toml. Raises KeyError if that file
    does not list the trainer, and ConsoleError if this installation of bs4-console has no directory
    configs.
    """
    return stacks()[trainer]["vllm"]


async def plan(live: PodSession, recipe: Recipe, credentials: Credentials) -> PlanView:
    """Ask the pod to make a plan of its set-up by `recipe`, and return the plan. Of `credentials`
    only the names are sent. Raises NotApplicableError with the agent's reason if the agent cannot
    make a plan. Raises UsageError if the recipe cannot be sent, as `Recipe.body` describes, and
    Unreachable if there is no link.
    """
    key = await live.submit("plan", setup=recipe.body(credentials))
    async for action in live.follow_action(key):
        if action.state == "failed":
            raise NotApplicableError(action.detail)
    return next(
        view for view in reversed(list(live.state.ledger.plans.values())) if view.action == key
    )


async def begin(live: PodSession, plan_hash: str, credentials: Credentials) -> str:
    """Start the set-up whose plan a person has confirmed, and send the credentials with it.
    `plan_hash` is the plan's hash. Return the key of the action on the pod, by which it can be
    followed. Raises RefusedError if the pod is read-only for this console, and Unreachable if there
    is no link.
    """
    return await live.submit("setup", payload=credentials.payload(), plan_hash=plan_hash)


def under_way(live: PodSession) -> ActionView | None:
    """Return the set-up action that the pod has not finished yet, or None if there is none."""
    return next(iter(live.state.ledger.unfinished(NAME)), None)


def same(action: ActionView, recipe: Recipe, credentials: Credentials) -> bool:
    """Return True if the set-up `action` on the pod has this recipe and the same names of
    credentials, so that a person can follow it instead of starting another. Raises UsageError if
    the recipe cannot be sent, as `Recipe.body` describes.
    """
    asked, running = recipe.body(credentials), action.body.get("plan", {}).get("recipe", {})
    # Only the pod knows where its home directory is.
    place = f"/{running.get('directory', '')}".endswith(f"/{asked['directory']}")
    alike = (running.get(name) == value for name, value in asked.items() if name != "directory")
    return place and all(alike)


def todo(steps: Iterable[SetupStep]) -> list[SetupStep]:
    """Return the steps of a set-up plan that still have to be done. The list is empty if the pod is
    set up already.
    """
    return [step for step in steps if not step["shown"]["done"]]


def _numbers(version: str) -> tuple[int, ...]:
    """Return the release numbers of a version: (0, 26, 0) for 0.26.0+cu129."""
    return tuple(int(part) for part in version.partition("+")[0].split(".") if part.isdigit())


def _given_archive(address: str) -> dict[str, Archive]:
    """Return the archive at `address`, which is `URL#sha256=HASH`, for each machine type. Raises
    UsageError if the address names no hash.
    """
    found = _WITH_HASH.fullmatch(address)
    if found is None:
        raise UsageError(
            "What is fetched for uv is run on the pod, so its hash has to be known.",
            "Give the address of a wheel of uv as URL#sha256=HASH, with 64 hex digits.",
        )
    return dict.fromkeys(_MACHINES, Archive(url=found["url"], sha256=found["sha256"]))


@cache
def _uv() -> dict[str, dict[str, Archive]]:
    return tomllib.loads((assets.find("configs") / "uv.toml").read_text(encoding="utf-8"))


@cache
def stacks() -> Mapping[str, Stack]:
    """Return the versions of libraries that are known to work together, from the shipped file
    configs/stacks.toml, as one table for each trainer, by the trainer's id. Raises ConsoleError if
    this installation of bs4-console has no directory configs.
    """
    return tomllib.loads((assets.find("configs") / "stacks.toml").read_text(encoding="utf-8"))


@cache
def _rules() -> Mapping[str, Rule]:
    return tomllib.loads((assets.find("configs") / "variables.toml").read_text(encoding="utf-8"))
