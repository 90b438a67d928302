"""Work on threads that ends before the one that waits for it does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def to_its_end(work: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
    """Call `work` with these arguments on a thread and return its result; what it raises is passed
    on. Nothing can break off a thread: if the caller is cancelled meanwhile, the cancellation waits
    until `work` has ended. So nothing is written any more where the caller then clears up.
    """
    done = asyncio.ensure_future(asyncio.to_thread(work, *given, **named))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        while not done.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([done])
        raise
