"""The command `stop`: end a run with all processes that descend from it, and prove that the GPUs
are free.
"""

from __future__ import annotations

import argparse

from bs4_console.cli.actions import act, exit_code
from bs4_console.cli.output import clock
from bs4_console.cli.sessions import ask, is_terminal, linked, to_act_on
from bs4_console.errors import RefusedError, UsageError
from bs4_console.launch import stopping


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `stop` to its parser."""
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument("--run", dest="name", required=True, metavar="NAME", help="which run")
    parser.add_argument(
        "--confirm", metavar="NAME", help="the run's name again; asked for on a terminal"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


async def run(options: argparse.Namespace) -> int:
    """Print which actions a stop of the run would end early and which processes it would end, have
    this confirmed by the run's name, and stop the run. Return 0 if the run has ended, 1 if the stop
    failed, 4 if the pod refused it. Raises UsageError if the pod has no such run, and RefusedError
    if nobody confirmed. Raises a LinkError if the pod cannot be reached.
    """
    async with linked(to_act_on(options)) as live:
        state = live.state.runs.get(options.name)
        if state is None:
            raise UsageError(
                f"There is no run named {options.name} on {options.pod}.",
                f"`bs4-console runs list --pod {options.pod}` shows all.",
            )
        subject = stopping.subject(live, state)
        if not options.json:
            for action in stopping.ended_first(live.state, options.name):
                print(
                    f"  would end the {action.what} by {action.who} early; it began at "
                    f"{clock(action.accepted_t)}"
                )
            for component in stopping.processes(state):
                part = component["component"] or "(a process of the run)"
                print(f"  would end pid {component['pid']} {part}")
            for step in stopping.steps(state):
                print(f"  $ {step.command}   (at most {step.seconds:.0f} s, for those that live)")
        confirmed = options.confirm
        if confirmed is None and is_terminal() and not options.json:
            confirmed = ask(f"Type {options.name} to stop it: ")
        if confirmed != options.name:
            raise RefusedError(
                f"{options.name} was not stopped, because its name was not given.",
                f"Confirm with --confirm {options.name}.",
            )
        action = await act(live, "stop", as_json=options.json, **subject)
    return exit_code(action)
