"""Replacing secrets in texts that leave for a person or a file: what is known to be secret, and
what has the form of a credential.

Raw log bytes are never altered. What is shown, printed, exported or copied into a report passes
here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from bs4_common.credentials.forms import forms, is_secret

#: A word of a form may begin behind the escape of a line break (`\\nhf_...`) or of a URL
#: (`%3Dhf_...`), whose last character is part of a word for a regular expression.
_START = r"(?:\b|(?<=\\[nrt])|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))"
#: What a text holds, in lower case, if it holds a credential of this kind. Looking for these costs
#: some 40 ns each, which keeps healthy lines cheap.
_ANCHORS_OF = {
    "a Hugging Face token": ("hf_",),
    "an OpenAI or Anthropic key": ("sk-",),
    "a GitHub token": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "a GitLab token": ("glpat-",),
    "a Google API key": ("aiza",),
    "a Slack token": ("xox",),
    "an AWS access key": ("akia", "asia"),
    "a Backblaze key": ("k00",),
    "a W&B key": ("wandb",),
    "a Groq key": ("gsk_",),
    "an NVIDIA key": ("nvapi-",),
    "a signed token": ("eyj",),
}
#: The ends of the names of secrets, as forms.py knows them.
_NAME_ENDS = ("key", "token", "secret", "passw", "passphrase", "credential", "authorization")
_ANCHORS = (
    *(anchor for anchors in _ANCHORS_OF.values() for anchor in anchors),
    *_NAME_ENDS,
    *("-----begin", "://", "bearer"),
)
_BEGIN = re.compile(r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----")
_BLOCK = re.compile(rf"{_BEGIN.pattern}(?:\\[nr]|[A-Za-z0-9+/=\s]){{0,20000}}(?:{_END.pattern})?")
#: The same with the escapes for colours behind it. If this ends with a line, the key goes on in the
#: next one.
_REACH = re.compile(rf"{_BLOCK.pattern}(?:\x1b\[[0-9;]{{0,20}}m|\s){{0,20}}")
#: A line inside a private key's block, perhaps behind a launcher's prefix.
_INSIDE = re.compile(
    r"\s{0,40}(?:\[[\w-]{1,20}\]:?\s?)?(?:[A-Za-z0-9+/=]{0,100}|[A-Z][A-Za-z-]+: .*)\s*"
)
_INSIDE_LINES = 200
#: The bytes before a place that tell if it is inside a private key. The largest keys have 12 KiB.
LOOK_BACK_BYTES = 16 * 1024
_BEARER = re.compile(r"(?i)(\bbearer\s{1,3})[A-Za-z0-9._~+/=-]{12,4000}")
_GIVEN = re.compile(
    r"(?i)(?:key|token|secret|passw(?:or)?d|passphrase|credentials?|authorization)"
    r"([\\\"']{0,4}\s{0,3}[=: ]\s{0,3}(?:(?:Bearer|Basic|Token)\s{1,3})?)"
    r"([\\\"']{0,4})([^\s\"'\\{},;&<>]{6,4000})"
)
#: Whether a line in lower case can match that at all. Each begins with a literal, which is fast.
_NAMES = tuple(re.compile(rf"{end}(?:ord|wd|s)?[\\\"']{{0,4}}\s{{0,3}}[=: ]") for end in _NAME_ENDS)
#: The characters before the end of a name that can belong to it.
_NAME_BEFORE = re.compile(r"[A-Za-z0-9_.-]{0,120}\Z")
#: The first word of a name that people write in two, as in `API key: VALUE`.
_FIRST_WORD = re.compile(r"(?i)\b(?:api|access|application|secret) \Z")
_USER_INFO = re.compile(r"(://[^/\s:@\"'\\]{0,80}:)([^/\s:@\"'\\]{1,200})(?=@)")
#: Code that only names where the value is, and the name of a variable.
_REFERENCE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)*(?:[(\[].*)?|\$.*|[A-Z_]+")
#: The end of a line that is not finished may be the beginning of a secret.
_MAY_GO_ON = re.compile(r"[A-Za-z0-9_+/=.~-]+\Z")
#: A line that is not finished is held back up to here. Of a longer one, a last part is held, at
#: whose begin no secret stands: the longest has some 5,000 characters (a signed token).
HELD_CHARS, _LAST_PART, _BESIDE = 64 * 1024, 8 * 1024, 6 * 1024
#: How many places are tried for the begin of that part, and the characters between two of them.
_PLACES, _APART = 100, 61
#: What stands in place of a secret begins so.
_MARKER = "[redacted"
#: An option of a command line, and a word that gives a value to a name.
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]{0,120}")
_ASSIGNED = re.compile(r"[-+~]{0,2}([A-Za-z_][A-Za-z0-9_.-]{0,120})=(.*)", re.DOTALL)
#: Characters. A shorter value is a switch or a placeholder.
_SHORTEST_WORD = 4
_FORMS = tuple(
    (kind, _ANCHORS_OF[kind], re.compile(form.pattern.replace(r"\b", _START, 1), form.flags))
    for kind, form in forms()
    if kind in _ANCHORS_OF
)


def marker(kind: str) -> str:
    """Return the text that is put in the place of a secret, such as "[redacted: a GitHub token]".
    `kind` says what the secret is, or is "" if that is not known.
    """
    return f"{_MARKER}: {kind}]" if kind else f"{_MARKER}]"


def holds_marker(text: str) -> bool:
    """Return True if the text has a marker such as "[redacted]", which was put in the place of a
    secret. Such a text must not be used as an argument or a variable, because the secret is missing
    in it.
    """
    return _MARKER in text


class Redactor:
    """Replaces secrets in a text that comes in pieces. The result does not depend on where the
    pieces begin and end. Secrets are found by the form of a credential, and by their values if
    these are known.

    `known(text, replace)` is a function that returns `text` with each value that is known to be
    secret replaced by `replace(value, kind)`, where `kind` says in words what the value is. None
    means that no such values are known. `begun(text)` returns how many characters at the end of
    `text` may be the beginning of such a value; it is needed for values that are not one word, if a
    text is shown early. With `same_length`, the text that replaces a secret has as
    many characters as the secret, so that offsets into the text stay right.
    """

    def __init__(
        self,
        known: Callable[[str, Callable[[str, str], str]], str] | None = None,
        *,
        same_length: bool = False,
        begun: Callable[[str], int] = lambda text: 0,
    ) -> None:
        self._known, self._same_length, self._begun = known, same_length, begun
        self._held = self._shown = ""
        self._lines_left = 0

    def feed(self, text: str, *, early: bool = False) -> str:
        """Take the next piece of the text. Return the lines that are finished by now, with their
        secrets replaced; the return value is "" if none is. The last line is held back until it
        ends.

        With `early`, the beginning of the last line (of a progress bar, for example) is returned
        too, unless it has a word that may announce a secret. A word at its very end is held back,
        and so is what may be the beginning of a known value.
        """
        text = self._held + text
        end = text.rfind("\n") + 1
        if not end and len(text) > HELD_CHARS:
            found, end = self._part(text)
        else:
            found = self._unshown(text[:end])
        self._held = text[end:]
        if early and not self._lines_left and not self._may_hold(self._held):
            sure = len(self._held) - self._begun(self._held)
            more = _MAY_GO_ON.sub("", self._held)[len(self._shown) : sure]
            self._shown += more
            found += more
        return found

    def _part(self, text: str) -> tuple[str, int]:
        """Return the beginning of a line, without what was shown early, and where it ends."""
        end = self._border(text)
        if end <= len(self._shown):
            # A secret may begin in the rest of what was shown, so that rest is held.
            self._shown = self._shown[end:]
            return "", end
        lines_left = self._lines_left
        found = self._unshown(text[:end])
        # No private key goes on behind a border: one that this part only names opens none.
        self._lines_left = min(lines_left, self._lines_left)
        return found, end

    def _border(self, text: str) -> int:
        """Return a place near the end of a part of a line at which it can be cut in two without a
        secret being cut: both parts, redacted, are the whole redacted. A part that has no such
        place, as one that is a single secret, is cut near its end.
        """
        last = len(text) - _LAST_PART
        # A private key in one line may be longer than what is looked at beside a place.
        keys = [found.span() for found in _BLOCK.finditer(text)]
        for begin, end in keys:
            if begin < last < end:
                last = begin
        for place in range(last, last - _PLACES * _APART, -_APART):
            if any(begin < place < end for begin, end in keys):
                continue
            before, behind = text[place - _BESIDE : place], text[place : place + _BESIDE]
            if self._alone(before) + self._alone(behind) == self._alone(before + behind):
                return place
        return last

    def _alone(self, text: str) -> str:
        """Return a part of a line redacted, as if nothing stood before it."""
        alone = Redactor(self._known, same_length=self._same_length)
        return alone._line(text) if alone._may_hold(text) else text

    def end(self) -> str:
        """Return the rest of the text that was held back, with its secrets replaced. Call this
        after the last piece.
        """
        rest, self._held = self._held, ""
        return self._unshown(rest)

    def begin_after(self, before: str) -> None:
        """Set which lines stand before the text, before its first piece is given to `feed`.
        `before` are whole lines, and are not returned. If they end inside a private key, the rest
        of that key at the start of the text is replaced too.
        """
        self._lines_left = lines_left(_by_lf(before))

    def _unshown(self, text: str) -> str:
        """Return whole lines without secrets, and without the beginning that was shown early."""
        if not text:
            return ""
        shown, self._shown = self._shown, ""
        return self._whole(text).removeprefix(shown)

    def _whole(self, text: str) -> str:
        """Return whole lines without secrets."""
        if not self._lines_left and not self._may_hold(text):
            return text
        lines = []
        for line in _by_lf(text):
            lines.append(self._line(line))
        return "".join(lines)

    def _may_hold(self, text: str) -> bool:
        lower = text.lower()
        return any(anchor in lower for anchor in _ANCHORS) or (
            self._known is not None and self._known(text, self._instead) != text
        )

    def _line(self, line: str) -> str:
        """Return one line without secrets."""
        if self._lines_left:
            body = line.rstrip("\r\n")
            if found := _END.search(body):
                self._lines_left = 0
                return self._instead(body[: found.end()], "a private key") + line[found.end() :]
            if _INSIDE.fullmatch(body):
                self._lines_left -= 1
                return self._instead(body, "a private key") + line[len(body) :]
            self._lines_left = 0
        if self._known is not None:
            line = self._known(line, self._instead)
        lower = line.lower()
        if not any(anchor in lower for anchor in _ANCHORS):
            return line
        if "-----BEGIN " in line:
            line = _BLOCK.sub(self._block, line)
        for kind, anchors, form in _FORMS:
            if any(anchor in lower for anchor in anchors):
                line = form.sub(partial(self._formed, kind), line)
        if "://" in line:
            line = _USER_INFO.sub(self._user_info, line)
        if "bearer" in lower:
            line = _BEARER.sub(self._bearer, line)
        if any(name.search(lower) for name in _NAMES):
            line = _GIVEN.sub(self._given, line)
        return line

    def _block(self, found: re.Match[str]) -> str:
        text = found[0].rstrip("\r\n")
        if _goes_on(_REACH.match(found.string, found.start())):
            self._lines_left = _INSIDE_LINES
        return self._instead(text, "a private key") + found[0][len(text) :]

    def _formed(self, kind: str, found: re.Match[str]) -> str:
        return self._instead(found[0], kind)

    def _user_info(self, found: re.Match[str]) -> str:
        return found[1] + self._instead(found[2], "a password")

    def _bearer(self, found: re.Match[str]) -> str:
        return found[1] + self._instead(found[0][len(found[1]) :], "a bearer token")

    def _given(self, found: re.Match[str]) -> str:
        before, quotes, value = found.groups()
        text, begin = found.string, found.start()
        head = _NAME_BEFORE.search(text[max(0, begin - 120) : begin])
        name = (head[0] if head else "") + text[begin : found.start(1)]
        if first := _FIRST_WORD.search(text[max(0, begin - 20) : begin]):
            name = f"{first[0].strip()}_{name}"
        if not {"=", ":"} & set(before) and "--" not in name:
            return found[0]
        if value.startswith(_MARKER) or not is_secret(name, value):
            return found[0]
        if not quotes and _REFERENCE.fullmatch(value):
            return found[0]
        kept = text[begin : found.start(3)]
        return kept + self._instead(value, "")

    def _instead(self, secret: str, kind: str) -> str:
        text = marker(kind)
        if not self._same_length:
            return text
        return text[: len(secret)].ljust(len(secret), "*")


def _by_lf(text: str) -> list[str]:
    """Return the lines of the text, split at LF only."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def may_be_inside(line: str) -> bool:
    """Return True if the line has the form of one that stands between the first and the last line
    of a private key, such as base64 text. An empty line has it too.
    """
    return _INSIDE.fullmatch(line.rstrip("\r\n")) is not None


