"""What the miniature vLLM's engine does with more requests than it answers at a time."""

from __future__ import annotations

import contextlib
import threading

from bs4_practice.miniature.lines import Closed, Lines, wait
from bs4_practice.miniature.vllm.engine import _Engine


def answer_at_once(engine: Lines) -> None:
    """Play a worker that generates all tokens of every request in one step."""
    with contextlib.suppress(Closed):
        while True:
            step = engine.receive()["step"]
            engine.send({"tokens": [[item["id"], "x" * item["limit"]] for item in step]})


def test_requests_that_wait_are_begun_when_all_others_end_in_the_same_step() -> None:
    api, engines_api = Lines.pair()
    channel, workers_channel = Lines.pair()
    engine = _Engine(engines_api, [channel], max_sequences=2)

    def loop() -> None:
        with contextlib.suppress(Closed):
            engine.loop()

    threads = [
        threading.Thread(target=loop, daemon=True),
        threading.Thread(target=answer_at_once, args=(workers_channel,), daemon=True),
    ]
    for number in range(4):
        api.send({"op": "add", "id": str(number), "prompt": "hello", "limit": 1})
    for thread in threads:
        thread.start()
    finished: set[str] = set()
    while len(finished) < 4:
        assert wait(api, timeout=60), f"only {sorted(finished)} were answered"
        finished |= {output["id"] for output in api.receive()["outputs"]}
    api.close()
    channel.sock.shutdown(2)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
