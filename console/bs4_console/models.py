"""What is known about a model before money is spent on training it: from the registry and, on
request, from the Hugging Face hub.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
import tomllib
import urllib.parse
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from bs4_common.foreign_json import loads
from bs4_console.assets import find
from bs4_console.errors import UsageError
from bs4_console.suggest import nearest

Level = Literal["error", "warning", "info"]
Kind = Literal["text", "vision", "closed"]

HUB = "https://huggingface.co"
#: A config.json has a few KB. A larger file is not a config.
_CONFIG_BYTES = 4 * 1024 * 1024
#: Keys of a config.json that mean that the model reads pictures or sound as well.
_OTHER_SENSES = (
    "vision_config",
    "audio_config",
    "vision_tower",
    "mm_vision_tower",
    "image_token_id",
)
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")


@dataclass(frozen=True)
class Source:
    """Where a fact about a model comes from. `name` is its key in configs/models.toml, `text` says
    which publication it is, so that a person can look it up, and `date` says when it was published
    or read.
    """

    name: str
    text: str
    date: dt.date


@dataclass(frozen=True)
class Baseline:
    """The result of a model on a benchmark before any training. `solved` is the share of tasks
    solved, from 0 to 1. `n` is the number of examples, or None if the source does not state it.
    """

    solved: float
    n: int | None
    source: Source


@dataclass(frozen=True)
class Price:
    """A model's price in US dollars for a million tokens of `input` and of `output`. `output` is
    None if the `source` gives only one number.
    """

    input: float
    output: float | None
    source: Source


@dataclass(frozen=True, kw_only=True)
class Model:
    """What configs/models.toml says of one model. A value that is not known is None or empty and is
    never guessed.

    `kind` is "text", "vision" or "closed" (its weights are not published). `hub` is the model's id
    on Hugging Face. `params_b` counts all parameters and `active_b` the active ones, in billions.
    `tool_calls` says if the model can call tools: "yes", "no", "broken" or "unknown". `impl` is
    "native" if the trainer has its own implementation of the model, and "hf" if it uses that of
    transformers. `max_tokens` has sensible limits for the length of an answer, in tokens. `trained`
    says in words what is known of training it, and `problems` what is known to go wrong.

    `blocked` is an empty dictionary if nothing is known against training the model. Otherwise it
    has the reason under the key `reason`, and under `applies` the id of the trainer with which
    training fails, or "any" for all trainers.
    """

    name: str
    kind: Kind
    hub: str
    params_b: float | None = None
    active_b: float | None = None
    tool_calls: str = "unknown"
    impl: str = ""
    price: Price | None = None
    baselines: tuple[Baseline, ...] = ()
    max_tokens: tuple[int, ...] = ()
    trained: str = ""
    problems: tuple[str, ...] = ()
    blocked: dict[str, str] = field(default_factory=dict)

    def blocked_for(self, trainer: str) -> bool:
        """Return True if configs/models.toml says that `trainer` cannot train this model."""
        return bool(self.blocked) and self.blocked["applies"] in ("any", trainer)

    def as_dict(self) -> dict[str, Any]:
        """Return the model's facts as a dictionary for JSON output, each price and baseline with
        its source and date.
        """

        def origin(source: Source) -> dict[str, str]:
            return {"source": source.text, "date": source.date.isoformat()}

        return {
            "name": self.name,
            "kind": self.kind,
            "hub": self.hub,
            "params_b": self.params_b,
            "active_b": self.active_b,
            "tool_calls": self.tool_calls,
            "impl": self.impl,
            "price": None
            if self.price is None
            else {"in": self.price.input, "out": self.price.output, **origin(self.price.source)},
            "baselines": [
                {"solved": b.solved, "n": b.n, **origin(b.source)} for b in self.baselines
            ],
            "max_tokens": list(self.max_tokens),
            "trained": self.trained,
            "problems": list(self.problems),
            "blocked": self.blocked or None,
        }


class HubFile(TypedDict, total=False):
    """A JSON object from the model hub (Hugging Face): what it says of a model, or the model's
    config.json. Only the field that the console reads is named here.
    """

    gated: object
    """False if everybody may download the model, else the hub's word for how access is granted."""


@dataclass(frozen=True)
class Remark:
    """One remark on whether a model can be trained. `check` names what was checked, `level` says
    how serious the result is ("error", "warning" or "info"), and `message` is the result in words
    for a person. `fix` says what to do next, or is "".
    """

    check: str
    level: Level
    message: str
    fix: str = ""


