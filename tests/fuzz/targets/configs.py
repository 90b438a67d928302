"""Training configs: the lint of TOML and YAML files for all three trainers. A file has findings, or
is refused with a UsageError.
"""

from __future__ import annotations

from pathlib import Path

from bs4_console.configs.lint import TRAINERS, lint
from bs4_console.errors import UsageError
from tests.fuzz.scratch import scratch

_SHIPPED = Path(__file__).resolve().parents[3] / "configs"

SEEDS = [
    *(path.read_bytes() for path in sorted(_SHIPPED.glob("prime-rl*/reverse-text.toml"))),
    *(path.read_bytes() for path in sorted(_SHIPPED.glob("verl/*.toml"))[:2]),
    b"data:\n  train_batch_size: 8\ntrainer:\n  n_gpus_per_node: 1\n  nnodes: 1\n",
    b"set -x\npython3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\\n"
    b'  data.train_batch_size=8 "+trainer.logger=[console]" trainer.nnodes=$N\n',
]
#: The names by which verl's three kinds of files are told apart.
_VERL = ("config.yaml", "config.toml", "run.sh")


def feed(data: bytes) -> None:
    """Lint the file for each trainer, and under each of the names that verl's may have."""
    with scratch() as directory:
        for trainer in TRAINERS:
            names = _VERL if trainer == "verl" else ("config.toml",)
            for name in names:
                _lint(directory / name, trainer, data)


def _lint(file: Path, trainer: str, data: bytes) -> None:
    file.write_bytes(data)
    try:
        found = lint(file, trainer)
    except UsageError:
        return
    lines = data.count(b"\n") + data.count(b"\r") + 2
    for finding in found:
        assert finding.level in ("error", "warning"), finding
        assert 0 <= finding.line <= lines, finding
