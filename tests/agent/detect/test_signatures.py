"""Every key of a signature, over finished logs: what fires, what does not, and what ends it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from bs4_common.failures import offline
from bs4_common.failures.facts import Finding
from bs4_common.failures.tracks import MANY
from tests.agent.detect.compiled import engine, playbook


def found(
    log: str,
    *entries: dict[str, Any],
    source: str = "trainer",
    idle_s: float | None = None,
    thorough: bool = False,
) -> list[Finding]:
    watch = engine(*entries)
    facts = offline.log_facts(
        io.BytesIO(log.encode()), "x.log", source, "prime-rl", watch, thorough=thorough
    )
    made = watch.evaluate(offline.as_facts([facts], watch, idle_s or 0.0), complete=idle_s is None)
    return [transition.finding for transition in made if transition.event == "opened"]


def fires(log: str, **signature: Any) -> bool:
    """With and without the shortcut over words: both must say the same."""
    entry = playbook("x", {"pattern": "something broke", **signature})
    plain, thorough = found(log, entry), found(log, entry, thorough=True)
    assert plain == thorough
    return bool(plain)


ERROR = "12:00:01   ERROR something broke: code 7\n"
INFO = "12:00:01    INFO something broke: code 7\n"


def test_a_pattern_is_searched_in_the_text_behind_the_header():
    assert fires(ERROR)
    assert fires(ERROR, pattern="^something broke")
    assert not fires(ERROR, pattern="^12:00:01.*something broke")
    assert fires("\x1b[31m12:00:01\x1b[0m   ERROR some\x1b[1mthing\x1b[0m broke\n"), (
        "colours inside a word are not part of it"
    )
    assert fires("[default0]:[rank0]: something broke\n", pattern="^something broke")


def test_levels():
    assert fires(ERROR, levels=["ERROR"])
    assert not fires(INFO, levels=["ERROR", ""])
    assert fires("something broke\n", levels=[""])
    assert not fires(ERROR, levels=[""])


def test_a_record_of_several_lines_reads_like_a_plain_log():
    """In a JSON log the exception is part of the record; its lines have no header of their own."""
    record = (
        '{"timestamp": "2026-08-21T12:00:01+00:00", "level": "ERROR", "message": "Fatal error in '
        'train", "module": "a",'
        ' "exception": "Traceback (most recent call last):\\n  File \\"x.py\\"\\nValueError: '
        'something broke"}\n'
    )
    assert fires(record, pattern="^ValueError: something broke$", levels=[""])
    assert not fires(record, pattern="^ValueError: something broke$", levels=["ERROR"])
    assert fires(
        record,
        pattern="^ValueError: something broke$",
        near={"pattern": "^Fatal error in", "before": 5},
    )
    assert fires(record.replace("something", "s\\u006fmething")), (
        "whoever writes letters as escapes is read too"
    )


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "SUCCESS"])
def test_a_calm_record_quotes_what_stands_in_its_further_lines(level):
    """A completion of several lines, in a JSON log: a traceback in it is not the program's own."""
    record = (
        f'{{"timestamp": "2026-08-21T12:00:01+00:00", "level": "{level}", "message": '
        '"Completion: I ran it.\\n'
        'Traceback (most recent call last):\\nsomething broke", "module": "a"}\n'
    )
    assert not fires(record, levels=["ERROR", ""])
    assert fires(record, levels=[level]), "the lines are the record's, not nobody's"
    assert fires(record), "any level"
    assert fires(record.replace(level, "WARNING"), levels=["ERROR", ""])


def test_logger_and_unless():
    line = "(EngineCore_0 pid=7) ERROR 11-18 07:11:40 [core.py:1512] something broke\n"
    assert fires(line, logger="^core$", levels=["ERROR"])
    assert not fires(line, logger="^async_llm$")
    assert not fires(ERROR, unless="code 7")
    assert fires(ERROR, unless="code 8")


@pytest.mark.parametrize(
    ("condition", "fired"),
    [
        (">= 7", True),
        ("> 7", False),
        ("<= 6.5", False),
        ("== 7", True),
        ("!= 7", False),
        ("<8", True),
    ],
)
def test_where(condition, fired):
    assert (
        fires(ERROR, pattern=r"something broke: code (?P<code>\d+)", where={"code": condition})
        is fired
    )


def test_a_group_without_a_number_is_no_match():
    assert not fires(
        "something broke: x\n", pattern=r"something broke: (?P<code>\w*)", where={"code": ">= 0"}
    )


def lines(before: str, gap: int, after: str) -> str:
    return before + "".join(f"12:00:00 INFO filler {n}\n" for n in range(gap)) + after


NEIGHBOUR = "the neighbour stands here\n"


