"""What looks like a credential in a command line, a variable or a config: by its form, or by the
name of what holds it.

Nothing here stops a launch. What is found is not repeated, shown or stored.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

#: Kind and form of keys that have a form. No backtracking: fixed prefixes and bounded classes.
_FORMS = (
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,40}\b")),
    ("an OpenAI or Anthropic key", re.compile(r"\bsk-[A-Za-z0-9_-]{20,200}")),
    (
        "a GitHub token",
        re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36}\b|\bgithub_pat_[A-Za-z0-9_]{50,90}\b"),
    ),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("a Backblaze key", re.compile(r"\bK00[0-9][A-Za-z0-9+/]{27}\b")),
    ("a W&B key", re.compile(r"(?i)wandb[a-z_.-]{0,20}key[= ][\"']?[0-9a-f]{40}\b")),
    (
        "a secret by its name",
        re.compile(
            r"(?i)\b[a-z0-9_-]{0,40}(?:api[_-]?key|application[_-]?key|access[_-]?token|"
            r"secret|password)[= ][\"']?[A-Za-z0-9+/_-]{20,200}"
        ),
    ),
)
_BY_NAME = "a secret by its name"
#: The last part of a name under which people keep one. `prompt_key` and `reward_fn_key` name
#: columns, `api_key_var` names a variable.
_NAME = re.compile(
    r"(?i)(?:^|_)(?:(?:api|access|secret|application|private|auth|master|account|wandb|hf|hub|"
    r"b2)_?key|token|secret|passw(?:or)?d|"
    r"credentials?|authorization)$"
)
#: What such a name may hold without being one: numbers, switches, and a tokenizer's own tokens.
_PLAIN = re.compile(r"(?i)[-+0-9.e_]*|true|false|none|null|auto|~|<.*>|\[.*\]|\$\{.*\}?")
#: `name=value`, `name: value` and `"name": "value"`, also inside a value that is JSON or a
#: dictionary of Hydra's.
_PAIR = re.compile(
    r"[\"']?([A-Za-z_][A-Za-z0-9_.-]{0,120})[\"']?\s{0,3}[=:]\s{0,3}(?:[\"']([^\"']*)|"
    r"([^\s\"'{},]+))"
)
_OPTION = re.compile(r"(?:^|\s)--([A-Za-z][A-Za-z0-9_.-]{0,120})[= ](?!--)[\"']?([^\s\"']+)")
#: Options and variables that name where requests go and, with the same prefix, the key that goes
#: with them.
_BASE_URLS, _API_KEY = ("base_url", "api_base"), "api_key"
_USER_INFO = re.compile(r"://[^/\s:@]{1,80}:([^/\s:@]{1,200})@")


def secret_in(line: str) -> str | None:
    """The kind of the first thing in a command line that has the form of a key."""
    return next((kind for kind, form in _FORMS if form.search(line)), None)


def secret_held(text: str) -> str | None:
    """As `secret_in`, and what stands under the name of a secret too, however short: for what
    leaves the machine.
    """
    if kind := secret_in(text):
        return kind
    return (
        _BY_NAME
        if any(_is_secret(name, value) for name, value in _pairs(text)) or _USER_INFO.search(text)
        else None
    )


def exposed_in(words: Sequence[str]) -> str | None:
    """Return the kind of the first key in a command line that is worth something to who reads it.

    A program that is given a URL on its own machine's loopback and a key for it (verifiers starts
    one for each rollout) shows nobody a way in: that key is passed over. A key that has a named
    service's own form counts also there, because it opens that service from everywhere.
    """
    return secret_in(" ".join(_without_own_keys(words)))


def shown_command(cmdline: Sequence[str], length: int) -> str:
    """Return a command line for evidence and plans, cut to `length` characters.

    Of one that holds a key, whatever the key is for, only the program's name comes back.
    """
    line = " ".join(cmdline)
    kind = secret_held(line)
    if kind is None:
        return line[:length]
    program = line.split()[0]
    if secret_held(program):
        return f"(holds what looks like {kind})"
    return f"{program[:length]} ... (holds what looks like {kind})"


def _without_own_keys(words: Sequence[str]) -> list[str]:
    """Return the words, each key that goes with a loopback URL replaced by a word that is none."""
    urls: dict[str, list[str]] = {}
    keys: list[tuple[str, int, str]] = []
    for index, name, value in _settings(words):
        if name.endswith(_API_KEY):
            keys.append((name.removesuffix(_API_KEY), index, value))
        for ending in _BASE_URLS:
            if name.endswith(ending):
                urls.setdefault(name.removesuffix(ending), []).append(value)
    left = list(words)
    for prefix, index, value in keys:
        given = urls.get(prefix, [])
        if given and all(_is_loopback(url) for url in given) and secret_in(value) is None:
            left[index] = "(own)"
    return left


def _settings(words: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the index of each setting's last word, its name as a variable's, and its value.

    `--base-url=URL`, `--base-url URL`, `model.api_base=URL` and `OPENAI_BASE_URL=URL` are settings.
    """
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        plain = name.lstrip("-").replace("-", "_").lower()
        if equals:
            yield index, plain, value
        elif word.startswith("--") and index + 1 < len(words):
            yield index + 1, plain, words[index + 1]


def _is_loopback(url: str) -> bool:
    """Return whether a URL leads to this machine's loopback; one that is no URL does not."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for found in _OPTION.finditer(text):
        yield found[1], found[2]
    for found in _PAIR.finditer(text):
        yield found[1], found[2] or found[3] or ""


def _is_secret(name: str, value: str) -> bool:
    last = name.rpartition(".")[2].replace("-", "_")
    return bool(_NAME.search(last)) and not _PLAIN.fullmatch(value)
