"""What looks like a credential in a command line, a variable or a config: by its form, or by the name of what holds it.

Nothing here stops a launch. What is found is not repeated, shown or stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: Kind and form of keys that have a form. No backtracking: fixed prefixes and bounded classes.
_FORMS = (
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,40}\b")),
    ("an OpenAI or Anthropic key", re.compile(r"\bsk-[A-Za-z0-9_-]{20,200}")),
    ("a GitHub token", re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36}\b|\bgithub_pat_[A-Za-z0-9_]{50,90}\b")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("a Backblaze key", re.compile(r"\bK00[0-9][A-Za-z0-9+/]{27}\b")),
    ("a W&B key", re.compile(r"(?i)wandb[a-z_.-]{0,20}key[= ][\"']?[0-9a-f]{40}\b")),
    (
        "a secret by its name",
        re.compile(
            r"(?i)\b[a-z0-9_-]{0,40}(?:api[_-]?key|application[_-]?key|access[_-]?token|secret|password)[= ][\"']?[A-Za-z0-9+/_-]{20,200}"
        ),
    ),
)
_BY_NAME = "a secret by its name"
#: The last part of a name under which people keep one. `prompt_key` and `reward_fn_key` name columns, `api_key_var` names a variable.
_NAME = re.compile(
    r"(?i)(?:^|_)(?:(?:api|access|secret|application|private|auth|master|account|wandb|hf|hub|b2)_?key|token|secret|passw(?:or)?d|"
    r"credentials?|authorization)$"
)
#: What such a name may hold without being one: numbers, switches, and a tokenizer's own tokens.
_PLAIN = re.compile(r"(?i)[-+0-9.e_]*|true|false|none|null|auto|~|<.*>|\[.*\]|\$\{.*\}?")
#: `name=value`, `name: value` and `"name": "value"`, also inside a value that is JSON or a dictionary of Hydra's.
_PAIR = re.compile(r"[\"']?([A-Za-z_][A-Za-z0-9_.-]{0,120})[\"']?\s{0,3}[=:]\s{0,3}(?:[\"']([^\"']*)|([^\s\"'{},]+))")
_OPTION = re.compile(r"(?:^|\s)--([A-Za-z][A-Za-z0-9_.-]{0,120})[= ](?!--)[\"']?([^\s\"']+)")
_USER_INFO = re.compile(r"://[^/\s:@]{1,80}:([^/\s:@]{1,200})@")


def secret_in(line: str) -> str | None:
    """The kind of the first thing in a command line that has the form of a key."""
    return next((kind for kind, form in _FORMS if form.search(line)), None)


def secret_held(text: str) -> str | None:
    """As `secret_in`, and what stands under the name of a secret too, however short: for what leaves the machine."""
    if kind := secret_in(text):
        return kind
    return _BY_NAME if any(_is_secret(name, value) for name, value in _pairs(text)) or _USER_INFO.search(text) else None


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for found in _OPTION.finditer(text):
        yield found[1], found[2]
    for found in _PAIR.finditer(text):
        yield found[1], found[2] or found[3] or ""


def _is_secret(name: str, value: str) -> bool:
    last = name.rpartition(".")[2].replace("-", "_")
    return bool(_NAME.search(last)) and not _PLAIN.fullmatch(value)
