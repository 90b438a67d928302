"""Finding the words of a command line that show a credential to everybody who can read command
lines.

A program that gets a URL on its own machine's loopback and a key for it (verifiers starts one for
each rollout) shows nobody a way in, so that key is ignored. Names alone decide if a key is for that
URL, and in doubt the key is reported.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bs4_common.credentials.forms import BY_NAME, form_of, names_secret
from bs4_common.credentials.loopback import is_loopback

#: Credentials of one command line that are reported at most.
_MOST = 8
#: How many levels of scripts inside scripts are read.
_DEPTH = 3
#: Characters of one word that are judged.
_LENGTH = 1 << 16

_NAMED = re.compile(r"([-+~]{0,2}[A-Za-z_][A-Za-z0-9_.-]{0,120})=(.*)", re.DOTALL)
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]{1,120}")
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9_-]{1,60}):\s*(\S+)")
_INNER_OPTION = re.compile(r"(?:^|\s)(--[A-Za-z][A-Za-z0-9_.-]{1,120})[= ](?!--)[\"']?([^\s\"']+)")
_PAIR = re.compile(
    r"(?<![A-Za-z0-9_.-])([A-Za-z_][A-Za-z0-9_.-]{0,120})[\"']?\s{0,3}[=:]\s{0,3}"
    r"(?:\"([^\"]*)|'([^']*)|([^\s\"'{},;&]+))"
)
_QUERY = re.compile(r"[?&;]([A-Za-z_][A-Za-z0-9_.-]{0,60})=([^&;#\s\"']+)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s\"'{}<>,]+")
_BEARER = re.compile(r"(?i)\b(?:bearer|authorization[\"']?\s*[:=]\s*[\"']?[a-z]+)\s+([^\s\"',}]+)")
_HEX_KEY = re.compile(r"[0-9a-f]{40}")
_SCRIPT = re.compile(r"-[a-z]*c")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_RUN = re.compile(r"[A-Za-z0-9]{12,}")

#: Names of texts that a person wrote for a model to read. Words in such a text are about anything.
_TEXTS = re.compile(
    r"(?:^|_)(?:prompts?|tasks?|questions?|instructions?|messages?|text|content|input|query|"
    r"problem|answer)$"
)
#: Names of addresses to which requests go. A key with the same words before its name belongs to
#: that address.
_URLS = ("api_base_url", "base_url", "api_base", "api_url", "url", "endpoint", "host")
_API_KEY = "api_key"
#: Names under which a program finds its key elsewhere.
_KEY_SOURCES = ("api_key_var", "api_key_file", "api_key_env", "api_key_path")
#: Tokens that give access. Tokenizers have `eos_token`, `image_token` and many more.
_TOKENS = re.compile(
    r"(?:^|_)(?:hf|hub|hugging_?face|auth|access|api|bearer|refresh|session|git|github|gitlab|gh|"
    r"wandb|slack|discord|telegram|bot|jwt|oauth2?|admin|service|deploy|runpod|vast|client|secret|"
    r"private|personal|login|registry|replicate|npm|pypi|aws|azure|vault|modal|docker)_token$"
)
_PLACEHOLDER = re.compile(
    r"(?i)empty|none|null|nil|true|false|auto|ask|default|unused|anything|redacted|hidden|example|"
    r"(?:sk-)?(?:dummy|fake|test|mock|placeholder)(?:[-_]?(?:api[-_]?)?(?:key|token|secret))?|"
    r"not[-_ ]?(?:needed|required|used|set)|(?:sk-)?no[-_]?(?:api[-_]?)?key(?:[-_](?:required|"
    r"needed))?|your[-_ ].*|(?:api[-_]?)?key|token|secret|password|token-abc123|ollama|lm-studio|"
    r"vllm|sglang|local(?:host)?|5241590000000000|(?:sk-)?x+|\*+|\.+|<.*>|\[.*\]"
)
_NUMBER = re.compile(r"[-+]?[0-9._]*(?:e[-+]?[0-9]+)?")
_VARIABLE = re.compile(
    r"\$[A-Z_][A-Z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$\{(?:oc\.)?env:\w+\}|\$\([^)]*\)|"
    r"\$?\{\{.*\}\}|%\(\w+\)s|(?:env:|os\.environ/)\w+"
)
#: In these keys a slash is a letter, even as the first one.
_AWS_SECRET = re.compile(r"[A-Za-z0-9/+]{40}")
_PATH = re.compile(r"@?(?:file://|~|\.{1,2})?/[^\s]*")
_RELATIVE = re.compile(
    r"[a-z_.-]+(?:/[a-z_.-]+)+|[\w./-]+\.(?:txt|json|ya?ml|toml|env|key|pem|token|netrc|secret)"
)


@dataclass(frozen=True)
class Exposed:
    """A credential that stands in a command line. `kind` says in words what it is, for example "a
    Hugging Face token". `option` is the option or variable whose value it is, or "" if it has none.
    The credential itself is not stored.
    """

    kind: str
    option: str

    def __str__(self) -> str:
        if self.option:
            return f"{self.kind} in {self.option}"
        return self.kind


@dataclass(frozen=True)
class _Setting:
    """A name and value in a command line. `option` is the name as written, `name` is its form as a
    variable, and `index` is the number of the word that holds the value.
    """

    index: int
    option: str
    name: str
    value: str


def exposures(words: Sequence[str]) -> list[Exposed]:
    """Return the credentials that stand in the command line `words`, at most 8 of them. The same
    kind of credential under the same option is listed once. Return an empty list if there are none.
    """
    found: dict[Exposed, None] = {}
    for one in _exposures(words, _DEPTH):
        found.setdefault(one)
        if len(found) == _MOST:
            break
    return list(found)


def exposed_in(words: Sequence[str]) -> str | None:
    """Return a description of the first credential in the command line `words`, for example "a W&B
    key in --key", or None if there is none. The description does not hold the credential.
    """
    first = next(_exposures(words, _DEPTH), None)
    return None if first is None else str(first)


def _exposures(words: Sequence[str], depth: int) -> Iterator[Exposed]:
    """Yield the credentials of a command line, including those of shell scripts in it, down to
    `depth` levels.
    """
    by_word: dict[int, list[_Setting]] = {}
    settings = list(_settings(words))
    for setting in settings:
        by_word.setdefault(setting.index, []).append(setting)
    own = _own_keys(settings)
    for index, word in enumerate(words):
        word = word[:_LENGTH]
        before = words[index - 1] if index else ""
        if depth and _SCRIPT.fullmatch(before) and (script := _script(word)):
            yield from _exposures(script, depth - 1)
            continue
        named = by_word.get(index, [])
        shown = _among(named, own) or _after(words, index, word) or _within(word, named, own)
        if shown is not None:
            yield shown


def _settings(words: Sequence[str]) -> Iterator[_Setting]:
    """Yield the settings of a command line.

    `--base-url=URL`, `--base-url URL`, `model.api_base=URL`, `OPENAI_BASE_URL=URL`,
    `--env=OPENAI_BASE_URL=URL` and `X-Api-Key: KEY` are settings.
    """
    for index, word in enumerate(words):
        named = _NAMED.fullmatch(word[:_LENGTH])
        if named is not None:
            inner = _NAMED.fullmatch(named[2])
            if inner is not None:
                yield _setting(index, inner[1], inner[2])
            yield _setting(index, named[1], named[2])
        header = _HEADER.fullmatch(word[:_LENGTH])
        if header is not None:
            yield _setting(index, header[1], header[2])
        before = words[index - 1] if index else ""
        if _OPTION.fullmatch(before) and not word.startswith("--"):
            yield _setting(index, before, word[:_LENGTH])


def _setting(index: int, option: str, value: str) -> _Setting:
    """Return a setting with its name in the form of a variable."""
    name = _CAMEL.sub("_", option.lstrip("-+~")).replace("-", "_").lower()
    return _Setting(index, option, name, value.strip("\"'"))


def _own_keys(settings: Sequence[_Setting]) -> set[_Setting]:
    """Return the settings with a key that is only for this machine's loopback.

    For such a key, all URLs with the same words before their name lead to the loopback, and all
    keys with these words are the same. No URL of another name may lead elsewhere without a key of
    its own, because it could mean this key.
    """
    urls: dict[str, bool] = {}
    keys: dict[str, list[_Setting]] = {}
    sourced: set[str] = set()
    for setting in settings:
        prefix = _prefix(setting.name, (_API_KEY,))
        if prefix is not None:
            keys.setdefault(prefix, []).append(setting)
        source = _prefix(setting.name, _KEY_SOURCES)
        if source is not None:
            sourced.add(source)
        url = _prefix(setting.name, _URLS)
        if url is not None:
            ours = is_loopback(setting.value, listening=setting.name == "host")
            urls[url] = ours and urls.get(url, True)
    homeless = [p for p, ours in urls.items() if not ours and p not in keys and p not in sourced]
    own: set[_Setting] = set()
    for prefix, group in keys.items():
        doubtful = any(other.startswith(prefix) for other in homeless)
        if urls.get(prefix, False) and not doubtful and len({one.value for one in group}) == 1:
            own.update(group)
    return own


def _prefix(name: str, endings: Sequence[str]) -> str | None:
    """Return the part of a name before the first of `endings` that it has, or None if it has none
    of them.
    """
    for ending in endings:
        if name == ending or name.endswith((f"_{ending}", f".{ending}")):
            return name.removesuffix(ending)
    return None


def _among(settings: Sequence[_Setting], own: set[_Setting]) -> Exposed | None:
    """Return the first credential among the settings, or None.

    A key in a named service's own form counts even beside a loopback URL, because it opens that
    service from everywhere.
    """
    for setting in settings:
        kind = form_of(_without_names(f"{setting.option}={setting.value}"))
        if kind is None and setting not in own and _is_secret(setting):
            kind = BY_NAME
        if kind is not None:
            return _shown(kind, setting.option)
    return None


def _after(words: Sequence[str], index: int, word: str) -> Exposed | None:
    """Return the credential that a word is because of the words before it, or None."""
    before = words[index - 1].lower() if index else ""
    if before in ("bearer", "basic") and _opens(word):
        return Exposed("an authorization", "Authorization")
    if "login" in words[:index] and _HEX_KEY.fullmatch(word):
        return Exposed("a W&B key", "login")
    return None


def _within(word: str, named: Sequence[_Setting], own: set[_Setting]) -> Exposed | None:
    """Return the first credential inside a word (in a URL, a header, JSON or a text), or None."""
    option = named[0].option if named else ""
    for match in _URL.finditer(word):
        inside = _of_url(match[0])
        if inside is not None:
            return inside
    bearer = _BEARER.search(word)
    if bearer is not None and _opens(bearer[1]):
        return Exposed("an authorization", "Authorization")
    if not own.intersection(named):
        inside = _of_pairs(word, named)
        if inside is not None:
            return inside
    kind = form_of(_without_names(word))
    if kind is None:
        return None
    return _shown(kind, option)


def _of_url(url: str) -> Exposed | None:
    """Return the credential that a URL carries, or None. A URL to this machine's loopback carries
    none.
    """
    scheme, _, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user_info, at, host = authority.rpartition("@")
    if is_loopback(f"{scheme}://{host}") and "\\" not in url and "@" not in user_info:
        return None
    if at and _is_value(user_info.partition(":")[2]):
        return Exposed("a password in a URL", "")
    for query in _QUERY.finditer(url):
        if _is_secret(_setting(0, query[1], query[2])):
            return _shown(BY_NAME, query[1])
    return None


def _of_pairs(word: str, named: Sequence[_Setting]) -> Exposed | None:
    """Return the first credential among the names and values inside a word, or None.

    In JSON and lists of settings, the names between the same braces belong together. In a text,
    names mean little, and only values that look random count.
    """
    text = word.replace('\\"', '"')
    listed = re.match(r"\s*[\[{]", named[0].value if named else text) is not None
    prose = not listed and re.search(r"\s", text) is not None
    for one in named:
        prose = prose or _TEXTS.search(one.name) is not None
    for index, part in enumerate(re.split(r"[{}]", text)):
        pairs: list[_Setting] = []
        for match in _INNER_OPTION.finditer(part):
            pairs.append(_setting(index, match[1], match[2]))
        for match in _PAIR.finditer(part):
            pairs.append(_setting(index, match[1], match[2] or match[3] or match[4] or ""))
        if prose:
            pairs = [one for one in pairs if _is_random(one.value, 20)]
        if not listed and not prose:
            pairs = [one for one in pairs if one.value not in {other.value for other in named}]
        inside = _among(pairs, _own_keys(pairs))
        if inside is not None:
            return inside
    return None


def _script(word: str) -> list[str]:
    """Return the words of a shell script, or an empty list if the word is no script."""
    if not re.search(r"\s", word):
        return []
    try:
        return shlex.split(word, comments=True)
    except ValueError:
        return []


def _is_secret(setting: _Setting) -> bool:
    """Return True if a setting has the name of a secret and a value that can be one."""
    if not names_secret(setting.name):
        return False
    last = setting.name.rpartition(".")[2]
    if last.endswith("token") and last != "token" and not _TOKENS.search(last):
        return _is_random(setting.value, 16)
    if last.endswith("access_key") and _AWS_SECRET.fullmatch(setting.value):
        return True
    if _NUMBER.fullmatch(setting.value):
        digits = "passw" in last and len(setting.value) >= 6
        return digits and _PLACEHOLDER.fullmatch(setting.value) is None
    return _is_value(setting.value)


def _is_value(value: str) -> bool:
    """Return True if a value can be a secret: it is no path, no placeholder and no name of a
    variable.
    """
    if len(value) < 4 or _PLACEHOLDER.fullmatch(value) or _VARIABLE.fullmatch(value):
        return False
    if value.startswith(("{", "[")):
        return False  # its contents are judged by themselves
    return not _is_path(value)


def _is_path(value: str) -> bool:
    """Return True if a value is a path."""
    if _RELATIVE.fullmatch(value):
        return True
    # A slash is also a letter of base64.
    return _PATH.fullmatch(value) is not None and not _is_mixed(value)


def _is_mixed(value: str) -> bool:
    """Return True if a run of 12 letters and digits has lower case, upper case and digits, as names
    never have.
    """
    for run in _RUN.findall(value):
        if all(re.search(kind, run) for kind in ("[a-z]", "[A-Z]", "[0-9]")):
            return True
    return False


def _is_random(value: str, least: int) -> bool:
    """Return True if a value has at least `least` characters and looks made by a generator."""
    if len(value) < least or not _is_value(value):
        return False
    for run in _RUN.findall(value):
        if len(re.findall("[0-9]", run)) >= 2 and re.search("[A-Za-z]", run):
            return True
    return False


def _opens(value: str) -> bool:
    """Return True if the text after `Bearer` can be a token and is no word of a sentence."""
    if len(value) < 8 or not _is_value(value):
        return False
    return len(value) >= 20 or re.search(r"[0-9]|[a-z][A-Z]", value) is not None


def _without_names(text: str) -> str:
    """Return a text in which parts of paths no longer begin like a key."""
    if _URL.search(text):
        return text
    return text.replace("/sk-", "/")


def _shown(kind: str, option: str) -> Exposed:
    """Return a credential with its option's name, which is left out if the name itself may be a
    secret.
    """
    hidden = len(option) > 64 or form_of(option) or _is_random(option, 16)
    return Exposed(kind, "" if hidden else option)
