"""The command `models`: what is known about models before one is trained: baselines, prices, tool
calls, problems.
"""

from __future__ import annotations

import argparse
import os

from bs4_console import models
from bs4_console.cli.output import emit, finding_code, table
from bs4_console.errors import UNREACHABLE, UsageError
from bs4_console.trainers.registry import TRAINERS

#: Characters of a remark in the list. `models show` has the whole of it.
REMARK = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `models` and its subcommands to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="all models of the registry")
    listing.add_argument(
        "--trainable",
        action="store_true",
        help="only text models with weights that --trainer is not known to fail on",
    )
    _trainer(listing)
    show = verbs.add_parser("show", help="all that is known of one model, with dates and sources")
    show.add_argument("model", metavar="MODEL", help="its id, as on the hub or at the provider")
    verify = verbs.add_parser(
        "verify",
        help="whether --trainer can train a model, by the registry and, if asked, the hub",
    )
    verify.add_argument("model", metavar="MODEL", help="its id, as on the hub or at the provider")
    verify.add_argument(
        "--hub",
        action="store_true",
        help="ask the hub too: exists, gated, text-only (a token is taken from HF_TOKEN)",
    )
    verify.add_argument(
        "--hub-url",
        default=models.HUB,
        metavar="URL",
        help="the hub's address, for a mirror (default: %(default)s)",
    )
    _trainer(verify)
    for verb in (listing, show, verify):
        verb.add_argument("--json", action="store_true", help="one JSON object instead of text")


def _trainer(parser: argparse.ArgumentParser) -> None:
    """Add the option --trainer."""
    parser.add_argument(
        "--trainer",
        choices=tuple(TRAINERS),
        default="prime-rl",
        help="the trainer it is for (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the subcommand of `models` that `options.verb` names (list, show or verify), and return
    its exit code. `verify` says whether a model can be trained. It returns 1 if the model is known
    not to work with this trainer, and 3 if nothing is known of it. Raises UsageError if `show` is
    given a model that the registry lacks.
    """
    return {"list": _list, "show": _show, "verify": _verify}[options.verb](options)


def _list(options: argparse.Namespace) -> int:
    """Print the models of the registry, and return 0."""
    known = list(models.registry().values())
    if options.trainable:
        known = [m for m in known if m.kind == "text" and not m.blocked_for(options.trainer)]
    if options.json:
        emit("models", models=known)
        return 0
    table(
        [_row(m) for m in known],
        ["model", "params", "$/M in", "out", "baseline", "tools", "kind", "remark"],
    )
    print(
        "baseline: share of an evaluation solved before training; `models show NAME` says of which."
    )
    return 0


def _row(m: models.Model) -> list[str]:
    """Return a model's row of the table."""
    size = "?"
    if m.params_b is not None:
        size = f"{m.params_b:g}B" + (f" ({m.active_b:g}B)" if m.active_b else "")
    best = max(m.baselines, key=lambda b: b.n or 0, default=None)
    solved = "-"
    if best is not None:
        solved = f"{best.solved:.1%}" + (f" n={best.n}" if best.n else "")
    paid = output = "-"
    if m.price is not None:
        paid = f"{m.price.input:g}"
        output = "-" if m.price.output is None else f"{m.price.output:g}"
    remark = "see show" if m.problems else ""
    if m.blocked:
        remark = f"blocked ({m.blocked['applies']}): {m.blocked['reason']}"[:REMARK]
    return [m.name, size, paid, output, solved, m.tool_calls, m.kind, remark]


def _show(options: argparse.Namespace) -> int:
    """Print one model, and return 0. Raises UsageError if the registry does not have it."""
    model = models.get(options.model)
    if model is None:
        raise UsageError(
            f"{options.model} is not in the registry.",
            models.to_do_about(options.model),
        )
    if options.json:
        emit("model", model=model)
        return 0
    size = "unknown"
    if model.params_b is not None:
        size = f"{model.params_b:g} billion parameters"
    print(
        f"{model.name}: {model.kind}, {size}"
        + (f", {model.active_b:g} active" if model.active_b else "")
    )
    print(f"  hub id          {model.hub if model.kind != 'closed' else 'none'}")
    print(f"  tool calls      {model.tool_calls}")
    print(f"  implementation  {model.impl or 'unknown'}")
    if model.price:
        out = ""
        if model.price.output is not None:
            out = f", {model.price.output:g} out"
        print(
            f"  price           ${model.price.input:g} in{out} for 10^6 tokens "
            f"({_origin(model.price.source)})"
        )
    for b in model.baselines:
        print(f"  baseline        {b.solved:.1%} ({_origin(b.source)})")
    if model.max_tokens:
        more = " or more" if len(model.max_tokens) == 1 else ""
        print(f"  max_tokens      {' to '.join(map(str, model.max_tokens))}{more}")
    if model.trained:
        print(f"  trained         {model.trained}")
    for problem in model.problems:
        print(f"  problem         {problem}")
    if model.blocked:
        print(f"  blocked         {model.blocked['applies']}: {model.blocked['reason']}")
    return 0


def _origin(source: models.Source) -> str:
    """Return a source with its date."""
    return f"{source.text}, {source.date.isoformat()}"


def _verify(options: argparse.Namespace) -> int:
    """Print the remarks on a model. Return 1 if one of them is an error, 3 if neither the registry
    nor the hub knows the model, or the hub was asked and did not answer, and else 0.
    """
    remarks = models.verify(options.model, options.trainer)
    if options.hub:
        # The token comes from the variable that the hub's own tools use. An argument would be
        # visible in the process list.
        remarks += models.ask_hub(
            options.model, base=options.hub_url, token=os.environ.get("HF_TOKEN", "")
        )
    worst = any(remark.level == "error" for remark in remarks)
    unanswered = any(remark.check == "hub" for remark in remarks)
    unknown = unanswered or (models.get(options.model) is None and not options.hub)
    if options.json:
        emit(
            "model-verify",
            model=options.model,
            trainer=options.trainer,
            ok=None if unknown and not worst else not worst,
            remarks=remarks,
        )
    else:
        for remark in remarks:
            print(f"{remark.level:8}{remark.check:14}{remark.message} {remark.fix}".rstrip())
    if unknown and not worst:
        return UNREACHABLE
    return finding_code(worst)
