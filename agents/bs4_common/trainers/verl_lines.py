"""Rules for verl's lines (0.2 to 0.9), and what Ray puts around them.

Everything is printed by one process (the task runner, under SFT rank 0) and reaches the driver's
output through Ray, which colours it even in a file, prefixes the whole line and delivers it late. A
step's line may be below a later step's line and below the final traceback. So steps are
`unordered`: their number counts, not their place.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection
from typing import Any

from bs4_common.states import EventKind
from bs4_common.trainers import lines, verl_metrics
from bs4_common.trainers.base import Event, LogLine
from bs4_common.trainers.grammar import Grammar, Rule
from bs4_common.trainers.inference_lines import RATE_LIMIT_RULES, TORCH_RULES

#: The logs with verl's own messages: the driver's output, under either name, and the file logger's
#: rows.
SOURCES = ("trainer", "launcher", "metrics")

# The prefix `(TaskRunner pid=1, ip=10.0.0.2) ` is removed with vLLM's, which look the same. These
# are left.
_RAY = re.compile(
    r"\((?:raylet|autoscaler|[A-Za-z_][\w:.\-]{0,80} pid=\d{1,10})(?:, ip=[\w.:]{1,60})?\)\s?"
)
_REPEATED = re.compile(r"\s{0,4}\[repeated \d{1,9}x across cluster\].{0,200}$")
_BAR = re.compile(
    r"(?P<desc>Training Progress|Epoch \d{1,6}/\d{1,6}): {0,9}(?P<percent>\d{1,3})%\|[^|]{0,400}\|"
    r" {0,9}(?P<current>\d{1,9})/(?P<total>\d{1,9}) {0,9}\[[\d:]{1,12}<[\d:?]{1,12}, "
    r"{0,9}(?P<rate>[\d.?]{1,12})(?P<unit>s/it|it/s)"
)

_SAID: tuple[tuple[str, EventKind, dict[str, Any]], ...] = (
    ("ray init kwargs: <_rest:t>", "starting", {"what": "process"}),
    ("TaskRunner hostname: <host:w>, PID: <pid:i>", "starting", {"what": "process"}),
    ("Size of train dataloader: <_batches:i>{<_rest:t>}", "starting", {"what": "data"}),
    ("Total training steps: <max_steps:i>", "starting", {"what": "loop"}),
    ("Training from scratch{<_rest:t>}", "starting", {"what": "scratch"}),
    ("Setting global step to <step:i>", "resume", {}),
    ("Resuming from <_folder:t>global_step_<step:i>", "resume", {}),
    (
        "{[<_trainer:w>] }local_global_step_folder: <_folder:t>global_step_<step:i>",
        "save",
        {"part": "actor"},
    ),
    # Under SFT.
    ("Found latest checkpoint: <_folder:t> (step <step:i>)", "resume", {}),
    ("Saving checkpoint to: <_folder:t>global_step_<step:i>", "save", {"part": "model"}),
    ("Error executing job with overrides: [<_rest:t>", "fatal", {}),
)
RULES = (
    Rule(
        "trainer",
        "INFO",
        "Started a local Ray instance.",
        "starting",
        {"what": "process"},
        whole=False,
    ),
    *(Rule("trainer", "", text, kind, constants) for text, kind, constants in _SAID),
    # pprint shows a string as its repr, in brackets where it has to wrap.
    Rule("trainer", "", "Final validation metrics: ", "finished", whole=False),
    Rule("trainer", "", '"Final validation metrics: ', "finished", whole=False),
    Rule("trainer", "", "'Final validation metrics: ", "finished", whole=False),
    Rule("trainer", "", '("Final validation metrics: ', "finished", whole=False),
    Rule("trainer", "", "('Final validation metrics: ", "finished", whole=False),
    *TORCH_RULES,
    *(rule for rule in RATE_LIMIT_RULES if rule.source == "trainer"),
)
_GRAMMAR = Grammar(RULES)
#: Texts of which every line of such an event holds one.
_WORDS = {"step": ("step:", '"data"'), "eval": (" - val", '"val'), "heartbeat": ("%|",)}


def parse(source: str, raw: bytes) -> LogLine:
    """Return the parts of one raw line of the log `source`. What Ray adds to lines of other
    processes is left out: its prefix and `[repeated 3x across cluster]`.
    """
    if source != "kernel" and raw[:9].lstrip().startswith(b'{"step"'):
        return LogLine(text=raw.decode("utf-8", "replace").rstrip("\r\n"))
    line = lines.parse(source, raw)
    text = line.text
    if line.level == "" and (prefix := _RAY.match(text)) is not None:
        inner = lines.parse(source, text[prefix.end() :].encode("utf-8", "replace"))
        line, text = dataclasses.replace(inner, rank=line.rank), inner.text
    if text.endswith("]") or "across cluster]" in text:
        text = _REPEATED.sub("", text)
    if text == line.text:
        return line
    return dataclasses.replace(line, text=text)


def event(source: str, line: LogLine) -> Event | None:
    """Return what a line of the log `source` means. Return None for lines of other programs, and
    for verl's lines that mean nothing.
    """
    if source not in SOURCES:
        return None
    text = line.text
    if (
        found := verl_metrics.of_row(text)
        if text.startswith('{"step"')
        else verl_metrics.of_line(text)
    ) is not None:
        step, metrics = found
        if verl_metrics.is_validation(metrics):
            return Event("eval", "trainer", verl_metrics.validation(metrics), step)
        return Event("step", "trainer", {**verl_metrics.record(metrics), "unordered": True}, step)
    if (bar := _BAR.search(text)) is not None:
        current = int(bar.group("current"))
        values = {
            "desc": bar.group("desc"),
            "percent": int(bar.group("percent")),
            "current": current,
            "total": int(bar.group("total")),
        }
        if bar.group("desc") != "Training Progress":
            return Event("heartbeat", "trainer", values)  # it counts within the epoch
        if (seconds := _seconds(bar.group("rate"), bar.group("unit"))) is not None:
            values["time_s"] = seconds
        return Event("heartbeat", "trainer", values, current)
    return _GRAMMAR.event("trainer", line)


def _seconds(rate: str, unit: str) -> float | None:
    """Return the seconds of a step by the rate that a progress bar shows, a running mean. None if
    it shows none yet: no step was done since the bar began.
    """
    try:
        value = float(rate)
    except ValueError:
        return None
    if value <= 0.0:
        return None
    return value if unit == "s/it" else 1.0 / value


def event_words(source: str, passing: Collection[str]) -> list[str]:
    """Return a list of texts for a fast first filter of the log `source`: a line that means an
    event contains at least one of them, so a line that contains none need not be parsed. `passing`
    are kinds of events that the caller does not want; lines that mean only such events need not
    contain any of the texts. The list is empty for a log in which no line means an event.
    """
    if source not in SOURCES:
        return []
    found = set(_GRAMMAR.words("trainer", passing))
    for kind, words in _WORDS.items():
        if kind not in passing:
            found.update(words)
    return sorted(found)