@functools.cache
def registry() -> dict[str, Model]:
    """Return all models of configs/models.toml by their name, in the order of the file. Raises
    ConsoleError if a file of this console's own installation is missing.
    """
    with (find("configs") / "models.toml").open("rb") as handle:
        data = tomllib.load(handle)
    sources = {}
    for name, entry in data["sources"].items():
        sources[name] = Source(name, entry["text"], entry["date"])
    return {name: _model(name, entry, sources) for name, entry in data["models"].items()}


def get(name: str) -> Model | None:
    """Return the model with this name or hub id from configs/models.toml, or None if the file lists
    no such model. Upper and lower case are not distinguished. Raises ConsoleError if a file of this
    console's own installation is missing.
    """
    wanted = name.lower()
    for m in registry().values():
        if wanted in (m.name.lower(), m.hub.lower()):
            return m
    return None


def to_do_about(name: str) -> str:
    """Return what a person can do about a model `name` that configs/models.toml does not list: the
    model that was meant perhaps, and the command that asks the hub. Raises ConsoleError if a file
    of this console's own installation is missing.
    """
    known: dict[str, str] = {}
    for model in registry().values():
        for word in (model.name.lower(), model.hub.lower()):
            known[word] = model.name
            known[word.rpartition("/")[2]] = model.name
    ask = f"Ask the hub: `bs4-console models verify {name} --hub`."
    near = nearest(name.lower().rpartition("/")[2], list(known))
    if near:
        return f"Did you mean {known[near[0]]}? {ask}"
    return ask


def verify(name: str, trainer: str) -> list[Remark]:
    """Return remarks on training the model `name` with `trainer`: what configs/models.toml says in
    favour of it and against it. No network is used. Raises UsageError if `name` is not a valid
    model id.
    """
    if not _ID.fullmatch(name):
        raise UsageError(
            f"{name!r} is no model id.", "Give OWNER/NAME as on the hub, for example Qwen/Qwen3-8B."
        )
    model = get(name)
    if model is None:
        return [
            Remark(
                "known",
                "warning",
                f"{name} is not in the registry.",
                to_do_about(name),
            )
        ]
    other = "Choose another: `bs4-console models list --trainable`."
    remarks = []
    if model.blocked:
        level: Level = "error"
        text = f"{model.name} could not be trained: {model.blocked['reason']}"
        fix = other
        if not model.blocked_for(trainer):
            level, text = "warning", f"{text} (seen with {model.blocked['applies']})"
            if model.kind == "text":
                fix = f"With {trainer} it is not known: make a few steps first, or choose another."
        remarks.append(Remark("blocked", level, f"{text}.", fix))
    if model.kind == "closed":
        remarks.append(
            Remark(
                "weights", "error", f"{model.name} is an API: there are no weights to train.", other
            )
        )
    if model.kind == "vision" and not model.blocked_for(trainer):
        remarks.append(
            Remark(
                "text-only",
                "error",
                f"{model.name} reads pictures; the trainer loads text models.",
                other,
            )
        )
    if model.tool_calls in ("no", "broken"):
        fix = (
            "Take a short evaluation first, or begin with a bootstrap phase; without tool calls "
            "every reward is 0."
        )
        remarks.append(
            Remark("tool-calls", "warning", f"Tool calls of {model.name}: {model.tool_calls}.", fix)
        )
    if model.impl == "hf":
        remarks.append(
            Remark(
                "architecture",
                "info",
                "The trainer has no implementation of its own for it and takes transformers'.",
            )
        )
    for problem in model.problems:
        remarks.append(Remark("problem", "info" if model.trained else "warning", problem))
    return remarks or [Remark("known", "info", f"Nothing is known against {model.name}.")]


def ask_hub(name: str, *, base: str = HUB, token: str = "", timeout: float = 15.0) -> list[Remark]:
    """Ask the model hub (Hugging Face) about a model and return remarks: whether it exists, is
    gated, and is text-only. `base` is the hub's address, `token` a read token or "", and `timeout`
    is in seconds.

    For a model in configs/models.toml, the hub id of that entry is used. If the hub does not
    answer, the result is a warning and not an error, because the model may be fine.
    """
    import httpx  # which few commands need

    model = get(name)
    hub_id = model.hub if model else name
    base, quoted = base.rstrip("/"), urllib.parse.quote(hub_id)
    address = f"{base}/api/models/{quoted}"
    told: list[Remark] = []
    try:
        gate = _gate(hub_id, _fetch(address, token, timeout))
        told += [Remark("exists", "info", f"{hub_id} is on the hub."), *gate]
        config = _fetch(f"{base}/{quoted}/resolve/main/config.json", token, timeout)
        return [*told, *senses(hub_id, config)]
    except httpx.HTTPStatusError as error:
        if told and error.response.status_code == 404:
            return [*told, _without_config(hub_id)]
        return refused(hub_id, error.response.status_code, address)
    except httpx.HTTPError as error:
        return [
            Remark(
                "hub",
                "warning",
                f"The hub did not answer: {error}.",
                "Look at the network of this machine, then ask again.",
            )
        ]
    except (httpx.InvalidURL, ValueError):
        return [
            Remark(
                "hub",
                "warning",
                "The hub's answer is no JSON object.",
                f"Open {address} and see what answers there.",
            )
        ]


