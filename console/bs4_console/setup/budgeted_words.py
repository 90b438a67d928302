"""Which words may follow the options of an evaluation that has a budget.

vf-eval takes the last of two equal options, knows some by several names and reads whole config
files (`@ FILE`), so only words that are known to leave the cost alone are passed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bs4_console.errors import RefusedError

#: Options of vf-eval (verifiers 0.4) that take no value and leave the cost alone.
_BARE = frozenset(
    {
        "-s",
        "--select.shuffle",
        "-v",
        "--verbose",
        "--rich",
        "--no-rich",
        "--rich.show-logs",
        "--resume",
        "--clean",
    }
)
#: Those that take one value. They say which examples are taken (`--select.limit` still says how
#: many), how an answer is drawn, and by which program and where the model's code runs.
_VALUED = frozenset(
    {
        "-c",
        "--max-concurrent",
        "--select.seed",
        "--select.skip",
        "--select.include.idx",
        "--select.exclude.idx",
        "--run.name",
        "--run.dir",
        "--sampling.temperature",
        "--sampling.top-p",
        "--sampling.reasoning-effort",
        "--env.agent.harness.id",
        "--env.agent.runtime.type",
    }
)
#: The option of `envs evaluate` that says what an option of vf-eval says.
_OWN: Mapping[str, str] = {
    "-m": "--model",
    "--model": "--model",
    "-n": "--examples",
    "--select.limit": "--examples",
    "-r": "--rollouts",
    "--num-rollouts": "--rollouts",
    "--group-size": "--rollouts",
    "--rollouts-per-example": "--rollouts",
    "--sampling.max-tokens": "--max-tokens",
    "--sampling.max-completion-tokens": "--max-tokens",
    "--client.base-url": "--endpoint",
    "--client.api-key-var": "--key-variable",
    "-o": "--output",
    "--output-dir": "--output",
}


def check(words: Sequence[str]) -> None:
    """Raise RefusedError if one of `words`, which are to follow vf-eval's other options, is not
    known to leave alone what an evaluation costs: its model, endpoint, config, and the numbers of
    its examples, rollouts and tokens. Return None if all are.
    """
    for name in _unknown(words):
        own = _OWN.get(name)
        if own is not None:
            raise RefusedError(
                f"Nothing was evaluated: {name} would go past the budget.",
                f"Give it to `envs evaluate` itself, before any `--`: {own}.",
            )
        raise RefusedError(
            f"Nothing was evaluated: {name} is not known to leave alone what it costs.",
            "Leave it out, or evaluate without a budget: `bs4-console envs vf eval ENV -- ...`.",
        )


def _unknown(words: Sequence[str]) -> Iterator[str]:
    """Yield the options, without their values, that may not be passed on. A value that has the form
    of an option or of a file is one of them: vf-eval would read it as such.
    """
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _BARE and not equals:
            continue
        if name not in _VALUED:
            yield name
        elif not equals:
            value = next(rest, "")
        if value.startswith(("-", "@", "{", "[")):
            yield f"{name} {value.partition('=')[0]}"
