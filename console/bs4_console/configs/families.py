"""Read from a model's name its family, its size, and whether it takes images. Nothing is guessed
beyond the name.
"""

from __future__ import annotations

import functools
import re
import tomllib

from bs4_console import models
from bs4_console.assets import find

#: The parsers that read a family's tool calls, by family. The first parser is the one to set.
PARSERS = {
    "qwen": ("hermes", "qwen3_coder", "qwen3_xml"),
    "mistral": ("mistral",),
    "llama": ("llama3_json", "llama4_json", "llama4_pythonic", "pythonic"),
}
_PICTURES = {"vl", "vlm", "vision", "multimodal"}


def words(model: str) -> list[str]:
    """Return the parts of a model's name between `-`, `_`, `/`, `.` and blanks, in lower case:
    ["qwen", "qwen3", "8b"] for "Qwen/Qwen3-8B".
    """
    return re.findall(r"[^-_/.\s]+", model.lower())


def family(model: str) -> str:
    """Return the family to which a model belongs by its name: "qwen", "mistral" or "llama". Return
    "" for any other model, and for one that was distilled from another, because its name does not
    tell which of the two counts.
    """
    name = model.lower().rsplit("/", 1)[-1]
    if "distill" in name or "hermes" in name:
        return ""
    if re.match(r"(ministral|mistral|mixtral|codestral|devstral|magistral)", name):
        return "mistral"
    for known in ("qwen", "llama"):
        if name.startswith((known, f"meta-{known}")):
            return known
    return ""


def reads_pictures(model: str) -> bool:
    """Return True if the name of a model says that the model accepts images as input."""
    return any(word in _PICTURES or re.fullmatch(r"(qwen)?\d*vl", word) for word in words(model))


def billions(model: str) -> float | None:
    """Return how many parameters a model has, in 10^9, by its name: 8 for a name with "8B", 0.6 for
    "0.6B", 30 for "30B-A3B" (all parameters, not only the active ones). Return None if the name
    does not say it.
    """
    found = re.findall(r"(?<![a-zA-Z0-9.])(\d+(?:\.\d+)?)[bB](?![a-zA-Z0-9])", model)
    return max((float(size) for size in found), default=None)


@functools.cache
def rendered() -> frozenset[str]:
    """Return the names of the models for which the current prime-rl has a renderer, the code that
    turns messages into tokens. Raises ConsoleError if a file of this console's own installation is
    missing.
    """
    with (find("configs") / "renderers.toml").open("rb") as handle:
        return frozenset(tomllib.load(handle)["automatic"])


def known_bad(model: str, trainer: str) -> tuple[str, bool] | None:
    """Look the model up in the console's registry of models (configs/models.toml). If the registry
    says that training it has failed, return (reason, same_trainer). `same_trainer` is True if it
    has failed with the trainer `trainer`, and False if it has failed only with another one. Return
    None if the registry says nothing of that kind.
    """
    known = models.get(model)
    if known is None or not known.blocked:
        return None
    return known.blocked["reason"], known.blocked_for(trainer)
