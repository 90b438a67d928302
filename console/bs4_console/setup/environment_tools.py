"""The commands of other people's tools that handle an environment: prime and verifiers' own.

Nothing is done here that the tools do. A command is an argv and the directory in which it runs.
No secret is part of it: the tools read their keys from the environment or from their own login.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_console.errors import NotApplicableError, RefusedError, UsageError
from bs4_console.models import Model

#: How to get a tool, by its name. verifiers 0.4.0 has neither vf-setup nor vf-tui.
_GET: Mapping[str, str] = {
    "prime": "Install it: `uv tool install prime`.",
    "vf-setup": "verifiers 0.4 has none; `vf-init NAME` makes an environment.",
    "vf-tui": "verifiers 0.4 has none; `bs4-console runs evals PATH` reads what vf-eval left.",
    "synthesize": "Only prime-rl of January 2026 has it. With the current one `bs4-console launch "
    "CONFIG --component eval` or `vf-eval` leaves traces, which are data of the same kind.",
    "docker": "Install Docker there, or leave --image out to look into the project itself.",
    "python3": "Install Python there, or name the project with --project.",
}
_GET_VERIFIERS = "Install verifiers in the project: `uv add verifiers`."

#: Runs on the pod: change the directory, then run the tool if it is there. `uv` is often in
#: ~/.local/bin, which a command over SSH does not search.
_ON_POD = (
    'PATH="$HOME/.local/bin:$PATH"; cd -- "$1" || exit 126; tool="$2"; shift 2; '
    '[ -x ".venv/bin/$tool" ] || command -v "$tool" >/dev/null || exit 127; exec "$@"'
)
#: The exit status of `_ON_POD` if the directory, or the tool, is not on the pod.
NO_DIRECTORY, NO_TOOL = 126, 127


@dataclass(frozen=True)
class Command:
    """A command of a tool that handles training environments: its `argv`, the `directory` in which
    it runs, and the name of the `tool`. That name is not the first word of `argv` if `uv run`
    starts the tool.
    """

    tool: str
    argv: tuple[str, ...]
    directory: str

    def on_pod(self) -> tuple[str, ...]:
        """Return the argv that runs this command on a pod. A relative directory begins at the pod's
        home directory.
        """
        return ("sh", "-c", _ON_POD, "sh", self.directory, self.tool, *self.argv)


def here(words: Sequence[str], project: Path, *, only_shown: bool = False) -> Command:
    """Return the command `words`, to be run in the directory `project` of this machine. If the
    directory has a pyproject.toml, `uv run` is put before the words, except before `docker`.
    Raises NotApplicableError if the tool (the first word), or uv, is not installed, unless the
    command is `only_shown` and not run.
    """
    tool = words[0]
    is_project = tool != "docker" and (project / "pyproject.toml").is_file()
    places = os.environ.get("PATH", os.defpath)
    if is_project:
        places = f"{project.resolve() / '.venv' / 'bin'}{os.pathsep}{places}"
    if not only_shown and shutil.which(tool, path=places) is None:
        raise absent(tool, "this machine")
    if not is_project:
        return Command(tool, tuple(words), str(project))
    if not only_shown and shutil.which("uv") is None:
        raise NotApplicableError(
            f"{project} is a project of uv, and uv is not installed on this machine.",
            "Install uv, or name a directory without a pyproject.toml with --project.",
        )
    return Command(tool, ("uv", "run", *words), str(project))


def there(words: Sequence[str], directory: str) -> Command:
    """Return the command `words` in the form in which it runs on a pod: by `uv run` in `directory`,
    a prime-rl checkout there. uv is told to change no package there, because a run may be using
    them. `docker` is run without uv.
    """
    if words[0] == "docker":
        return Command(words[0], tuple(words), directory)
    return Command(words[0], ("uv", "run", "--no-sync", *words), directory)


def importing(packages: Sequence[str], image: str | None) -> list[str]:
    """Return the words of a command that imports these Python packages, one after the other, and
    fails with Python's own message if one cannot be imported. With `image`, it runs in a new
    container of that image without a network; with None, in the project's environment.
    """
    words = ["python3", "-c", f"import {', '.join(packages)}"]
    if image is None:
        return words
    return ["docker", "run", "--rm", "--network", "none", "--entrypoint", "", image, *words]


def absent(tool: str, place: str) -> NotApplicableError:
    """Return the error for a tool that is not installed at `place`, such as "this machine". It is
    returned and not raised.
    """
    return NotApplicableError(
        f"{tool} is not installed on {place}.", _GET.get(tool, _GET_VERIFIERS)
    )


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """An evaluation on this machine, of the model `model` that answers at the OpenAI-compatible
    `endpoint`, in the training environment `environment`. `key_variable` names the environment
    variable with the endpoint's key. At most `examples` examples are taken, and each is tried
    `rollouts` times. `turns` is the largest number of questions to the model in one rollout,
    `tokens_in` the average number of tokens of one question, and `max_tokens` the largest number of
    tokens of one answer. `price` is a pair: US dollars for a million tokens of input, and of
    output. `output` is the directory for the results.
    """

    environment: str
    model: str
    endpoint: str
    key_variable: str
    examples: int
    rollouts: int
    turns: int
    tokens_in: int
    max_tokens: int
    price: tuple[float, float]
    output: str

    def words(self) -> list[str]:
        """Return the command line of verifiers 0.4 that makes this evaluation, as a list of words.
        Its results stay on this machine (--no-push).
        """
        return [
            "vf-eval",
            self.environment,
            "--model",
            self.model,
            "--client.base-url",
            self.endpoint,
            "--client.api-key-var",
            self.key_variable,
            "--select.limit",
            str(self.examples),
            "--num-rollouts",
            str(self.rollouts),
            "--sampling.max-tokens",
            str(self.max_tokens),
            "--output-dir",
            self.output,
            "--no-push",
        ]

    def most(self) -> float:
        """Return the most that the evaluation can cost, in US dollars. That is what it costs if
        every rollout takes all its turns.
        """
        asked = self.examples * self.rollouts * self.turns
        paid_in, paid_out = self.price
        return asked * (self.tokens_in * paid_in + self.max_tokens * paid_out) / 1e6

    def check(self, budget: float) -> None:
        """Raise RefusedError if the evaluation can cost more than `budget` US dollars in the worst
        case, and UsageError if a price is below 0 or is not a number. Return None if neither is so.
        The worst case is compared because the tool that makes the evaluation knows no budget.
        """
        if not all(0 <= price < math.inf for price in self.price):
            raise UsageError("A price is no number of US dollars.", "Give both from 0 on.")
        if not self.most() <= budget:  # also where the budget is NaN
            raise RefusedError(
                f"Nothing was evaluated: it may cost ${self.most():.2f}, and the budget is "
                f"${budget:.2f}.",
                "Take fewer examples, rollouts or tokens, or a larger --budget.",
            )


def price_of(model: Model | None, given: Sequence[float] | None) -> tuple[float, float]:
    """Return (price of input, price of output) in US dollars for a million tokens. The prices are
    `given` if that is not None, else those that the console's registry of models has for `model`.
    Raises UsageError if one of them is not known, because no budget can be checked then.
    """
    if given is not None:
        return (given[0], given[1])
    if model is None or model.price is None or model.price.output is None:
        raise UsageError(
            "The price of this model's input and output is not known.",
            "Give it: --price IN OUT, in US dollars for a million tokens.",
        )
    return (model.price.input, model.price.output)
