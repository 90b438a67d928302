"""The loop of check --watch over a real file, with a real receiver: two bad looks, one good, a ping
each time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.checks.delivery import Notifier
from bs4_console.checks.recipients import Channel
from bs4_console.checks.transitions import Notice
from bs4_console.checks.verdict import CRITICAL, OK, UNKNOWN, Verdict
from bs4_console.checks.watch import WatchedFiles, summary, watch
from bs4_console.secret import Secret
from tests.console.checks.receiver import receiving

WELL = "12:00:01     INFO Starting\n"
ILL = WELL + "12:00:03    ERROR Error: Inference failed with exit code 1\n"


class Changing(WatchedFiles):
    """The file holds another text at each look."""

    def __init__(self, path: Path, texts: list[str]) -> None:
        super().__init__(path, "launcher", "prime-rl")
        self._file, self._texts = path, list(texts)

    async def judge(self) -> Verdict:
        self._file.write_text(self._texts.pop(0))
        return await super().judge()


async def test_what_changes_is_told_once_and_each_cycle_pinged(tmp_path: Path) -> None:
    shown: list[Notice] = []
    looks = [WELL, ILL, WELL, ILL, ILL, ILL, WELL]
    with receiving() as at:
        channels = [
            Channel("webhook", "hook", Secret(at.url("/hook"))),
            Channel("healthchecks", "alive", Secret(at.url("/ping")), fail=True),
        ]
        subject = Changing(tmp_path / "launcher.log", looks)
        level = await watch(
            [subject], Notifier(channels, pytest.fail), shown.append, 0.001, len(looks)
        )
    assert level == OK
    assert [(notice.level, notice.was) for notice in shown] == [(CRITICAL, OK), (OK, CRITICAL)]
    assert shown[0].text.startswith("inference-exited: ")
    assert [got.json["status"] for got in at.got if got.path == "/hook"] == ["CRITICAL", "OK"]
    pings = [got.path for got in at.got if got.path != "/hook"]
    assert pings == ["/ping"] * 4 + ["/ping/fail"] * 2 + ["/ping"]


async def test_a_path_that_is_gone_is_unknown_and_the_loop_goes_on(tmp_path: Path) -> None:
    shown: list[Notice] = []
    subject = WatchedFiles(tmp_path / "none.log", "trainer", None)
    assert await watch([subject], Notifier([], pytest.fail), shown.append, 0.001, 3) == UNKNOWN
    assert [notice.level for notice in shown] == [UNKNOWN]


def test_the_sign_of_life_names_who_is_not_well() -> None:
    verdicts = [
        Verdict(pod="a", level=OK, sentences=[]),
        Verdict(pod="b", level=CRITICAL, sentences=[]),
        Verdict(pod="c", level=OK, sentences=[]),
    ]
    assert summary(verdicts) == "2 OK, 1 CRITICAL: b"
