"""The guided launch: the request, the pod's plan for it, one confirmation, and the wait for the
first step.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal, TypedDict, TypeVar

from bs4_common.preflight import StartBody
from bs4_console.errors import ChannelLost, NotApplicableError, RefusedError
from bs4_console.pods.gate.plans import launched
from bs4_console.pods.inventory import Inventory
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, PlanView, PodState, RunState, StepView
from bs4_console.preflight.checks import Check, Wanted
from bs4_console.preflight.examine import Preflight, examine
from bs4_console.run_log.config_texts import keep_planned
from bs4_console.run_log.hardware import seen
from bs4_console.secret import know_words
from bs4_console.trainers import registry
from bs4_console.typed_json import record

#: What may be launched: the whole training, one component of it alone, or one of two separate
#: programs (sft, eval).
COMPONENTS = ("rl", "inference", "orchestrator", "trainer", "sft", "eval")
#: Resume at the newest step that is complete on every side, or start afresh if nothing was saved.
AUTO = "auto"
#: How many links a query is tried over, and the seconds to wait for each.
LINKS, RELINK_S = 3, 60.0
#: What is told of a config -> its key.
_NAMED: Mapping[str, Literal["model", "version", "lora_name", "based_on"]] = {
    "model": "model",
    "version": "version",
    "adapter": "lora_name",
    "based on": "based_on",
}
Answer = TypeVar("Answer")
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class LaunchBody(StartBody, total=False):
    """A request to launch a run, as the JSON object that is sent to the agent. Its fields are those
    of LaunchRequest.
    """

    processes: int
    """How many processes (ranks) a trainer gets that is started alone."""


class PlannedConfig(TypedDict, total=False):
    """What the plan of a launch says about the config with which the run would be started.
    `lora_name` is the name of the adapter that is trained, or "", and `max_steps` the number of
    training steps after which the run ends.
    """

    model: str
    version: str
    """The config's version, "v" and a number, as the registry.json beside the config states it, or
    "".
    """
    lora_name: str
    based_on: str
    """The config version from which this one was made, or ""."""
    max_steps: int | None


class StartShown(TypedDict, total=False):
    """What the plan of a launch shows of its step that starts the run: the variables that are added
    to the environment of the run's processes.
    """

    environment: Mapping[str, str]


class PlannedStep(TypedDict, total=False):
    """One step of the plan of a launch. `kind` says what the step does, and `shown` has details for
    a person. Only the fields that the console reads are named here.
    """

    kind: str
    shown: StartShown


class PlanBody(TypedDict, total=False):
    """The plan of a launch, which says what the launch would do: its `steps`, in order, and the
    `config`. `notes` are sentences for a person. Only the fields that the console reads are named
    here.
    """

    why: str
    """A phrase that says why the run would resume from the step `resume`."""
    notes: Sequence[str]
    steps: Sequence[PlannedStep]
    config: PlannedConfig
    resume: int | None
    """The training step from which the run would resume, or None if it would start from nothing."""


class Environment(TypedDict, total=False):
    """What is recorded with a launch about the software on the pod."""

    versions: Mapping[str, str]
    """{name of an installed package: its version}."""
    commit: str
    """The commit that is checked out in the trainer's directory."""


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """A person's request to launch the run `run` on a pod. `trainer` is "prime-rl-2026-01",
    "prime-rl" or "verl", and `config` its config file. The program is started in the directory
    `cwd` and writes to `output_dir`. `resume` is the training step to resume from, or "auto" to let
    the agent choose. With `fresh`, existing output is first moved aside, to the run's trash
    directory. `component` is what to start: the whole training (rl), one part of it (inference,
    orchestrator, trainer), or sft or eval. `processes` is how many ranks a trainer gets that is
    started alone. `overrides` are further command-line arguments, and `env` are environment
    variables. `container` is the container on the pod in which the run starts, or "". All paths are
    on the pod.
    """

    run: str
    trainer: str
    config: str
    cwd: str = "prime-rl"
    output_dir: str = "outputs"
    resume: int | str = AUTO
    fresh: bool = False
    component: str = "rl"
    processes: int = 1
    overrides: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    container: str = ""

    def body(self) -> LaunchBody:
        """Return the request as the dictionary that is sent to the agent. Secrets among its
        arguments are remembered from then on, so that this process never shows them.
        """
        know_words(self.overrides)
        return {
            "run": self.run,
            "trainer": self.trainer,
            "config": self.config,
            "cwd": self.cwd,
            "output_dir": self.output_dir,
            "resume": self.resume,
            "fresh": self.fresh,
            "component": self.component,
            "processes": self.processes,
            "overrides": list(self.overrides),
            "env": dict(self.env),
            "container": self.container,
        }


