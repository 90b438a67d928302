"""Recognising credentials in a command line, a variable or a config: by their form, or by the name
of what holds them.

Nothing here stops a launch. What is found is not repeated, shown or stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

BY_NAME = "a secret by its name"
_SK = "an OpenAI or Anthropic key"
#: The kind and form of keys that have a form. The expressions do not backtrack: fixed prefixes and
#: bounded classes.
_FORMS = (
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,40}\b")),
    (
        _SK,
        # Somewhere 16 letters and digits in a row: `sk-learn-random-forest-2024` is a name.
        re.compile(
            r"\bsk-(?=[A-Za-z0-9_-]{0,200}[0-9])(?=[A-Za-z0-9_-]{0,184}[A-Za-z0-9]{16})"
            r"[A-Za-z0-9_-]{20,200}"
        ),
    ),
    (
        "a GitHub token",
        re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36}\b|\bgithub_pat_[A-Za-z0-9_]{50,90}\b"),
    ),
    ("a GitLab token", re.compile(r"\bglpat-[A-Za-z0-9_-]{20,200}")),
    ("a Google API key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    ("a Slack token", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,200}")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("a Backblaze key", re.compile(r"\bK00[0-9][A-Za-z0-9+/]{27}\b")),
    (
        "a W&B key",
        re.compile(
            r"(?i)wandb[a-z_.-]{0,20}key[= ][\"']?[0-9a-f]{40}\b|\bwandb_v1_[a-z0-9_]{30,200}"
        ),
    ),
    ("a Groq key", re.compile(r"\bgsk_[A-Za-z0-9]{40,60}\b")),
    ("an NVIDIA key", re.compile(r"\bnvapi-[A-Za-z0-9_-]{40,120}")),
    (
        "a signed token",
        re.compile(r"\beyJ[\w-]{10,300}\.eyJ[\w-]{10,4000}(?:\.[\w-]{1,1000})?"),
    ),
    ("a private key", re.compile(r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----")),
)
_BEGINS_LIKE_A_KEY = re.compile(r"\bsk-[A-Za-z0-9_-]{20,200}")
_NAMED = re.compile(
    r"(?i)\b[a-z0-9_-]{0,40}(?:api[_-]?key|application[_-]?key|access[_-]?token|"
    r"secret|password)[= ][\"']?[A-Za-z0-9+/_-]{20,200}"
)
#: The last part of a name under which people keep a secret. `prompt_key` and `reward_fn_key` name
#: columns, and `api_key_var` names a variable.
_NAME = re.compile(
    r"(?i)(?:^|_)(?:(?:api|access|secret|application|private|auth|master|account|wandb|hf|hub|"
    r"b2|openai|anthropic|gemini|mistral|openrouter|deepseek|groq|runpod|signing|encryption)_?key|"
    r"token|secret|(?:pg|db)?passw(?:or)?d|passphrase|credentials?|authorization)$"
)
#: Values under such a name that are no secret: numbers, switches, and a tokenizer's own tokens.
_PLAIN = re.compile(r"(?i)[-+0-9.e_]*|true|false|none|null|auto|~|<.*>|\[.*\]|\$\{.*\}?")
#: `name=value`, `name: value` and `"name": "value"`, also inside a value that is JSON or a
#: dictionary of Hydra's.
_PAIR = re.compile(
    r"[\"']?([A-Za-z_][A-Za-z0-9_.-]{0,120})[\"']?\s{0,3}[=:]\s{0,3}(?:[\"']([^\"']*)|"
    r"([^\s\"'{},]+))"
)
_OPTION = re.compile(r"(?:^|\s)--([A-Za-z][A-Za-z0-9_.-]{0,120})[= ](?!--)[\"']?([^\s\"']+)")
_USER_INFO = re.compile(r"://[^/\s:@]{0,80}:([^/\s:@]{1,200})@")


def forms() -> Sequence[tuple[str, re.Pattern[str]]]:
    """Return a pair (kind, regular expression) for each known form of a credential. The kind says
    in words what it is, such as "a GitHub token".
    """
    return _FORMS


def form_of(text: str) -> str | None:
    """Return the kind of a credential in the text, for example "a GitHub token", or None if there
    is none. Only credentials whose form is that of a known service are found.
    """
    for kind, form in _FORMS:
        if form.search(text):
            return kind
    return None


def names_secret(name: str) -> bool:
    """Return True if a variable or setting of this name usually holds a secret, for example
    `api_key` or `env-vars.HF_TOKEN`.
    """
    return _NAME.search(name.rpartition(".")[2].replace("-", "_")) is not None


def secret_in(line: str) -> str | None:
    """Return the kind of a credential in the line, for example "a W&B key", or None if there is
    none. A text that only looks like a key counts too. That does no harm, because the callers only
    leave such a line out and warn nobody.
    """
    kind = form_of(line)
    if kind is None and _BEGINS_LIKE_A_KEY.search(line):
        return _SK
    if kind is None and _NAMED.search(line):
        return BY_NAME
    return kind


def secret_held(text: str) -> str | None:
    """Return the kind of a secret in the text, for example "a W&B key", or None if there is none.
    Unlike in `secret_in`, each value that stands after the name of a secret (`password=...`) counts
    too, however short it is. Use this function for text that leaves the pod.
    """
    if kind := secret_in(text):
        return kind
    if any(is_secret(name, value) for name, value in _pairs(text)) or _USER_INFO.search(text):
        return BY_NAME
    return None


def shown_command(cmdline: Sequence[str], length: int) -> str:
    """Return a command line as one text, cut to `length` characters, to be shown in the evidence of
    an incident or in a plan. If it seems to hold a secret, return only the program's name and the
    kind of the secret.
    """
    line = " ".join(cmdline)
    kind = secret_held(line)
    if kind is None:
        return line[:length]
    program = line.split()[0]
    if secret_held(program):
        return f"(holds what looks like {kind})"
    return f"{program[:length]} ... (holds what looks like {kind})"


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values in a text."""
    for found in _OPTION.finditer(text):
        yield found[1], found[2]
    for found in _PAIR.finditer(text):
        yield found[1], found[2] or found[3] or ""


def is_secret(name: str, value: str) -> bool:
    """Return True if `name` is one that a secret usually has, such as `api_key`, and `value` can be
    a secret: it is not a number, a switch such as "true", or a placeholder.
    """
    return names_secret(name) and not _PLAIN.fullmatch(value)
