"""`python -m torch.distributed.run --standalone ... -m MODULE words`: ranks in sessions of their
own that print where it prints.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from ..torchrun import Agent, environment_of


def main(arguments: Sequence[str]) -> int:
    """Start the ranks of a training as torchrun does, and wait for their end. `arguments` are the
    words of torchrun's command line. Returns 0 if every rank ended with 0. Otherwise writes torch's
    report to standard error and returns 1.
    """
    at = list(arguments).index("-m")
    options = dict(
        word.removeprefix("--").replace("-", "_").partition("=")[::2] for word in arguments[:at]
    )
    module, words = arguments[at + 1], arguments[at + 2 :]
    world = int(options["nproc_per_node"])
    return Agent([_Rank(rank, world, module, words) for rank in range(world)], module).wait()


class _Rank:
    def __init__(self, number: int, world: int, module: str, words: Sequence[str]) -> None:
        self.number = number
        command = [sys.executable, "-u", "-m", module, *words]
        self.process = subprocess.Popen(
            command, env=environment_of(number, world), start_new_session=True
        )