def refused(hub_id: str, code: int, address: str) -> list[Remark]:
    """Return remarks that explain what the HTTP error status `code` of the model hub means for the
    model `hub_id`. `address` is the URL that was requested.
    """
    if code == 404:
        return [
            Remark(
                "exists",
                "error",
                f"{hub_id} is not on the hub.",
                "Look its id up there: an API's name often differs.",
            )
        ]
    if code in (401, 403):
        # The hub answers 401 for a private model, and without a token also for one that does not
        # exist. The two cannot be told apart.
        fix = (
            f"Check the spelling, accept its licence at {HUB}/{hub_id}, and use a token that may "
            "read it."
        )
        return [
            Remark(
                "gated",
                "error",
                f"The hub does not show {hub_id} to you (HTTP {code}): gated, private, or "
                "not there.",
                fix,
            )
        ]
    return [
        Remark(
            "hub", "warning", f"The hub answered with HTTP {code}.", f"Ask again later: {address}"
        )
    ]


def _without_config(hub_id: str) -> Remark:
    """Return the remark on a repository that is on the hub and has no config.json."""
    return Remark(
        "config",
        "error",
        f"{hub_id} is on the hub and has no config.json, so the trainer cannot load it.",
        "Take the repository with the whole model: an adapter and GGUF files have none.",
    )


def _gate(hub_id: str, info: HubFile) -> list[Remark]:
    if not info.get("gated"):
        return []
    fix = f"Accept the licence at {HUB}/{hub_id} with the account whose token the pod has."
    return [Remark("gated", "warning", f"{hub_id} is gated ({info['gated']}).", fix)]


def senses(hub_id: str, config: object) -> list[Remark]:
    """Return a list with one remark that says whether the model `hub_id` takes and gives text only.
    `config` is the model's config.json. The remark's level is "error" if the model has other kinds
    of input or output, "warning" if config.json names no causal language model, and else "info".
    """
    told = config if isinstance(config, dict) else {}
    found = [key for key in _OTHER_SENSES if told.get(key) is not None]
    given = told.get("architectures")
    kinds = given if isinstance(given, list) else []
    if found:
        text = f"{hub_id} is not text-only: its config.json has {', '.join(found)}."
        fix = "Take a text-only model: the trainer loads AutoModelForCausalLM."
        return [Remark("text-only", "error", text, fix)]
    if not any(str(kind).endswith(("ForCausalLM", "LMHeadModel")) for kind in kinds):
        named = ", ".join(map(str, kinds)) or "none"
        return [
            Remark(
                "text-only",
                "warning",
                f"config.json names no causal language model (architectures: {named}).",
                "Try 5 steps first.",
            )
        ]
    return [Remark("text-only", "info", f"{hub_id} is text-only ({kinds[0]}).")]


def _fetch(address: str, token: str, timeout: float) -> HubFile:
    import httpx

    headers = {"User-Agent": "bs4-console"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    found = bytearray()
    # httpx sends no token on to another host.
    with httpx.stream(
        "GET", address, headers=headers, timeout=timeout, follow_redirects=True
    ) as answer:
        answer.raise_for_status()
        for block in answer.iter_bytes():
            found += block
            if len(found) > _CONFIG_BYTES:
                raise ValueError("no config.json is so large")
    data = loads(bytes(found))
    if not isinstance(data, dict):
        raise ValueError("no object")  # noqa: TRY004 (the answer is wrong, not a type of ours)
    told: HubFile = data  # type: ignore[assignment]
    return told


def _model(name: str, entry: dict[str, Any], sources: dict[str, Source]) -> Model:
    price = entry.get("price")
    return Model(
        name=name,
        kind=entry["kind"],
        hub=entry.get("hub", name),
        params_b=entry.get("params_b"),
        active_b=entry.get("active_b"),
        tool_calls=entry["tool_calls"],
        impl=entry.get("impl", ""),
        price=None
        if price is None
        else Price(price["in"], price.get("out"), sources[price["source"]]),
        baselines=tuple(
            Baseline(b["solved"], b.get("n"), sources[b["source"]])
            for b in entry.get("baselines", [])
        ),
        max_tokens=tuple(entry.get("max_tokens", ())),
        trained=entry.get("trained", ""),
        problems=tuple(entry.get("problems", ())),
        blocked=entry.get("blocked", {}),
    )
