"""What the trainer of January 2026 makes of the config that an orchestrator left for it
(runs.py:53-90 of a24ec986b).
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from bs4_practice.miniature import pace
from bs4_practice.miniature.log import Logger
from bs4_practice.miniature.v2026_01.packer import Packer


def test_a_config_that_cannot_be_read_is_noted_and_the_note_goes_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "PACE", 0.01)
    configs = tmp_path / "run_default" / "configs"
    configs.mkdir(parents=True)
    (configs / "orch.toml").write_bytes(b"\0\0\0 = 1\n")
    batch = tmp_path / "run_default" / "rollouts" / "step_0" / "rollouts.bin"
    batch.parent.mkdir(parents=True)
    batch.write_text(json.dumps({"policy": 0, "examples": [{"tokens": 64}]}))
    packer = Packer(tmp_path, world=1, seq_len=64, start_step=0, log=Logger("INFO"))
    packing = threading.Thread(target=packer.pack, daemon=True)
    packing.start()

    note = configs / "error.txt"
    deadline = time.monotonic() + 60
    while not (
        note.exists() and note.read_text().startswith("Error parsing orchestrator config:\n")
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert packer.run_step is None

    (configs / "orch.toml").write_text("max_steps = 1\n")
    packing.join(60)
    assert not packing.is_alive()
    assert not note.exists()
    assert packer.run_step == 1