@pytest.mark.parametrize(
    ("gap", "fired"), [(0, True), (28, True), (29, True), (30, False), (400, False)]
)
def test_a_neighbour_above(gap, fired):
    near = {"pattern": "the neighbour", "before": 30}
    assert fires(lines(NEIGHBOUR, gap, ERROR), near=near) is fired
    assert fires(lines(NEIGHBOUR, gap, ERROR), near={**near, "absent": True}) is not fired
    assert not fires(lines(ERROR, gap, NEIGHBOUR), near=near), "below is not above"


@pytest.mark.parametrize(("gap", "fired"), [(0, True), (29, True), (30, False)])
def test_a_neighbour_below(gap, fired):
    near = {"pattern": "the neighbour", "after": 30}
    assert fires(lines(ERROR, gap, NEIGHBOUR), near=near) is fired
    assert fires(lines(ERROR, gap, NEIGHBOUR), near={**near, "absent": True}) is not fired


def test_a_neighbour_is_another_line():
    assert not fires(
        "something broke, the neighbour says\n",
        near={"pattern": "the neighbour", "before": 5, "after": 5},
    )


def test_the_neighbour_is_found_across_a_block(tmp_path):
    """Blocks are a megabyte; what is looked for above may lie in the block before."""
    filler = "12:00:00 INFO " + "y" * 20_000 + "\n"
    log = NEIGHBOUR + filler * 60 + ERROR
    assert fires(log, near={"pattern": "the neighbour", "before": 61})
    assert not fires(log, near={"pattern": "the neighbour", "before": 60})


def test_order():
    first = "12:00:00 INFO it has started\n"
    assert fires(first + ERROR, only_after="has started")
    assert not fires(ERROR + first, only_after="has started")
    assert not fires(first + ERROR, not_after="has started")
    assert fires(ERROR + first, not_after="has started")


def at(clock: str) -> str:
    return f"{clock}   ERROR something broke\n"


def test_counts_in_windows_of_line_time():
    three = at("12:00:00") + at("12:04:00") + at("12:09:59")
    assert fires(three, count=3)
    assert not fires(three, count=4)
    assert fires(three, count=3, within="10m")
    assert not fires(three, count=3, within="9m")
    assert fires(at("11:00:00") + three, count=3, within="10m"), "the window moves on"
    assert not fires(at("23:58:00") + at("00:30:00"), count=2, within="10m")
    assert fires(at("23:58:00") + at("00:01:00"), count=2, within="10m"), "over midnight"


def test_a_plain_line_is_as_old_as_the_header_above_it():
    log = (
        "12:00:00 INFO a\nsomething broke\n12:20:00 INFO b\n" + "noise\n" * 50 + "something broke\n"
    )
    assert fires(log, count=2, within="20m")
    assert not fires(log, count=2, within="19m")


def test_what_ends_it():
    end = "12:00:05 SUCCESS all is well again\n"
    assert not fires(ERROR + end, cleared_by="all is well")
    assert fires(end + ERROR, cleared_by="all is well")
    assert fires(ERROR + end + ERROR, cleared_by="all is well")
    assert not fires(ERROR * 2 + end + ERROR, cleared_by="all is well", count=3), (
        "counts begin anew"
    )


def test_only_as_the_last_line():
    assert fires(ERROR, last=True)
    assert fires(ERROR + "\n  \n", last=True), "blank lines are not news"
    assert not fires(ERROR + INFO.replace("something broke", "on it goes"), last=True)


def test_holds_are_counted_from_the_lines_own_time():
    entry = playbook("x", {"pattern": "something broke", "last": True}, detect={"for": "300s"})
    assert found(ERROR, entry, idle_s=300.0)
    assert not found(ERROR, entry, idle_s=299.0)
    passed = playbook("x", {"pattern": "something broke"}, detect={"for": "300s"})
    assert found(ERROR + "12:06:00 INFO on it goes\n", passed, idle_s=0.0)


def test_ten_thousand_times_the_same_is_one_finding():
    log = "".join(
        f"12:{n // 60 % 60:02}:{n % 60:02}   ERROR something broke {n}\n" for n in range(10_000)
    )
    (item,) = found(log, playbook("x", {"pattern": "something broke"}))
    assert item.count == MANY, "so often at least: it is counted no further"
    assert [place["line"] for place in item.evidence] == [1, MANY]


def test_several_signatures_of_one_failure_are_one_finding():
    (item,) = found(
        ERROR + "another thing\n",
        playbook("x", {"pattern": "something broke"}, {"pattern": "another thing"}),
    )
    assert [place["text"] for place in item.evidence] == [
        "something broke: code 7",
        "another thing",
    ]


def test_a_list_of_sources():
    entry = playbook("x", {"pattern": "something broke", "source": ["inference", "env"]})
    assert found(ERROR, entry, source="inference")
    assert found(ERROR, entry, source="env-gsm8k")
    assert not found(ERROR, entry, source="trainer")
