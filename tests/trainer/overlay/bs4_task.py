"""A task, and the program that works on it: one question, one answer, and a reward that is any
number between 0 and 1. The directory that BS4_FAULTS names holds what is to go wrong.
"""

import hashlib
import os
import sys
from pathlib import Path

import verifiers.v1 as vf
from verifiers.v1.configs.harness import HarnessConfig
from verifiers.v1.harness import Harness

__all__ = ["OneQuestion", "Reversal"]

_PROGRAM = """
import json, sys, urllib.request
given = dict(word[2:].split("=", 1) for word in sys.argv[1:])
body = {"model": given["model"], "messages": [{"role": "user", "content": given["prompt"]}]}
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + given["api-key"]}
url = given["base-url"].rstrip("/") + "/chat/completions"
asked = urllib.request.Request(url, json.dumps(body).encode(), headers)
urllib.request.urlopen(asked, timeout=600).read()
"""


def faulty(name):
    return (Path(os.environ["BS4_FAULTS"]) / name).exists()


def shares(text):
    """Where the user's own code fails."""
    return [len(text)][1 if faulty("reward") else 0]


class Reversing(vf.Task[vf.TaskData, vf.State]):
    @vf.reward
    async def closeness(self, trace: vf.Trace) -> float:
        said = str(trace.num_turns) + trace.id
        shares(said)
        return hashlib.sha256(said.encode()).digest()[0] / 255


class Reversal(vf.Taskset[Reversing, vf.TasksetConfig]):
    def load(self):
        for number in range(64):
            yield Reversing(
                vf.TaskData(idx=number, prompt=f"Reverse {number:04d}"), self.config.task
            )


class OneQuestionConfig(HarnessConfig):
    pass


class OneQuestion(Harness[OneQuestionConfig]):
    """As the smallest real one: one process a rollout, and the key of its own proxy in its argv."""

    NEEDS_CONTAINER = False
    EXECUTES_CODE = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        _, prompt = self.resolve_text_prompt(data)
        given = {"base-url": endpoint, "api-key": secret, "model": ctx.model, "prompt": prompt}
        words = [f"--{name}={value}" for name, value in given.items()]
        return await runtime.run_program(
            [sys.executable, "-S", "-c", _PROGRAM, *words], {**self.config.resolved_env}
        )
