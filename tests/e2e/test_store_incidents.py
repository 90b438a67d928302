"""A store that goes wrong under a run that trains: each trouble has its name on the pod, by what
the sync itself was told.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bs4_console.pods.state import IncidentView
from bs4_practice.b2.faults import Fault
from bs4_practice.b2.server import B2Server
from bs4_practice.person import edit_config
from bs4_practice.stage import Stage, staged
from tests.agent.checkpoints.remote.bench import BUCKET, PREFIX, RUN, pointed
from tests.e2e.lost_pods import give_key

pytestmark = [pytest.mark.long, pytest.mark.beside]


async def _named(stage: Stage, failure: str, word: str) -> IncidentView:
    """The open incident of this failure that says `word`."""

    def look() -> IncidentView | None:
        found = [one for one in stage.ledger.open_incidents() if one.failure == failure]
        return next((one for one in found if word in str(one.evidence) + one.summary), None)

    made: IncidentView = await stage.until(
        look, 180, f"{failure} that says {word!r} (open: {_open(stage)})"
    )
    return made


def _open(stage: Stage) -> list[str]:
    return [f"{one.failure}: {one.summary}" for one in stage.ledger.open_incidents()]


async def _mended(stage: Stage, server: B2Server, **order: Any) -> int:
    """The order again, which is tried at once; the step that the pointer then names."""
    server.faults.clear()
    before = pointed(server) or 0
    await stage.must("sync", run=RUN, to=f"b2://{BUCKET}/{PREFIX}", **order)
    async with asyncio.timeout(180):
        while (pointed(server) or 0) <= before:
            await asyncio.sleep(0.2)
    return pointed(server) or 0


@pytest.mark.timeout(900)
async def test_what_the_store_answers_has_its_name_on_the_pod(tmp_path: Path) -> None:
    with B2Server(tmp_path / "b2") as server:
        server.bucket(BUCKET)
        async with staged(
            "prime-rl-2026-01", step_seconds=0.3, env={"BS4_B2_REALM": server.url}
        ) as stage:
            await asyncio.to_thread(give_key, stage.pod, server, write=True, library=True)
            edit_config(stage, {"ckpt.interval": 2})
            await stage.launch(wait=False)
            await _mended(stage, server)
            ours = {
                "object-store-auth",
                "object-store-throttled",
                "object-store-unreachable",
                "remote-checkpoint-partial",
            }
            assert not ours & {one.failure for one in stage.ledger.open_incidents()}, _open(stage)

            # 503 to every call.
            server.faults.add(Fault("busy", times=None))
            await _named(stage, "object-store-throttled", "takes no more for now")

            # The tokens expire, and the key that would get new ones was withdrawn.
            await _mended(stage, server)
            keys = dict(server.shelf.keys)
            server.shelf.keys.clear()
            server.expire_tokens()
            await _named(stage, "object-store-auth", "refuses this key")

            # The account's cap: another finding of the same failure, as somebody else has to act.
            server.shelf.keys.update(keys)
            await _mended(stage, server)
            server.faults.add(Fault("full", call="b2_upload_file", times=None))
            await _named(stage, "object-store-auth", "storage cap is reached")

            # Somebody removes a file of a step that is in the store and here.
            step = await _mended(stage, server)
            [bucket] = [key for key, name in server.shelf.buckets.items() if name == BUCKET]
            lost = (
                f"{PREFIX}/{RUN}/steps/step_{step}/files/checkpoints/step_{step}/trainer/"
                "__0_0.distcp"
            )
            for version in server.shelf.versions(bucket, lost):
                server.shelf.remove(version)
            await _named(stage, "remote-checkpoint-partial", f"step {step}")
