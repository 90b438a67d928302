"""The command `pods boot-hook`: print or install the hook that starts the agent again after a pod's
reboot.
"""

from __future__ import annotations

import argparse

from bs4_console.cli.actions import watch
from bs4_console.cli.output import emit, finding_code
from bs4_console.cli.sessions import linked, run_of, to_act_on, transport
from bs4_console.errors import RefusedError, UsageError
from bs4_console.pods import boot_hook
from bs4_console.pods.inventory import Inventory
from bs4_console.pods.session import PodSession


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pods boot-hook` to its parser."""
    parser.add_argument("name", help="which pod of the inventory")
    parser.add_argument(
        "--run",
        dest="of_run",
        metavar="NAME",
        help="say too what would become of this run after a restart",
    )
    parser.add_argument(
        "--mode",
        choices=("observe", "ask", "auto"),
        help="with --run: what the agent does then; kept on the pod",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--print",
        dest="platform",
        choices=boot_hook.PLATFORMS,
        help="what that platform needs, and where it goes",
    )
    what.add_argument("--install", choices=boot_hook.INSTALLABLE, help="put it there")
    what.add_argument(
        "--remove", action="store_true", help="take what --install has put there away again"
    )


async def run(options: argparse.Namespace) -> int:
    """Show, print, install or remove the hook that starts the agent after a reboot of the pod, as
    the options say. With --mode, also order what the agent does then with the run of --run: only
    show it, ask a person, or continue it.

    Return the exit code: 1 if the pod has no hook in the end, else 0. With --print, --remove or
    --mode it is always 0. Raises UsageError for --mode without --run, and RefusedError if the pod
    may not be changed or refuses the mode. Raises a LinkError if the pod cannot be reached.
    """
    if options.mode and not options.of_run:
        raise UsageError("--mode is of one run.", "Say which with --run.")
    changes = options.install or options.remove
    options.pod = options.name
    pod = to_act_on(options) if changes or options.mode else Inventory().get(options.name)
    link = transport(pod)
    try:
        seen = await boot_hook.probe(link, pod.name)
        if options.platform:
            return _print(options, seen)
        if options.install:
            await boot_hook.install(link, options.install, seen)
        elif options.remove:
            await boot_hook.remove(link, seen)
        if changes:
            seen = await boot_hook.probe(link, pod.name)
    finally:
        await link.close()
    lines = boot_hook.verdict(seen)
    if options.of_run:
        async with linked(pod, deploy=bool(options.mode)) as live:
            if options.mode:
                key = await live.submit(
                    "mode", run=options.of_run, playbook=boot_hook.PLAYBOOK, mode=options.mode
                )
                action = await watch(live, key, as_json=False, quiet=True)
                if action.state != "done":
                    raise RefusedError(action.detail, "Nothing was changed.")
            lines += _of_run(live, options.of_run)
    if options.json:
        emit(
            "boot-hook",
            pod=pod.name,
            hooks=list(seen.hooks),
            last=seen.last,
            worked=seen.worked,
            told=lines,
        )
    else:
        print("\n".join(lines))
    return finding_code(not (seen.hooks or options.remove or options.mode))


def _print(options: argparse.Namespace, seen: boot_hook.Seen) -> int:
    """Print the hook's text for one platform, and the place that it belongs to."""
    text, where = boot_hook.text(options.platform, seen), boot_hook.where(options.platform)
    if options.json:
        emit("boot-hook-text", pod=options.name, platform=options.platform, text=text, where=where)
    else:
        print(f"# {where}\n{text}")
    return 0


def _of_run(live: PodSession, name: str) -> list[str]:
    """Return a sentence about what happens to a run after a reboot, which its mode decides."""
    pod = live.state.name
    run_of(live, name)
    mode = live.state.ledger.mode(name, boot_hook.PLAYBOOK)
    does = {
        "observe": "a restart opens an incident and nothing is started",
        "ask": "a restart opens an incident with a plan that waits for a person",
        "auto": (
            "after a restart it is resumed by itself, restored from its store first where no "
            "step is left on the disk"
        ),
    }[mode]
    change = f"`bs4-console pods boot-hook {pod} --run {name} --mode observe|ask|auto` changes it"
    return [f"{name}: {boot_hook.PLAYBOOK} is in mode {mode}, so {does}; {change}."]