def lines_left(before: Iterable[str]) -> int:
    """Return how many lines after the lines `before`, at most, can still belong to a private key
    that begins in `before`. Return 0 if no key begins there, or if it also ends there.
    """
    left = 0
    for line in before:
        if begun := _last(_REACH, line):
            left = 0
            if _goes_on(begun):
                left = _INSIDE_LINES
        elif left and may_be_inside(line) and not _END.search(line):
            left -= 1
        else:
            left = 0
    return left


def _goes_on(key: re.Match[str] | None) -> bool:
    """Return True if a private key that was found in a line, by `_REACH`, goes on in the next line:
    it reaches the end of its line, and has no end there.
    """
    if key is None or _END.search(key[0]):
        return False
    return key.end() == len(key.string)


def ends_private_key(line: str) -> bool:
    """Return True if the line has the end of a private key (`-----END ... PRIVATE KEY-----`) but
    not the beginning of one.
    """
    return _END.search(line) is not None and _BEGIN.search(line) is None


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match of the pattern in the text, or None."""
    last = None
    for found in pattern.finditer(text):
        last = found
    return last


def redacted(text: str) -> str:
    """Return the text with everything replaced that has the form of a credential, such
    as a token.
    """
    redactor = Redactor()
    return redactor.feed(text) + redactor.end()


def redacted_bytes(data: bytes, redactor: Redactor | None = None) -> bytes:
    """Return a copy of `data`, as long as `data`, with its secrets replaced. `redactor` is a
    Redactor with `same_length` that is used for nothing else. With None, only what has the form of
    a credential is replaced.
    """
    redactor = redactor or Redactor(same_length=True)
    text = data.decode("latin-1")
    return (redactor.feed(text) + redactor.end()).encode("latin-1")


def secrets_among(words: Sequence[str]) -> list[str]:
    """Return the secrets in a command line: the values of options and assignments that have the
    name of a secret, such as `--api-key VALUE`, `--api-key=VALUE` and `API_KEY=VALUE`. The list is
    empty if there are none.
    """
    found = []
    for index, word in enumerate(words):
        if value := _named_value(words[index - 1] if index else "", word):
            found.append(value)
    return found


def _named_value(before: str, word: str) -> str:
    """Return the secret value at the end of a word, or "". `before` is the word before it."""
    name, value = "", ""
    if assigned := _ASSIGNED.fullmatch(word):
        name, value = assigned.groups()
    elif _OPTION.fullmatch(before) and not word.startswith("--"):
        name, value = before.lstrip("-"), word
    if len(value) < _SHORTEST_WORD or holds_marker(value) or not is_secret(name, value):
        return ""
    return value


def redacted_words(words: Sequence[str], redactor: Redactor) -> list[str]:
    """Return the words of a command line, or the lines of a text, with their secrets replaced. The
    value of an option or a setting with the name of a secret, such as `--api-key VALUE`, is
    replaced too.
    """
    shown = []
    for index, word in enumerate(words):
        text = redactor.feed(word) + redactor.end()
        value = _named_value(words[index - 1] if index else "", word)
        if value and text.endswith(value):
            text = text[: -len(value)] + marker("")
        shown.append(text)
    return shown


def redacted_values(value: Any, new: Callable[[], Redactor], *, names: bool = True) -> Any:
    """Return a copy of a JSON value in which the secrets are replaced. `new` is a function that
    returns a new Redactor. With `names`, secrets in the names (keys) of objects are replaced too.

    A private key is also found if its lines are several texts of one list, or stand in the same
    field of several objects of one list.
    """
    if isinstance(value, str):
        return redacted_words([value], new())[0]
    if isinstance(value, Mapping):
        return _redacted_object(value, new, {}, names=names)
    if not isinstance(value, list | tuple):
        return value
    if all(isinstance(item, str) for item in value):
        return redacted_words(value, new())
    items = []
    fields: dict[str, Redactor] = {}
    for item in value:
        if isinstance(item, Mapping):
            items.append(_redacted_object(item, new, fields, names=names))
        else:
            items.append(redacted_values(item, new, names=names))
    return items


def _redacted_object(
    value: Mapping[Any, Any],
    new: Callable[[], Redactor],
    fields: dict[str, Redactor],
    *,
    names: bool,
) -> dict[Any, Any]:
    """Return a copy of a JSON object without secrets. `fields` has the redactor of each field that
    holds a text.
    """
    found = {}
    for name, item in value.items():
        shown = redacted_values(name, new) if names else name
        if isinstance(item, str):
            redactor = fields.setdefault(str(name), new())
            text = redactor.feed(item) + redactor.end()
            if text == item and _named_value("", f"{name}={item}"):
                text = marker("")
            found[shown] = text
        else:
            found[shown] = redacted_values(item, new, names=names)
    return found
