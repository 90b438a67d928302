"""Words that people type after `:` for what is a command of the shell and of no screen."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

#: The word -> the words of the command line behind `bs4-console`. {pod} and {run} stand for those
#: that the screen is about; words in capital letters are for the person to fill in.
WORDS: Mapping[str, str] = {
    "bench": "runs bench BASELINE STEP=FILE",
    "budget": "runs cost --by provider",
    "checklist": "runs checklist {run} --pod {pod}",
    "cost": "runs cost {run}",
    "diagnose": "diagnose PATH",
    "docs": "docs TOPIC",
    "eta": "runs eta {run}",
    "evals": "runs evals PATH",
    "evaluate": "runs milestones {run} --pod {pod}",
    "export": "runs export FILE",
    "milestones": "runs milestones {run} --pod {pod}",
    "phases": "phases status FILE --pod {pod}",
    "preflight": "preflight --pod {pod} --config CONFIG --run {run}",
    "prune": "checkpoints prune --from b2://BUCKET/PREFIX --run {run} --keep 3",
    "report": "runs report {run} --output {run}.html",
    "rollback": "runs rollback {run} --output FILE",
    "setup": "pods setup {pod}",
    "spend": "runs cost {run}",
    "status": "runs status {run}",
    "tag": "runs tag {run} TAG",
}


def command_line(word: str, pod: str, run: str) -> str:
    """Return the command line to type in a shell for `word`, which a person has entered on the
    screen but which only a command can do: for "report" for example "bs4-console runs report demo
    --output demo.html". Return "" if there is no such command. `pod` and `run` are
    the names of what the screen is about; "" leaves POD and RUN for the person to fill in.
    """
    if word not in WORDS:
        return ""
    names = {"pod": pod or "POD", "run": run or "RUN"}
    filled = []
    for part in WORDS[word].split():
        filled.append(part.format(**names))
    return shlex.join(["bs4-console", *filled])
