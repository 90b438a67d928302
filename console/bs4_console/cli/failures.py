"""Make docs/failures.md from the playbooks. `make format` writes it, `make check` compares it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from bs4_console.failures.playbook_file import DetectFile, PlaybookFile, SignatureFile
from bs4_console.failures.playbooks import lint
from bs4_console.failures.step_words import sentence

FAMILIES = {
    "inference": "Inference",
    "trainer": "Trainer",
    "orchestrator": "Orchestrator",
    "weight-sync": "Weight sync",
    "environment": "Environments",
    "checkpoint": "Checkpoints and resuming",
    "disk": "Disks",
    "gpu": "GPUs",
    "host": "The host",
    "network": "Collectives and network",
    "ssh": "SSH",
    "wandb": "Weights & Biases",
    "hub": "Hugging Face hub",
    "object-store": "Object store",
    "provider": "Provider",
    "config": "Configuration",
    "performance": "Performance",
    "training-health": "Training health",
    "verl": "verl",
    "recovery": "Recovery",
}

_HEAD = """# Known failures

Written from the playbooks by `make format`; do not edit.

One section a failure, by family. *Root* is a cause; *cascade* and *symptom* follow from one and are
not shown beside it; a *warning* says what will fail if nothing changes. What a log must say counts
only in the log that is named, at the level that is named: the same words in a completion, an advice
line or another program's log are nothing.
"""

_LEVELS = {"": "lines without a header of their own"}


def markdown(directory: Path | None = None) -> str:
    """Return the text, in Markdown, of docs/failures.md, which is the page of all known failures,
    made from the playbooks in `directory` (None: the shipped ones). The page itself is not written.
    """
    playbooks, _ = lint(directory)
    lines = [_HEAD]
    counts = Counter(p["family"] for p in playbooks)
    families = sorted(counts, key=_rank)
    lines += ["| family | failures |", "|---|---|"]
    for family in families:
        title = _family(family)
        lines.append(f"| [{title}](#{_anchor(title)}) | {counts[family]} |")
    lines.append("")
    for family in families:
        lines += [f"## {_family(family)}", ""]
        for playbook in playbooks:
            if playbook["family"] == family:
                lines += [*_section(playbook), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _rank(family: str) -> tuple[int, str]:
    """Return the sort key of a family: known families in their order, then the others by name."""
    known = list(FAMILIES)
    return (known.index(family) if family in known else len(known), family)


def _family(family: str) -> str:
    """Return the title of a family."""
    return FAMILIES.get(family, family.replace("-", " ").capitalize())


def _anchor(title: str) -> str:
    """Return the anchor that a Markdown heading gets."""
    return "".join(
        char for char in title.lower().replace(" ", "-") if char.isalnum() or char == "-"
    )


def _section(playbook: PlaybookFile) -> Iterator[str]:
    """Yield the lines of one failure's section."""
    kinds = ", ".join((playbook["role"], playbook["severity"], *playbook["applies"]))
    yield from (f"### {playbook['id']}", "", f"**{playbook['title']}** ({kinds})", "")
    yield from (f"*Looks like.* {_text(playbook['looks_like'])}", "")
    yield from (f"*Why.* {_text(playbook['explanation'])}", "")
    if playbook.get("detect"):
        yield from _list("Seen by.", _detection(playbook["detect"]))
    if playbook.get("explains"):
        names = ", ".join(f"`{name}`" for name in playbook["explains"])
        yield from (f"*Follows from it and is not shown beside it.* {names}", "")
    if playbook.get("fix"):
        yield from ("*Fix.*", "")
        for number, step in enumerate(playbook["fix"], 1):
            yield f"{number}. {_text(sentence(step))}"
        yield ""
    if playbook.get("advice"):
        title = "Before that." if playbook.get("fix") else "What to do."
        yield from _list(title, map(_text, playbook["advice"]))
    if playbook.get("leads_to"):
        yield from (f"*What helps.* [{playbook['leads_to']}](#{playbook['leads_to']})", "")
    yield from (f"*Prevention.* {_text(playbook['prevent'])}", "")
    yield f"*Sources.* {_text('; '.join(playbook['sources']))}"


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a title and the list below it."""
    yield from (f"*{title}*", "")
    for item in items:
        yield f"- {item}"
    yield ""


def _detection(detect: DetectFile) -> Iterator[str]:
    """Yield a sentence for each way in which a failure is detected."""
    hold = ""
    if detect.get("for") not in (None, "0s"):
        hold = f", once it has held for {detect['for']}"
    if "detector" in detect:
        values = ", ".join(f"{key} {value}" for key, value in detect.get("with", {}).items())
        yield f"the detector `{detect['detector']}`{f' ({values})' if values else ''}{hold}"
    for signature in detect.get("logs", ()):
        yield _signature(signature) + hold


def _signature(signature: SignatureFile) -> str:
    """Return one log signature in words. The patterns stay as they are, because a person searches
    for them.
    """
    sources = signature["source"]
    if not isinstance(sources, str):
        sources = " or ".join(sources)
    words = [f"a line of the {sources} log"]
    if "levels" in signature:
        words.append(f"at {', '.join(_LEVELS.get(level, level) for level in signature['levels'])}")
    if "logger" in signature:
        words.append(f"by {_code(signature['logger'])}")
    words.append(f"that matches {_code(signature['pattern'])}")
    if "where" in signature:
        conditions = (f"{name} {condition}" for name, condition in signature["where"].items())
        words.append(f"with {' and '.join(conditions)}")
    if "unless" in signature:
        words.append(f"but not {_code(signature['unless'])}")
    return " ".join(words) + "".join(_conditions(signature))


def _conditions(signature: SignatureFile) -> Iterator[str]:
    """Yield the further conditions of a log signature, each as a part of its sentence."""
    if "near" in signature:
        near = signature["near"]
        counts = (("before", near.get("before")), ("after", near.get("after")))
        side = " or ".join(f"{count} lines {key}" for key, count in counts if count)
        found = "no" if near.get("absent") else "a"
        yield f"; {found} line within {side} matches {_code(near['pattern'])}"
    if "only_after" in signature:
        yield f"; only after {_code(signature['only_after'])}"
    if "not_after" in signature:
        yield f"; not after {_code(signature['not_after'])}"
    if signature.get("count", 1) > 1:
        within = f" within {signature['within']}" if "within" in signature else ""
        yield f"; {signature['count']} times{within}"
    if signature.get("last"):
        yield "; as the last line"
    if "cleared_by" in signature:
        yield f"; over when {_code(signature['cleared_by'])} comes"


def _code(pattern: str) -> str:
    """Return a pattern as inline code that survives backquotes in it."""
    if "`" in pattern:
        return f"`` {pattern} ``"
    return f"`{pattern}`"


def _text(text: str) -> str:
    """Return a text as one paragraph, with angle brackets and asterisks escaped."""
    return " ".join(text.split()).replace("<", "&lt;").replace("*", "\\*")
