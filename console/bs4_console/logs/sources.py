"""Tell which program wrote a log: by the file's name, or by its content if that leaves no doubt. A
wrong answer would disable the right rules, so doubt gives no answer.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_common.failures.clothing import learnt
from bs4_common.trainers import headers, lines, registry

SOURCES = (
    "trainer",
    "orchestrator",
    "inference",
    "launcher",
    "env",
    "kernel",
    "ssh",
    "sync",
    "wandb",
    "provider",
)
#: The source for each word of a file's name. Only whole words count: `ranking.txt` is no log of a
#: rank.
_NAMES = {
    "trainer": "trainer",
    "rank": "trainer",
    "train": "trainer",
    "orchestrator": "orchestrator",
    "orch": "orchestrator",
    "inference": "inference",
    "vllm": "inference",
    "launcher": "launcher",
    "rl": "launcher",
    "console": "launcher",
    "dmesg": "kernel",
    "kern": "kernel",
    "kernel": "kernel",
    "kmsg": "kernel",
    "ssh": "ssh",
    "sync": "sync",
    "rclone": "sync",
    "wandb": "wandb",
    "env": "env",
    "provider": "provider",
}
_SAMPLE = 256 * 1024
#: Bytes of a line that are looked at.
_LONG = 4096
#: A line with one of these may hold the words of an event in another form: escaped as in JSON,
#: divided by colours, or put together from the values of a progress record.
_HIDDEN = (b"\\", b"\x1b", b'"progress"')
#: The programs whose lines are known.
_PROGRAMS = ("launcher", "trainer", "orchestrator", "inference")
#: Kinds of event that prove nothing. Messages of torch and CUDA occur in several logs, and one log
#: shows the last lines of another.
_SHARED = frozenset({"child-failed", "gpu-memory", "fatal", "rate-limited", "finished"})
_SSH = re.compile(
    r"(ssh: (connect to host|Could not resolve)|kex_exchange_identification: |Host key "
    r"verification failed\.|debug1: |OpenSSH_\d"
    r"|\S+: Permission denied \((publickey|password)|@ +WARNING: REMOTE HOST IDENTIFICATION HAS "
    r"CHANGED)"
)
_WANDB = re.compile(r"wandb: ")
#: The logs of W&B's client: the JSON of its core, and `[wandb_init.py:init():784]` of its Python
#: side.
_WANDB_CORE = re.compile(r'\{"time":"[^"]{10,40}","level":"[A-Z]{4,7}(?:[+-]\d{1,2})?","msg":"')
_WANDB_CLIENT = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]{4,8} {1,5}[\w-]{1,40}:\d{1,10} "
    r"\[\w{1,60}\.py:\w{1,60}\(\):\d{1,6}\] "
)
_WANDB_LOGS = frozenset({"debug-internal.log", "debug-core.log"})
#: What verifiers 0.4 says of each rollout, in vf-eval's `eval.log` and in an environment's server.
_VERIFIERS = re.compile(
    r"\d\d:\d\d:\d\d {1,4}INFO rollout (?:start|done): id=[0-9a-f]{32} task=\S{1,40} "
)
_SERVER = re.compile(r"\((?:APIServer|EngineCore\w*|Worker\w*) pid=\d+\) ")


@dataclass(frozen=True)
class Wrote:
    """The program that has written a log. `source` names the program, such as "trainer",
    "orchestrator", "inference" or "launcher". `trainer` names the trainer and its version:
    "prime-rl-2026-01", "prime-rl" or "verl". Each is "" if the log does not make it certain.
    """

    source: str
    trainer: str = ""


def by_name(path: Path) -> str:
    """Return the name of the program that has written a log, such as "trainer" or "launcher",
    judged by the name of its file. Return "" if the name does not tell it.
    """
    if path.suffix == ".stdout":
        if path.stem.endswith("inference"):
            return "inference"
        return _NAMES.get(path.stem, "")
    if path.name in _WANDB_LOGS:
        return "wandb"
    words = re.split(r"[^a-z]+", path.name.lower())
    found = {_NAMES[word] for word in words if word in _NAMES}
    if len(found) > 1 and "launcher" in found:
        found.discard("launcher")  # rl-trainer.log
    if len(found) == 1:
        return found.pop()
    return ""


def of_suffix(path: Path) -> str | None:
    """Return the id of the trainer whose logs alone have names that end as `path` does, or None if
    the name does not show the trainer.
    """
    for id_ in registry.ids():
        suffix = registry.get(id_).traits.log_suffix
        if suffix and path.suffix == suffix:
            return id_
    return None


def by_content(sample: bytes, named: str = "") -> Wrote:
    """Return which program has written a log, judged by `sample`, the log's first bytes. The
    `source` of the result is "" if no program, or more than one, fits. If it is known already which
    program of a run has written the log, `named` is its name, such as "orchestrator". Then only the
    `trainer` of the result, such as "verl", is found out.
    """
    raw = _undressed(sample[:_SAMPLE]).split(b"\n")[:2000]
    texts = []
    for line in raw:
        if line.strip():
            texts.append(line.decode("utf-8", "replace").strip("\r"))
    if not texts:
        return Wrote(named)
    if named:
        return Wrote(named, _clear(_programs(raw, (named,)).get(named, Counter())))
    tests = {"kernel": _kernel, "ssh": _ssh, "wandb": _wandb}
    certain = {name for name, test in tests.items() if test(texts)}
    programs = _programs(raw)
    if any(_SERVER.match(text) for text in texts) and "launcher" not in programs:
        programs.setdefault("inference", Counter())
    if "launcher" in programs:
        programs = {"launcher": programs["launcher"]}
    found = certain | set(programs)
    if not found and any(_VERIFIERS.match(text) is not None for text in texts):
        return Wrote("env")  # an orchestrator prints such lines among its own
    if len(found) != 1:
        return Wrote("")
    source = found.pop()
    return Wrote(source, _clear(programs.get(source, Counter())))


def _undressed(sample: bytes) -> bytes:
    """Return the beginning of a log without what another program has put around every line."""
    for source in ("trainer", "kernel"):
        grammar = functools.partial(lines.parse, source)
        worn = learnt(
            sample,
            grammar,
            lambda line: any(known.match(line.text) for known in (_SSH, _WANDB, _SERVER)),
            kernel=source == "kernel",
        )
        if worn is not None:
            return worn.block(sample)
    return sample


def _clear(programs: Counter[str]) -> str:
    """Return the generation that recognises the most lines, or "" if two recognise equally many."""
    most = max(programs.values(), default=0)
    first = [name for name, count in programs.items() if count == most]
    return first[0] if len(first) == 1 else ""


def _kernel(texts: list[str]) -> bool:
    """Return True if at least 80 % of the lines have a kernel timestamp."""
    return sum(headers.kernel(text).timestamp is not None for text in texts) >= max(
        1, 0.8 * len(texts)
    ) and not _loguru(texts)


def _loguru(texts: list[str]) -> bool:
    """Return True if one of the first 50 lines has a loguru header. ISO timestamps alone prove
    nothing, because Python's logging writes them too.
    """
    return any(headers.other(text) is not None for text in texts[:50])


def _ssh(texts: list[str]) -> bool:
    """Return True if the text is the short output of an SSH client."""
    return len(texts) <= 200 and _SSH.match(texts[0].removeprefix("$ ")) is not None


def _wandb(texts: list[str]) -> bool:
    """Return True if the W&B client wrote the lines."""
    if any(pattern.match(texts[0]) is not None for pattern in (_WANDB_CORE, _WANDB_CLIENT)):
        return True  # either header is the client's alone
    return sum(_WANDB.match(text) is not None for text in texts) >= max(2, 0.5 * len(texts))


def _programs(raw: list[bytes], sources: Sequence[str] = _PROGRAMS) -> dict[str, Counter[str]]:
    """Return the sources whose own events occur in the lines, with the number of lines that each
    generation recognises.

    A grammar matches a whole line with its level, so one event is proof unless two programs write
    the same line. Quoted lines do not match, because they do not start at the beginning of a line.
    """
    asked = [source for source in _PROGRAMS if source in sources]
    heads = tuple(line[:_LONG] for line in raw)
    found: dict[str, Counter[str]] = {}
    for name in registry.ids():
        sides: dict[int, set[str]] = {}
        for source in asked:
            for number, side in _events(name, source, heads):
                sides.setdefault(number, set()).add(side)
        for one in sides.values():
            if len(one) == 1:
                found.setdefault(one.pop(), Counter())[name] += 1
    return found


@functools.lru_cache(maxsize=16)
def _events(name: str, source: str, raw: tuple[bytes, ...]) -> Sequence[tuple[int, str]]:
    """Return (number of the line, side) for the lines that a trainer's grammar recognises as events
    of this source that prove something. The result is remembered, because a log without a finding
    is asked about twice.
    """
    trainer = registry.get(name)
    whole = b"\n".join(raw)
    words = []
    for word in trainer.event_words(source, _SHARED):
        if (text := word.encode()) in whole:
            words.append(text)
    found = []
    for number, line in enumerate(raw):
        if any(word in line for word in words) or any(sign in line for sign in _HIDDEN):
            event = trainer.event(source, trainer.parse_line(source, line))
            if event is not None and event.kind not in _SHARED:
                found.append((number, event.side))
    return found
