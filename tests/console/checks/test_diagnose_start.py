"""The start of `diagnose`, which takes longer than reading a log of some megabytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

#: Modules that only another use needs: validating playbooks, and crash reports of a pod.
OTHERS = {"jsonschema", "asyncio", "bs4_console.pods.session"}
PROGRAM = """
import json, sys
from pathlib import Path
from bs4_console.checks.diagnose import diagnose

log = Path(sys.argv[1])
diagnose([log], "trainer")
print(json.dumps(sorted(sys.modules)))
"""


def test_a_log_is_diagnosed_without_what_only_lint_and_reports_need(tmp_path):
    log = tmp_path / "trainer.log"
    log.write_text("12:00:00    INFO Starting training loop (max_steps=5)\n")
    # The first run may have to compile the playbooks, for which they are validated.
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(log)],
            capture_output=True,
            check=True,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        )
    assert OTHERS.isdisjoint(json.loads(done.stdout))