def key_of(plan_hash: str, run: str) -> str:
    """Return the key (id) of the action that launches the run `run` by the plan with the hash
    `plan_hash`. The key depends on these two alone, so that a plan that is confirmed twice, from
    any console, starts the run once.
    """
    value = int.from_bytes(
        hashlib.sha256(f"launch {run} {plan_hash}".encode()).digest()[:16], "big"
    )
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))


def under_way(state: PodState, run: str) -> ActionView | None:
    """Return the newest action on the pod that launches `run` and has not ended, or None if there
    is none. The caller follows that action instead of starting a second launch.
    """
    found = [action for action in launches(state, run) if not action.ended]
    return max(found, key=attrgetter("accepted_t"), default=None)


def launches(state: PodState, run: str) -> list[ActionView]:
    """Return all launch actions of `run` that the pod's journal (the agent's log of actions and
    incidents) holds, ended ones too. The list is empty if it was never launched.
    """
    found = []
    for a in state.ledger.actions.values():
        if (a.kind, a.run) == ("launch", run):
            found.append(a)
    return found


def trains_already(state: PodState, asked: LaunchRequest) -> RunState | None:
    """Return the run that `asked` requests if it is already running with the same trainer and
    config, so that there is nothing to start. Return None if it is not, or if the request is
    `fresh`.
    """
    run = state.runs.get(asked.run)
    attempt = None if run is None else run.view.attempt
    if run is None or attempt is None or asked.fresh:
        return None
    lives = attempt.state == "running" and attempt.ended_t is None
    same = (run.view.trainer, run.view.config) == (asked.trainer, asked.config)
    return run if lives and same else None


@dataclass(frozen=True)
class Looked:
    """The result of the preflight checks before a launch. `preflight` has all of it; the properties
    select from it what the launch shows or stores.
    """

    preflight: Preflight

    @property
    def environment(self) -> Environment:
        """Return what is recorded with the launch about the software on the pod: versions of
        packages and the trainer's commit. What the pod did not tell is missing in the result.
        """
        stack = self.preflight.facts.get("stack", {})
        kept: Environment = {}
        if versions := stack.get("versions"):
            told = {name: version for name, version in versions.items() if version is not None}
            kept["versions"] = told
        if (commit := stack.get("commit")) is not None:
            kept["commit"] = commit
        return kept

    @property
    def blocking(self) -> Sequence[Check]:
        """Return the preflight checks that forbid the launch; empty if the run may be launched."""
        return self.preflight.blocking

    @property
    def memory(self) -> Sequence[str]:
        """Return lines for a person about the memory of one GPU that the trainer and the inference
        need, with the arithmetic. The list is empty if there is no estimate.
        """
        if not self.preflight.memory:
            return []
        return ["memory of one GPU:", *(f"  {line}" for line in self.preflight.memory)]

    @property
    def told(self) -> list[Check]:
        """Return the preflight checks that a person should read: those that forbid the launch
        first, then warnings, then those that could not be made ("unknown"). Checks that passed are
        left out.
        """
        order = ("blocking", "warning", "unknown")
        return sorted(
            (check for check in self.preflight.checks if check.state in order),
            key=lambda check: order.index(check.state),
        )


def sentence(check: Check) -> str:
    """Return the text of a preflight check for a person: what is wrong, and how to fix it."""
    stop = "" if check.why.endswith((".", "!", "?")) else "."
    return f"{check.why}{stop} {check.fix}".strip()


