"""What a model's name tells: its family, its size, whether it reads pictures. Never more than the
name says.
"""

from __future__ import annotations

import functools
import re
import tomllib

from bs4_console import models
from bs4_console.assets import find

#: Family -> parsers that read its tool calls; the first is the one to set.
PARSERS = {
    "qwen": ("hermes", "qwen3_coder", "qwen3_xml"),
    "mistral": ("mistral",),
    "llama": ("llama3_json", "llama4_json", "llama4_pythonic", "pythonic"),
}
_PICTURES = {"vl", "vlm", "vision", "multimodal"}


def words(model: str) -> list[str]:
    rows = []
    for word in re.split(r"[-_/.\s]+", model.lower()):
        if word:
            rows.append(word)
    return rows


def family(model: str) -> str:
    """qwen, mistral or llama, or "" when the name does not say, or says two."""
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
    return any(word in _PICTURES or re.fullmatch(r"(qwen)?\d*vl", word) for word in words(model))


def billions(model: str) -> float | None:
    """Parameters in 10^9 by the name: 8B, 0.6B, 30B-A3B (all of them, not the active ones). None
    when it does not say.
    """
    found = re.findall(r"(?<![a-zA-Z0-9.])(\d+(?:\.\d+)?)[bB](?![a-zA-Z0-9])", model)
    return max((float(size) for size in found), default=None)


@functools.cache
def rendered() -> frozenset[str]:
    """Models for which the current prime-rl finds a renderer by itself."""
    with (find("configs") / "renderers.toml").open("rb") as handle:
        return frozenset(tomllib.load(handle)["automatic"])


def known_bad(model: str, trainer: str) -> tuple[str, bool] | None:
    """(why, whether it was this very trainer that could not) when the registry says that it could
    not be trained.
    """
    known = models.get(model)
    if known is not None and known.blocked:
        return (known.blocked["reason"], known.blocked_for(trainer))
    return None
