"""Files of known failures: the lint of one playbook. It is valid, or its problems are named."""

from __future__ import annotations

from pathlib import Path

from bs4_console.errors import UsageError
from bs4_console.failures.playbooks import lint
from tests.fuzz.scratch import scratch

_SHIPPED = Path(__file__).resolve().parents[3] / "playbooks"
_CHOSEN = (
    "wandb/wandb-name-collision",
    "verl/verl-overshoot",
    "trainer/cuda-oom",
    "checkpoint/step-desync",
)

SEEDS = [
    path.read_bytes() for path in (_SHIPPED / f"{name}.yaml" for name in _CHOSEN) if path.is_file()
]


def feed(data: bytes) -> None:
    """Lint a directory with this one file, under the name that it gives itself if it has one."""
    name = "wandb-name-collision"
    for line in data.split(b"\n"):
        given = line.removeprefix(b"id:").strip()
        if line.startswith(b"id:") and given.isalnum():
            name = given.decode("ascii", "replace")[:60]
    with scratch() as directory:
        family = directory / "wandb"
        family.mkdir()
        (family / f"{name}.yaml").write_bytes(data)
        try:
            good, problems = lint(directory, need_cases=True)
        except UsageError:
            return
        assert good or problems, "a file is neither valid nor wrong"
        for problem in problems:
            assert str(problem)