async def prepare(live: PodSession, asked: LaunchRequest) -> Looked:
    """Run the preflight checks for the launch request `asked` on the pod: of the pod itself, the
    config and the model. Return their result. Nothing is started or planned. Raises ChannelLost or
    Unreachable if there is no connection.
    """
    wanted = Wanted(
        trainer=asked.trainer,
        config=asked.config,
        run=asked.run,
        cwd=asked.cwd,
        output_dir=asked.output_dir,
        resume=asked.resume,
        fresh=asked.fresh,
        overrides=asked.overrides,
        component=asked.component,
        container=asked.container,
        env=asked.env,
    )
    return Looked(await asked_again(live, lambda: examine(live, wanted)))


async def asked_again(live: PodSession, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Await `ask()`, which sends a query to the pod, and return its answer. If the connection to
    the pod is lost meanwhile, wait up to 60 seconds for a new one and call `ask` again, at most
    three times in all. `ask` must not change anything on the pod. Raises ChannelLost if the
    connection is lost during the third call too, and Unreachable if no new one comes.
    """
    for _ in range(LINKS - 1):
        try:
            return await ask()
        except ChannelLost:
            await live.synced(RELINK_S)
    return await ask()


def price_of(pod: str) -> float | None:
    """Return the price in US dollars an hour that the inventory states for the pod with this name,
    or None if it states none.
    """
    for known in Inventory().list():
        if known.name == pod:
            return known.price
    return None


async def plan(live: PodSession, asked: LaunchRequest, **record: Any) -> PlanView:
    """Ask the pod for a plan of the launch `asked`, and return the plan. `record` holds values that
    are stored with the launch and do not change the plan's hash: `price` in US dollars an hour,
    `phase` (the name of the phase, if the run is trained in phases), and the entries of
    `Looked.environment`. Values that are None are left out. The pod's hardware is stored too, if
    its telemetry tells it.

    Raises RefusedError or NotApplicableError, with the agent's reason, if the agent makes no plan.
    Raises Unreachable if there is no link.
    """
    kept: dict[str, Any] = {}
    if machine := seen(live.state):
        kept["hardware"] = machine
    for name, value in record.items():
        if value is not None:
            kept[name] = value
    key = await live.submit("plan", launch=asked.body(), record=kept)
    async for action in live.follow_action(key):
        if action.state == "failed":
            error = str(action.result.get("error", ""))
            raise (NotApplicableError if error == "not-applicable" else RefusedError)(action.detail)
    return next(
        view for view in reversed(list(live.state.ledger.plans.values())) if view.action == key
    )


async def start(live: PodSession, view: PlanView, *, confirmed: bool = False) -> str:
    """Submit the launch of a plan that a person has confirmed, and return the key of the action, by
    which it can be followed. `confirmed` is True if the person typed the run's name, which some
    plans need (those for which `must_type` returns True). The text of the config is saved on this
    machine; if that is not possible, a note of the pod's state says so, and the run is started all
    the same. Raises RefusedError if the pod is read-only for this console, and Unreachable if there
    is no connection.
    """
    await keep_planned(live, launched(view.plan))
    key = key_of(view.plan_hash, view.run)
    return await live.submit(
        "launch",
        key=key,
        run=view.run,
        plan_hash=view.plan_hash,
        confirm_run=view.run if confirmed else "",
    )


async def until_started(live: PodSession, key: str) -> AsyncIterator[ActionView]:
    """Yield the state of the action with the key `key`, a launch, each time it changes. Stop as
    soon as the run's program has been started or the action has ended, and do not wait for the
    first training step. Raises Unreachable if the pod's journal does not show the action.
    """
    async for action in live.follow_action(key):
        yield action
        if action.steps and not any(map(_is_to_come, action.steps)):
            return


def _is_to_come(step: StepView) -> bool:
    """Return True for a step that waits, or that runs and is not itself a wait."""
    return step.state == "waiting" or (
        step.state == "running" and not step.title.startswith("Wait")
    )


def must_type(view: PlanView) -> bool:
    """Return True if the plan `view` demands that a person types the run's name to confirm it.
    Return False if a yes is enough.
    """
    return bool(view.plan.get("typed_name"))


def plan_lines(view: PlanView, state: PodState, price: float | None = None) -> list[str]:
    """Return lines for a person about a launch plan, to be shown beside its steps: from
    which training step the run goes on and why, notes, environment variables, the config's model,
    and an estimate of time and cost. `price` is in US dollars an hour, or None if unknown.
    """
    return list(_said(record(view.plan, PlanBody), state.runs.get(view.run), price))


def _said(body: PlanBody, run: RunState | None, price: float | None) -> Iterator[str]:
    if body.get("why"):
        yield f"{_start(body)}because {body['why']}"
    for text in body.get("notes", []):
        yield f"note: {text}"
    starts = (step for step in body.get("steps", ()) if step.get("kind") == "start")
    start = next(starts, PlannedStep())
    if environment := start.get("shown", {}).get("environment"):
        yield "environment: " + " ".join(f"{name}={value}" for name, value in environment.items())
    config: PlannedConfig = body.get("config", {})
    named = [f"{name} {config[key]}" for name, key in _NAMED.items() if config.get(key)]
    if named:
        yield f"config: {', '.join(named)}"
    if cost := _cost(body, run, price):
        yield cost


def _start(body: PlanBody) -> str:
    """Return the words for the step from which a launch begins, up to the reason, or "" for a
    program that begins at no step, such as an inference server.
    """
    if (resume := body.get("resume")) is not None:
        return f"from step {resume}, "
    spec = body.get("spec")
    if isinstance(spec, Mapping) and spec.get("component", "rl") != "rl":
        return ""
    return "afresh, "


def _cost(body: PlanBody, run: RunState | None, price: float | None) -> str:
    """Return the estimated time and cost to the last step of the config that is to be launched,
    from the pace of earlier attempts. Return only the price if the pace or the last step is
    unknown, for example in a plan of an older agent, and "" if the price is unknown too.
    """
    rate = "" if price is None else f"${price:.2f} an hour"
    pace = run.step_seconds() if run is not None and run.series("time_s") else None
    last = body.get("config", {}).get("max_steps")
    if pace is None or last is None:
        return f"cost: {rate}" if rate else ""
    hours = max(0, last - (body.get("resume") or 0)) * pace / 3600
    money = "" if price is None else f", about ${hours * price:.2f} at {rate}"
    shown = f"{pace:.0f}" if pace >= 10 else f"{pace:.1f}"
    return f"estimate: {hours:.1f} h to step {last} at {shown} s a step, as before{money}"


def verdict(action: ActionView, state: PodState) -> list[str]:
    """Return lines for a person that say how the launch `action`, which has ended, came out on the
    pod of `state`: whether the run trains, was started, or failed to start and why. They also name
    the commands to use next.
    """
    run, pod = action.run, state.name
    known = state.runs.get(run)
    # verl prints everything through its driver, so the launcher's log is its trainer's log.
    source: str = registry.of("" if known is None else known.view.trainer).launcher_log
    logs = [name.rpartition("/")[2] for name in state.streams if name.startswith(f"log/{run}/")]
    if len(logs) == 1:
        # An evaluation and an inference server have one log, with a name of its own.
        (source,) = logs
    if action.state == "done" and "step" in action.result:
        return [
            f"{run} trains: step {action.result['step']} is done.",
            f"Next: `bs4-console` shows it; `bs4-console logs {run} --pod {pod} -f` follows its "
            f"log; `bs4-console check --pod {pod}` says whether it is healthy.",
        ]
    if action.state == "done":
        return [
            f"{action.detail or run}.",
            f"Next: `bs4-console logs {run} --pod {pod} -f` follows its log.",
        ]
    if action.result.get("error") == "cancelled":
        return [
            f"The start of {run} was ended early: {action.detail}.",
            (
                f"Next: `bs4-console runs list --pod {pod}` shows whether the run has ended; "
                "then `bs4-console launch` starts it again."
            ),
        ]
    return [
        f"{run} was not started well: {action.detail}",
        (
            f"Next: `bs4-console logs {run} --pod {pod} --source {source}` and `bs4-console "
            f"check --pod {pod}` say why."
        ),
    ]


def again(asked: LaunchRequest, **changes: Any) -> LaunchRequest:
    """Return a copy of the launch request `asked` in which fields are replaced. `changes` holds the
    new values by the names of the fields.
    """
    return replace(asked, **changes)
