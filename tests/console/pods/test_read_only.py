"""A read-only pod is only read: its agent is not even told that it may let go of what is kept
here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.errors import LooksOnly, RefusedError
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.reader import PodReader
from bs4_console.pods.reading.greeting import Action
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState


class Channel:
    def __init__(self) -> None:
        self.sent: list[Action] = []

    async def submit(self, action: Action) -> None:
        self.sent.append(action)


@pytest.mark.parametrize("read_only", [False, True])
async def test_the_journal_is_released_only_where_one_may_act(
    read_only: bool, tmp_path: Path
) -> None:
    mirror, channel = Mirror(tmp_path), Channel()
    mirror.use("0123456789abcdef0123456789abcdef")
    mirror.append("journal", "1:0", "1:3", b"{}\n")
    await PodReader(PodState(name="a", read_only=read_only), mirror).release(channel)  # type: ignore[arg-type]
    assert [action.kind for action in channel.sent] == ([] if read_only else ["release"])
    mirror.close()


@pytest.mark.parametrize("kind", ["playbook", "launch", "stop", "adopt", "mode", "note"])
async def test_every_action_is_refused_without_a_link(kind: str, tmp_path: Path) -> None:
    session = PodSession(PodState(name="a", read_only=True), None, Mirror(tmp_path), "who")  # type: ignore[arg-type]
    with pytest.raises(RefusedError) as refused:
        await session.submit(kind, run="r")
    assert refused.value.exit_code == 4
    await session.close()


@pytest.mark.parametrize("kind", ["plan", "stop", "release"])
async def test_where_the_key_may_only_look_not_even_a_plan_is_asked_for(
    kind: str, tmp_path: Path
) -> None:
    state = PodState(name="a", looks_only=True, read_only=True)
    session = PodSession(state, None, Mirror(tmp_path), "who")  # type: ignore[arg-type]
    with pytest.raises(LooksOnly) as refused:
        await session.submit(kind, run="r")
    assert refused.value.exit_code == 4
    await session.close()
