"""Write docs/configs.md from the rules themselves: `python -m bs4_console.cli.config_rules FILE`. A
test checks that the page is up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bs4_console.cli.output import cell
from bs4_console.configs.catalog import rules

_HEAD = """# Training configs

Written from configs/rules.toml by `python -m bs4_console.cli.config_rules docs/configs.md`; do not
edit.

`bs4-console config lint FILE --trainer prime-rl-2026-01|prime-rl|verl` says what is wrong with a
config before a pod is paid for: by rule, with the line and what to do. It ends with 1 when there is
an error, 0 otherwise (warnings included), 2 when the file cannot be read or the command is wrong.
For verl the file may also be the script that starts it. `config fix` makes the fixes that are
certain, with the comments and the line ends of the file; `config diff` compares by meaning;
`config migrate` translates between the generations of prime-rl: every value of the file is in the
result or named with its line and the reason. Where the result would mean something else (a value
that is no such kind, several servers where one can stand, a run that would not resume) it writes
nothing and ends with 1. Comments below the first setting are not taken over. `config new` and
`config estimate` know what fits; `config history` keeps versions, their parents and reasons in a
registry of its own, because the trainers refuse keys that they do not know.

`config estimate --trainer verl` takes what lint takes and prints three sums, each with its
arithmetic: the engine in its share, the GPU during rollouts (share, weights, optimizer, reference
model) and during the update (weights, gradients, optimizer, activations, logits). Of verl itself it
is measured only that 1.5B trained on one 80 GB GPU with a rollout share of 0.65 and did not start
with 0.88; activations are scaled from what prime-rl took. The update is counted at worst, with
samples of full length. Not estimated are an SFT, Megatron and the critic of PPO.

What the trainer's own schema says (configs/schemas) is reported under the rule that explains it,
and as `schema` where none does. Values are converted as the trainers convert them before they are
judged. The options of a command given with `--launch`, and the files that it names for one part
(`--trainer @ FILE`), are laid over the config and judged by the same schema.

Whose config a file is, is told from its keys and, where several parts of a training fit, from its
name; `--component NAME` says it (rl, trainer, orchestrator, inference, sft or eval). A component's
own config is judged by the schema of its class and by the rules that look at one side only; `config
fix` and `config migrate` do the same. `--pod NAME` asks the classes of the trainer that is
installed on the pod as well, in its own interpreter and a directory of its own; nothing is started
and nothing is written there. What only the shipped schema refuses and those classes take is then no
error, and what they refuse is one, on its line. Where they cannot be imported the output says so,
and the shipped schema counts. `preflight` and `launch` ask them too.

## Rules

| id | trainer | level | rule | otherwise | fix | needs |
|---|---|---|---|---|---|---|
"""


def markdown() -> str:
    """Return the text, in Markdown, of docs/configs.md, which is the page with a table of all rules
    of `config lint`. The page itself is not written.
    """
    page = _HEAD
    for r in rules().values():
        needs = f"`{r.needs}`" if r.needs else "the file"
        cells = map(cell, (r.id, r.applies, r.level, r.title, r.fails, r.fix, needs))
        page += f"| {' | '.join(cells)} |\n"
    return page


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
