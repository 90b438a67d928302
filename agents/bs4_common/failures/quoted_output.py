"""Deciding whether lines without a header are quoted output: a model's completion may quote any
traceback.

In a plain log nothing marks the end of a record of several lines. A line that announces quoted text
(`Completion: ...`, or anything that ends in a colon) at a level that reports no failure may be
followed by that text. It may also be the last message of a dying process before its own traceback.
The two look the same until the next header: a process that continues as before was quoting. Until
then such lines do not count, for at most `WAIT_S` seconds. If no further header comes, the lines
were the process's own.

A record that announces nothing may still show by its own lines that it holds a transcript: a code
fence, a turn of a chat template, or a tool's answer. From such a line on, the same rule applies. A
bare traceback right below a line that announces nothing cannot be told apart from a real one. A
thread that dies while the others continue (`Exception in thread`, `Task exception was never
retrieved`) looks exactly like that, so it is believed.

verl's reward managers print a sample of every batch part by part, without any header: "[prompt]
...", "[response] ...", and at the end the right answer and the score. Lines between the first and
the last of these parts do not count. If the last part never comes, the rule above applies.

JSON logs need none of this, because one line is one record there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from bs4_common.trainers.base import LogLine

#: Records at these levels report no failure. Text that they quote over several lines belongs to
#: them.
CALM = frozenset({"TRACE", "DEBUG", "INFO", "SUCCESS"})
#: A process that writes at one of these levels continues. ERROR and CRITICAL come at the end.
_GOES_ON = CALM | {"WARNING"}
#: Programs that print models' output, each with a log of its own. In other logs (a server's, the
#: launcher's) the next header may be another process's.
_WRITERS = ("orchestrator", "env")
_OUTPUT = (
    r"(?:completion|prompt|response|answer|transcript|sample|example|rollout|conversation|"
    r"trajectory)s?"
)
_ANNOUNCES = re.compile(
    rf"(?i)(?:\w{{1,20}} ){{0,3}}(?:model )?{_OUTPUT}(?: [\w#/.-]{{1,20}}){{0,2}}:(?:\s|$)"
)
#: Keys of records under which output of a model stands.
QUOTED_KEY = re.compile(rf"(?i){_OUTPUT}|content|text")
#: Marks that only quoted text has, anywhere in a line: fences of Markdown, turns of chat templates,
#: tags of tools.
_MARKS = (
    r"```|<\|(?:im_start|im_end|start_header_id|eot_id|user|assistant|system)\|>|</?(?:think|"
    r"tool_call|tool_response)>"
)
_MARKED = re.compile(_MARKS)
#: A line without a header that begins a quotation.
_OPENS = re.compile(
    rf" {{0,8}}(?:{_MARKS}|~~~|(?:User|Assistant|Human|System|Tool|Observation):(?:\s|$))"
)
_SAMPLE = re.compile(r"\[(?:prompt|response)\] ")
_SAMPLE_OVER = re.compile(r"\[(?:ground_truth|score|reward)\] ")
#: Logs in which samples are printed, and the parts of a sample in a file.
_SAMPLERS = ("trainer", "launcher")
SAMPLE_PARTS = re.compile(rb"\[(?:prompt|response|ground_truth|score|reward)\] ")
#: What stands before quoted text in a line.
QUOTES = re.compile(
    rf"(?i){SAMPLE_PARTS.pattern.decode()}|{_MARKS}|~~~|"
    rf"\b{_OUTPUT}(?: [\w#/.-]{{1,20}}){{0,2}}:".encode()
)
#: Lines after a header that may be a quotation. Later lines are taken for what they look like.
MOST_LINES = 200
#: Seconds that lines of a live log are held back at most.
WAIT_S = 30.0


@dataclass
class QuotedOutput:
    """Decides which lines of one log are quoted text (output of a model that the program prints),
    and which are lines of the program itself. A header is a line with a level. Lines without one
    may belong to the text that the header above them has announced.

    `announced` is the header, or the part of a printed sample, below which quoted text is expected,
    or None. `held` are lines that wait until the next header shows what they are, each as the
    arguments that `hold` got. `since_m` is when the first of them was held, in seconds of the
    monotonic clock.
    """

    announced: LogLine | None = None
    record: LogLine | None = None
    """The last header, or None if its level is WARNING or higher, or its text has several lines."""
    line: int = 0
    """The line number of the last header, or of a part of a printed sample that came after it."""
    held: list[tuple[Any, ...]] = field(default_factory=list)
    since_m: float = 0.0

    def header(self, line: LogLine, number: int, source: str) -> None:
        """Note that `line` has a header (a level). Such a line ends any quoted text (output of a
        model that the program prints) above it, and may announce quoted text below it. `number` is
        the number of the line, and `source` the name of the log.
        """
        if number < self.line or not source.startswith(_WRITERS):
            return
        text = line.text
        calm = line.level in CALM and "\n" not in text
        says = (
            text.rstrip().endswith(":")
            or _ANNOUNCES.match(text) is not None
            or _MARKED.search(text) is not None
        )
        self.record = line if calm else None
        self.announced = line if calm and says else None
        self.line = number

    def open(self) -> None:
        """Call this for a line without a header (a level) that looks like the beginning of quoted
        text (output of a model). The lines from it to the next header may then be quoted text. It
        has no effect if the last header reports a failure.
        """
        self.announced = self.announced or self.record

    def begin(self, line: LogLine | None, number: int) -> None:
        """Report that the line `line`, which begins a part of a printed sample of a model's output,
        was seen. None reports that the sample is over. `number` is the line's number.
        """
        self.announced = None if line is None else replace(line, level="INFO")
        self.line = self.line if line is None else number

    def may_be(self, line: LogLine, number: int) -> bool:
        """Return True if a line may belong to quoted text (output of a model that the program
        prints) which the last line with a level has announced. The line must show neither a level,
        rank or logger nor a time, and be at most 200 lines below that line.
        """
        return self.announced is not None and headless(line) and number - self.line <= MOST_LINES

    def hold(self, number: int, now_m: float, *more: Any) -> None:
        """Hold a line back, which may be quoted text (output of a model), until `decide` is called.
        `number` is its line number and `now_m` the present time in seconds of the monotonic clock.
        `number` and `more` are passed to the `take` of `decide`.
        """
        self.since_m = now_m if not self.held else self.since_m
        self.held.append((number, *more))

    def decide(self, line: LogLine | None, take: Callable[..., None]) -> None:
        """Release the held lines by calling `take(level, logger, number, *more)` for each, with
        `number` and `more` as `hold` got them. `line` is the next line that has a level or ends a
        sample of a model's output; None means that no such line came soon enough. If `line` shows
        that the program continues, the held lines count as quoted text: their level and logger are
        those of the line that announced it. Otherwise level and logger are "".
        """
        record = self.announced
        quoted = (
            record is not None
            and line is not None
            and (line.level in _GOES_ON or sample_over(line))
        )
        held, self.held = self.held, []
        for item in held:
            take(
                record.level if quoted and record else "",
                record.logger if quoted and record else "",
                *item,
            )


def opens(line: LogLine) -> bool:
    """Return True if a line has no header (no level, rank, logger or time) and looks like the
    beginning of text that a model has written and the program prints.
    """
    return headless(line) and _OPENS.match(line.text) is not None


def headless(line: LogLine) -> bool:
    """Return True if a line shows neither its writer (level, rank, logger) nor a time."""
    return (
        not line.level
        and line.rank is None
        and line.clock is None
        and line.timestamp is None
        and not line.logger
    )


def sample(line: LogLine) -> bool:
    """Return True if a line is the beginning of a prompt or a response in a sample of a model's
    output that the program prints. The text after it may be anything.
    """
    return headless(line) and _SAMPLE.match(line.text) is not None


def sample_over(line: LogLine) -> bool:
    """Return True if the line belongs to the end of a sample, that is, of a prompt with the model's
    response that the program prints into its log. These last lines have no header, and begin with
    "[ground_truth]" (the true answer), "[score]" or "[reward]".
    """
    return headless(line) and _SAMPLE_OVER.match(line.text) is not None


def samples(source: str) -> bool:
    """Return True if samples of a model's output are printed in the log `source`."""
    return source.startswith(_SAMPLERS)


def asks(source: str) -> bool:
    """Return True if the program that writes the log `source` also prints the output of models.
    Then only the header above a line shows whether the line is the program's own.
    """
    return source.startswith(_WRITERS)
