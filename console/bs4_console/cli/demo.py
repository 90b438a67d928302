"""The command `demo`: practice pods. Without a scenario, three of them appear on the screen. With
one, the screen opens on a pod that fails that way, and a person mends it; without a screen the
failure is played from its first sign to the proof of its repair.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING

from bs4_console.cli.output import emit, finding_code
from bs4_console.cli.sessions import is_terminal
from bs4_console.errors import ConsoleError, NotApplicableError, UsageError
from bs4_console.trainers.registry import TRAINERS

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp
    from bs4_practice.scenario import Scenario
    from bs4_practice.stage import Stage

#: Steps that the failing pod of `demo --headless` trains first, and the seconds within which its
#: failure must be named.
SOON_STEPS, NAMED_S = 8, 60.0
_ENDING = "The practice pods are being ended; that takes a few seconds."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `demo` to its parser."""
    parser.add_argument(
        "--scenario",
        metavar="ID",
        help="a failure id, id/variant, or random: the screen opens on a pod that fails that way",
    )
    parser.add_argument(
        "--trainer",
        choices=tuple(TRAINERS),
        help="which generation (default: one that can fail that way)",
    )
    parser.add_argument("--seed", type=int, help="for --scenario random")
    parser.add_argument(
        "--no-fix", action="store_true", help="detect and plan, but leave it broken"
    )
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    parser.add_argument(
        "--recorded",
        action="store_true",
        help="open a recorded incident instead of practice pods; works on any system",
    )
    parser.add_argument(
        "--headless",
        action="store_true",
        help="no screen, also on a terminal; a scenario is played to its end",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Show practice pods (simulated ones) on this machine: three of them on the screen, one that
    fails as the scenario says (--scenario), or a recorded incident. With --list, only print the
    scenarios. Without a screen (--headless, --json, or no terminal) a scenario is played to its
    end. Return 1 if a scenario was played and its run does not train again at the end (except with
    --no-fix), and 0 in all other cases. Without Linux's /proc only the recording can be shown;
    --scenario then raises UsageError. Raises NotApplicableError if this machine cannot play the
    scenario.
    """
    if options.list:
        from bs4_practice.tries import TRIES

        for scenario in TRIES.values():
            print(f"{scenario.name:36} {', '.join(scenario.trainers)}")
        return 0
    headless = options.headless or options.json or not is_terminal()
    if options.recorded and options.scenario is not None:
        raise UsageError("A recording holds no scenario.", "Leave out --recorded or --scenario.")
    if options.recorded:
        return asyncio.run(
            _recorded(
                "This is a recorded incident; nothing here is live.",
                headless=headless,
                as_json=options.json,
            )
        )
    on_linux = sys.platform.startswith("linux")
    if options.scenario is not None:
        if not on_linux:
            raise UsageError(
                "Practice pods need Linux's /proc.",
                "Run this on Linux; `bs4-console demo` opens a recorded incident here.",
            )
        played = _play(options) if headless or options.no_fix else _practise(options)
        return asyncio.run(_to_its_end(played))
    if not on_linux:
        why = (
            "Practice pods need Linux's /proc, which this system lacks: this is a recorded "
            "incident."
        )
        return asyncio.run(_recorded(why, headless=headless, as_json=options.json))
    return asyncio.run(_to_its_end(_printed() if headless else _on_screen()))


async def _to_its_end(demo: Coroutine[None, None, int]) -> int:
    """Run `demo` and return its exit code. On Ctrl-C, SIGTERM, or SIGHUP (the terminal was closed)
    it is cancelled, so that it ends its practice pods and removes their directory; the result is
    then 128 and the signal's number. Further signals do not break that off.
    """
    task, loop, came = asyncio.ensure_future(demo), asyncio.get_running_loop(), list[int]()
    terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]

    def end(number: int) -> None:
        if not came:
            came.append(number)
            if number == signal.SIGHUP:
                _leave(terminals)
            task.cancel()

    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # of `nohup`, or of a job behind `&`
    ]
    for number in numbers:
        loop.add_signal_handler(number, end, number)
    try:
        code = await task
    except asyncio.CancelledError:
        if not came:
            raise
        code = 0
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
    return 128 + came[0] if came else code


def _leave(terminals: Sequence[int]) -> None:
    """Have the descriptors `terminals` read and write nothing, because their terminal is closed.
    Every write to it would fail, also those with which the screen is left.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in terminals:
        os.dup2(null, descriptor)
    os.close(null)


async def _recorded(why: str, *, headless: bool, as_json: bool) -> int:
    """Show the recorded incident of a practice pod. `why` is a sentence that is shown with it."""
    from bs4_console.cli.recording import show
    from bs4_console.pods.recorded import RecordedSession
    from bs4_practice import recording

    return await show(
        RecordedSession(recording.NAME, recording.directory(), why),
        why,
        headless=headless,
        as_json=as_json,
    )


async def _on_screen() -> int:
    """Open the screen on three practice pods, while their runs are started and one of them is
    broken.
    """
    from bs4_console.tui.app import configured
    from bs4_practice.three import three_pods

    print("Three practice pods are being started; that takes about ten seconds.", flush=True)
    async with three_pods() as practice:
        tasks = [asyncio.create_task(practice.stage()), asyncio.create_task(practice.fail_later())]
        app = configured(practice.fleet, practice=True)
        app.practice_shells = practice.shells
        await app.run_async()
        print(_ENDING, flush=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return app.return_code or 0


async def _printed() -> int:
    """Print the verdict on the three pods once their runs train, and the verdict on the one that
    fails once its failure is named. Used without a terminal.
    """
    from bs4_console.checks.verdict import judge
    from bs4_practice.three import three_pods

    async with three_pods() as practice:
        practice.fleet.start()
        await practice.stage()
        for pod in practice.fleet.pods:
            print(judge(pod).line(), flush=True)
        failing = await practice.fail_later(SOON_STEPS)
        print(f"{failing.name}: its vLLM engine was killed now.", flush=True)
        async with asyncio.timeout(NAMED_S):
            while not failing.ledger.open_incidents():
                await asyncio.sleep(0.2)
        print(judge(failing).line())
        print("To mend it yourself: `bs4-console demo` on a terminal, then i, p and r.")
        await practice.fleet.stop()
    return 0


def _chosen(options: argparse.Namespace) -> tuple[Scenario, str]:
    """Return the scenario that was asked for, and the id of the trainer that it is played with.
    Raises UsageError or NotApplicableError if there is none of that name.
    """
    from bs4_practice.scenario import OLD
    from bs4_practice.scenarios import choose
    from bs4_practice.tries import TRIES

    known = TRIES.get(options.scenario)
    trainer = options.trainer or (known.trainers[0] if known else OLD)
    return choose(options.scenario, trainer, options.seed), trainer


async def _practise(options: argparse.Namespace) -> int:
    """Open the screen on a practice pod, break it as the scenario says, and leave it to the person
    to mend it. Return the screen's exit code. Raises NotApplicableError if this machine cannot
    play the scenario.
    """
    scenario, trainer = _chosen(options)
    if missing := scenario.needs():
        raise NotApplicableError(
            f"{scenario.name} cannot be practised here: {missing}.", "Try it on another machine."
        )
    print("A practice pod is being started; that takes about ten seconds.", flush=True)
    from bs4_console.fleet.watched import Fleet
    from bs4_console.tui.app import configured
    from bs4_practice.place import place
    from bs4_practice.stage import connect, shell_words, staged

    settings = {"foreign_pids": scenario.foreign_pids, **scenario.pod}
    with place() as directory:
        async with staged(trainer, **settings) as stage:
            # The person has a console of their own on the pod, beside the one that breaks it.
            known_hosts = directory / "known_hosts"
            own = connect(stage.pod, known_hosts, directory / "mirror")
            app = configured(Fleet([own]), practice=True)
            app.practice_shells = {own.state.name: shell_words(stage.pod, known_hosts)}
            breaking = asyncio.create_task(_broken(app, scenario, stage))
            await app.run_async()
            print(_ENDING, flush=True)
            breaking.cancel()
            await asyncio.gather(breaking, return_exceptions=True)
            return app.return_code or 0


async def _broken(app: ConsoleApp, scenario: Scenario, stage: Stage) -> None:
    """Bring the pod to where it can break, and break it. Each step, and an error, becomes a message
    on the screen.
    """
    keys = "{incident} shows what is wrong, {plan} asks for the plan, {apply} runs it"
    try:
        app.say(f"{stage.pod.name} gets ready: its run starts. Then it fails as {scenario.name}.")
        await scenario.prepare(stage)
        await scenario.inject(stage)
        app.say(f"It is broken now. When it is named: {keys.format(**app.keys)}.")
        await _pointed_at(app, scenario.failure)
    except ConsoleError as error:
        app.say(f"The pod could not be broken: {error.message}", error.next_step, severity="error")


async def _pointed_at(app: ConsoleApp, failure: str) -> None:
    """Wait until an incident about this failure is open, and put the fleet's cursor on its row, so
    that the keys act on the run that has failed. A person who is on another screen stays there.
    """
    from bs4_console.tui.screens.fleet import FleetScreen

    while True:
        for pod in app.fleet.pods:
            for incident in pod.ledger.open_incidents():
                if incident.failure == failure:
                    if isinstance(app.screen, FleetScreen):
                        app.screen.draw_safely()  # its row may have come just now
                        app.screen.point_at(pod.name, incident.run)
                    return
        await asyncio.sleep(0.2)


async def _play(options: argparse.Namespace) -> int:
    """Play one scenario and return the exit code."""
    from bs4_practice.play import play
    from bs4_practice.tries import summary

    scenario, trainer = _chosen(options)
    say = (lambda text: None) if options.json else print
    report = await play(scenario, trainer, fix=not options.no_fix, say=say)
    if options.json:
        emit("demo", trainer=trainer, **report)
    else:
        print(summary(report))
    return finding_code(not (report["recovered"] or options.no_fix))
