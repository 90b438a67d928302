"""Replacing secrets in texts that leave for a person or a file: what is known to be secret, and
what has the form of a credential.

Raw log bytes are never altered. What is shown, printed, exported or copied into a report passes
here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

from bs4_agent.credentials.forms import forms, is_secret

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
_BEGIN = re.compile(r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----")
_END = re.compile(r"-----END [A-Z ]{0,20}PRIVATE KEY-----")
_BLOCK = re.compile(rf"{_BEGIN.pattern}(?:\\[nr]|[A-Za-z0-9+/=\s]){{0,20000}}(?:{_END.pattern})?")
#: A line inside a private key's block, perhaps behind a launcher's prefix.
_INSIDE = re.compile(r"(?:\[[\w-]{1,20}\]:?\s?)?(?:[A-Za-z0-9+/=]{0,100}|[A-Z][A-Za-z-]+: .*)\s*")
_INSIDE_LINES = 200
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
_USER_INFO = re.compile(r"(://[^/\s:@\"'\\]{0,80}:)([^/\s:@\"'\\]{1,200})(?=@)")
#: Code that only names where the value is, and the name of a variable.
_REFERENCE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)*(?:[(\[].*)?|\$.*|[A-Z_]+")
#: The end of a line that is not finished may be the beginning of a secret.
_MAY_GO_ON = re.compile(r"[A-Za-z0-9_+/=.~-]+\Z")
#: A line that is not finished is held back up to here.
HELD_CHARS = 64 * 1024
_FORMS = tuple(
    (kind, _ANCHORS_OF[kind], re.compile(form.pattern.replace(r"\b", _START, 1), form.flags))
    for kind, form in forms()
    if kind in _ANCHORS_OF
)


def marker(kind: str) -> str:
    """Return the text that replaces a secret, such as "[redacted: a GitHub token]". `kind` says
    what the secret is, or is "" if that is not known.
    """
    return f"[redacted: {kind}]" if kind else "[redacted]"


class Redactor:
    """Replaces secrets in a text that comes in pieces. The result does not depend on where the
    pieces begin and end.

    `known(text, replace)` replaces each value in `text` that is known to be secret by
    `replace(value, kind)`, where `kind` says in words what it is, and returns the result; None
    means that no such value is known. With `same_length`, the text that replaces a secret has as
    many characters as the secret, so that offsets into the text stay right.
    """

    def __init__(
        self,
        known: Callable[[str, Callable[[str, str], str]], str] | None = None,
        *,
        same_length: bool = False,
    ) -> None:
        self._known, self._same_length = known, same_length
        self._held = self._shown = ""
        self._lines_left = 0

    def feed(self, text: str, *, early: bool = False) -> str:
        """Take the next piece of the text and return what is certain: the lines that are finished,
        without their secrets. The last line is held back until it ends.

        With `early`, the beginning of the last line (a progress bar, for example) is returned too,
        unless it holds a word that may announce a secret. A word at its very end is held back.
        """
        text = self._held + text
        end = text.rfind("\n") + 1
        if not end and len(text) > HELD_CHARS:
            end = len(text)
        found = self._unshown(text[:end])
        self._held = text[end:]
        if early and not self._lines_left and not self._may_hold(self._held):
            more = _MAY_GO_ON.sub("", self._held)[len(self._shown) :]
            self._shown += more
            found += more
        return found

    def end(self) -> str:
        """Return the rest of the text that was held back, without its secrets. No further piece may
        follow.
        """
        rest, self._held = self._held, ""
        return self._unshown(rest)

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
        if not _END.search(text):
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
        if not {"=", ":"} & set(before) and "--" not in name:
            return found[0]
        if value.startswith("[redacted") or not is_secret(name, value):
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


def _by_lf(text: str) -> Iterable[str]:
    """Return the lines of the text, split at LF only."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def redacted(text: str) -> str:
    """Return the text without anything that has the form of a credential."""
    redactor = Redactor()
    return redactor.feed(text) + redactor.end()


def redacted_bytes(data: bytes) -> bytes:
    """Return a copy of `data`, as long as it is, in which nothing has the form of a credential."""
    redactor = Redactor(same_length=True)
    text = data.decode("latin-1")
    return (redactor.feed(text) + redactor.end()).encode("latin-1")
