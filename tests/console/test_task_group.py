"""Tasks that end together, and nothing else with them."""

from __future__ import annotations

import asyncio

import pytest

from bs4_console.task_group import TaskGroup311


async def fail(error: Exception) -> None:
    raise error


async def test_the_first_error_ends_all_and_comes_out_as_it_is() -> None:
    ended: list[str] = []

    async def wait(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # putting away takes a moment; it is waited for
            ended.append(name)

    together = TaskGroup311()
    together.start(wait("a"))
    together.start(wait("b"))
    together.start(fail(ValueError("first")))
    together.start(fail(KeyError("second")))
    with pytest.raises(ValueError, match="first"):
        await together.wait()
    assert sorted(ended) == ["a", "b"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_it_ends_when_all_have_and_more_can_join() -> None:
    done: list[int] = []
    together = TaskGroup311()

    async def count(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)
        if number < 3:
            together.start(count(number + 1))

    together.start(count(1))
    await together.wait()
    assert done == [1, 2, 3]
    await TaskGroup311().wait()


async def test_a_cancellation_from_outside_ends_the_parts_and_goes_on() -> None:
    ended = asyncio.Event()

    async def part() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def whole() -> None:
        together = TaskGroup311()
        together.start(part())
        await together.wait()

    task = asyncio.create_task(whole())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_what_comes_after_the_end_does_not_run() -> None:
    together = TaskGroup311()
    together.start(fail(ValueError("x")))
    with pytest.raises(ValueError):
        await together.wait()
    together.start(fail(KeyError("never")))
    await asyncio.sleep(0)


async def test_a_time_out_after_it_is_a_time_out() -> None:
    """With asyncio.TaskGroup in its place this is a CancelledError on Python 3.11.0 to 3.11.3."""
    together = TaskGroup311()
    together.start(fail(ValueError("x")))
    with pytest.raises(ValueError):
        await together.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
