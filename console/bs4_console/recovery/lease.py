"""Decides which of several controllers may act for a run, by the versions of one file,
`lease.json`, in the run's object store.

The store has no compare-and-set. So a claim is a new version of the file, and the writer of the
oldest version that has not expired holds the lease. All times are the store's: "now" is the time
that the store gave to the version just written, and no clock of ours is compared with it. A holder
writes again (and lists again) right before every call that costs money.

Why two controllers can never hold the lease at once: let a and b be the versions that A and B rely
on, and let a be the older one. A's write took at most `settle_s`, or it does not count, so a can be
listed from a.t + settle_s on. B relies on b only when its list was made settle_s after b.t, which
is later than that. So B saw a, which has not expired while A may act (`margin_s` before its end A
may not), and B does not hold. Our own clock only measures how long our own call took.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter
from typing import Any

from bs4_common.checkpoints.remote.errors import NotThere, StoreAuth, StoreDamaged
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.checkpoints.remote.store import Entry, Store
from bs4_console.errors import RefusedError

#: Seconds. Another controller can follow a dead one after TTL_S at the latest. One create call and
#: the poll after it fit into MARGIN_S.
TTL_S, SETTLE_S, MARGIN_S = 900.0, 10.0, 180.0
MOST = 4096

Call = Callable[..., Awaitable[Any]]


class LeaseHeld(RefusedError):
    """Raised if this controller does not have the run's lease, the right to act for the run that
    only one controller has at a time. Either another controller has it, or the object store was too
    slow to be sure that none does. Without the lease nothing may be done for the run.
    """


def running_clock() -> float:
    """Return the time in seconds of a clock that goes on while this machine sleeps. That is
    possible on Linux; on other systems it is the ordinary monotonic clock. Only the difference
    between two readings has a meaning.
    """
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is None:
        return time.monotonic()
    return time.clock_gettime(boottime)


class Grant:
    """The permission to act once for a run, for example to rent a machine for it. A controller gets
    it after it has checked that no other controller may act for the run, and it is valid only for a
    limited time after that check.
    """

    def __init__(self, clock: Callable[[], float], deadline: float) -> None:
        self._clock, self._deadline = clock, deadline

    def left_s(self) -> float:
        """Return for how many seconds this permission to act for the run is still valid. The number
        is negative once it has expired.
        """
        return self._deadline - self._clock()


class Lease:
    """The right of one controller to act for a run, which only one controller has at a time. It
    consists of versions of one file in the object store. Errors of the object store are raised
    unchanged, because without the store nobody can have the lease.

    `owner` is this controller's name, which other controllers show to people. `mine` are the ids of
    the versions of the file that this controller had written before it was restarted. The function
    `note` is called with the id of each version that is written. A version is valid for `ttl_s`
    seconds after it was written. It counts only from `settle_s` seconds after it was written, so
    that other controllers can have seen it. A grant (the permission to act) is valid for `margin_s`
    seconds, and the version on which it rests for at least as long.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        owner: str,
        *,
        mine: Iterable[str] = (),
        note: Callable[[str], None] = lambda version: None,
        ttl_s: float = TTL_S,
        settle_s: float = SETTLE_S,
        margin_s: float = MARGIN_S,
        call: Call = asyncio.to_thread,
        clock: Callable[[], float] = running_clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if not 0 < settle_s < margin_s < ttl_s - settle_s:
            raise ValueError(
                "A lease settles sooner than its margin, and its margin is less than its life."
            )
        self._store, self._layout, self._owner = store, layout, owner
        self._mine = set(mine)
        self._note = note
        self._ttl, self._settle, self._margin = ttl_s, settle_s, margin_s
        self._call, self._clock, self._sleep = call, clock, sleep

    async def take(self) -> Grant:
        """Take the lease of the run, the right to act for it that only one controller has at a
        time, and return a grant, the permission to act for a limited time. Raises LeaseHeld if
        another controller has the lease (the message says which one and for how many more seconds),
        or if the object store answers too slowly to be sure that none has.
        """
        foreign = [v for v in await self._versions() if v.version not in self._mine]
        if foreign:
            now = (await self._call(self._store.write, self._layout.clock, b"{}")).t
            if live := [v for v in foreign if v.t + self._ttl >= now]:
                raise await self._held(max(live, key=attrgetter("t")).t + self._ttl - now)
        await self._write()
        await self._sleep(self._settle)
        try:
            return await self.guard()
        except LeaseHeld:
            await self.release()
            raise

    async def hold(self) -> Grant:
        """Renew the lease, the right to act for the run, if this controller has it, and take it if
        not. Return a grant, the permission to act for a limited time. Raises LeaseHeld if another
        controller has the lease.
        """
        if self._mine:
            try:
                return await self.guard()
            except LeaseHeld:
                pass  # It ended meanwhile, or was never ours. `take` says who holds it now.
        return await self.take()

    async def guard(self) -> Grant:
        """Renew the lease, the right to act for the run, check that no other controller claims it,
        and return a grant, the permission to act for a limited time. Call this before each request
        that costs money, and send the request only while the grant is valid. Raises LeaseHeld if
        another controller claims the lease, or if this one does not have it for long enough.
        """
        begun = self._clock()
        now = (await self._write()).t
        rows = sorted(
            (v for v in await self._versions() if v.t + self._ttl >= now),
            key=attrgetter("t", "version"),
        )
        for row in rows:
            if row.version not in self._mine:
                # Our version would outlive theirs and then keep them from continuing, as theirs now
                # keeps us.
                await self._withdraw()
                raise await self._held(row.t + self._ttl - now)
            if row.t + self._ttl >= now + self._margin and row.t <= now - self._settle:
                return Grant(self._clock, begun + self._margin)
        raise LeaseHeld(
            f"The lease of {self._layout.run} is not held for long enough to act.",
            "Nothing was done; the next look takes it again.",
        )

    async def release(self) -> None:
        """Give up the lease, the right to act for the run, by deleting the versions of its file
        that this controller has written. If the key of the object store does not permit deleting,
        the versions remain and expire by themselves.
        """
        await self._withdraw()
        self._mine.clear()

    async def _withdraw(self) -> None:
        for version in await self._versions():
            if version.version in self._mine:
                with contextlib.suppress(StoreAuth):
                    await self._call(self._store.delete, version)

    async def _write(self) -> Entry:
        """Write a claim and return its version. A write that took long does not count, because
        others might not have listed it in time: it is deleted, and LeaseHeld is raised.
        """
        data = json.dumps(
            {
                "schema": "bs4.lease/1",
                "owner": self._owner,
                "run": self._layout.run,
                "ttl_s": self._ttl,
            }
        ).encode()
        begun = self._clock()
        entry: Entry = await self._call(self._store.write, self._layout.lease, data)
        if self._clock() - begun > self._settle / 2:
            with contextlib.suppress(StoreAuth):
                await self._call(self._store.delete, entry)
            raise LeaseHeld(
                "The store is too slow for a lease that can be trusted.",
                "Nothing was done; the next look tries again.",
            )
        self._mine.add(entry.version)
        self._note(entry.version)
        return entry

    async def _versions(self) -> list[Entry]:
        found: list[Entry] = await self._call(self._store.versions, self._layout.lease)
        return found

    async def _held(self, seconds: float) -> LeaseHeld:
        who = "Another controller"
        with contextlib.suppress(NotThere, StoreDamaged, ValueError, AttributeError):
            owner = json.loads(await self._call(self._store.read, self._layout.lease, MOST)).get(
                "owner"
            )
            # The newest version may be ours. A name that others wrote is shown and never trusted.
            if owner and owner != self._owner:
                who = (
                    f"Another controller ({''.join(c for c in str(owner)[:80] if c.isprintable())})"
                )
        return LeaseHeld(
            f"{who} holds the lease of {self._layout.run}.",
            f"It ends in {max(0.0, seconds):.0f} s unless it is renewed; look again then.",
        )
