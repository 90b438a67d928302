"""Navigation: opens the screens, by command or by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported
from textual.screen import Screen

from bs4_console.errors import ConsoleError
from bs4_console.pods.streams import file_stream
from bs4_console.tui import commands
from bs4_console.tui.notifications import Notifications
from bs4_console.tui.screens.base import ConsoleScreen, Subject
from bs4_console.tui.screens.fleet import FleetScreen
from bs4_console.tui.screens.messages import MessagesScreen

if TYPE_CHECKING:
    from bs4_console.fleet.watched import Fleet
    from bs4_console.pods.session import PodSession
    from bs4_console.pods.state import PodState, RunState


class Navigation(Notifications):
    """The part of the app that opens the screens, by command or by name. A screen that a person may
    never open is imported only when it is opened, so that the first paint does not wait for it.
    `fleet` has the state of every pod and the session with it.
    """

    fleet: Fleet
    practice_shells: Mapping[str, list[str]] = MappingProxyType({})
    """For each practice pod the command, as a list of words, that opens a shell on it. Such a pod
    is in no inventory.
    """

    def __init__(self, *, ansi_color: bool | None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._greeted: set[str] = set()

    def get_default_screen(self) -> Screen[None]:
        """Return the screen that is shown first, a new fleet screen."""
        return FleetScreen()

    def subject(self) -> Subject:
        """Return the pod and the run that a command is about if a person gives it now. The screen
        that is shown says which they are; both are None while a dialog is shown.
        """
        if isinstance(self.screen, ConsoleScreen):
            return self.screen.subject()
        return Subject()

    # -- by command

    def do_back(self, args: str) -> None:
        """Close the screen that is shown and go back to the one below. Do nothing on the fleet,
        which is the lowest. `args` is ignored.
        """
        if len(self.screen_stack) > 1:
            self.pop_screen()

    def do_help(self, args: str) -> None:
        """Open the help about the screen that is shown. Do nothing if that is the help itself.
        `args` is ignored.
        """
        from bs4_console.tui.screens.help import HelpScreen

        if isinstance(self.screen, ConsoleScreen) and not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen.place))

    def do_messages(self, args: str) -> None:
        """Open the list of all messages that the console has shown since it started. Do nothing
        if it is shown already. `args` is ignored.
        """
        if not isinstance(self.screen, MessagesScreen):
            self.push_screen(MessagesScreen())

    def do_journal(self, args: str) -> None:
        """Open the table of the actions in the journals (the agents' logs of actions and incidents)
        of all pods. Do nothing if it is shown already. `args` is ignored.
        """
        from bs4_console.tui.screens.journal import JournalScreen

        if not isinstance(self.screen, JournalScreen):
            self.push_screen(JournalScreen())

    def do_gpus(self, args: str) -> None:
        """Open the table of the GPUs of all pods. Do nothing if it is shown already. `args` is
        ignored.
        """
        from bs4_console.tui.screens.gpus import GpusScreen

        if not isinstance(self.screen, GpusScreen):
            self.push_screen(GpusScreen())

    def do_fleet(self, args: str) -> None:
        """Go back to the fleet screen by closing all screens above it. `args` is ignored."""
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def do_pod(self, args: str) -> None:
        """Open the page of the pod under the cursor. If `args` is the name of a pod, put the
        fleet's cursor on that pod's row instead. A message says so if there is no such pod.
        """
        pod = self.subject().pod
        if args and self.fleet.pod(args) is not None:
            self.do_fleet("")
            self.call_later(self._select, args)
        elif args:
            known = ", ".join(sorted(self.fleet.sessions)) or "none"
            self.say(f"There is no pod {args!r}; there are {known}.", severity="warning")
        elif pod is None:
            self.say(commands.NEEDS["pod"], severity="warning")
        elif getattr(self.screen, "place", "") != commands.POD:
            self.open_pod(pod)

    def _select(self, pod: str) -> None:
        if isinstance(self.screen, FleetScreen):
            self.screen.select(pod)

    def do_run(self, args: str) -> None:
        """Open the screen of the run named in `args`, as "RUN" or "POD/RUN". A message says so if
        there is no such run, or if several pods have a run of that name.
        """
        pod_name, slash, run_name = args.rpartition("/")
        found = [
            pod
            for pod in self.fleet.pods
            if run_name in pod.runs and (not slash or pod.name == pod_name)
        ]
        if len(found) == 1:
            self.do_fleet("")
            self.call_later(self.open_run, found[0], found[0].runs[run_name])
        elif found:
            self.say(
                f"{run_name} runs on {', '.join(pod.name for pod in found)}; say which: :run "
                f"{found[0].name}/{run_name}",
                severity="warning",
            )
        else:
            self.say(f"There is no run {args!r}; Tab after `:run ` shows all.", severity="warning")

    def do_logs(self, args: str) -> None:
        """Open the logs of the run under the cursor. `args` is a source (for example "trainer"),
        the path of a file on the pod, or "" for all sources merged. Do nothing without a run.
        """
        subject = self.subject()
        if subject.pod and subject.run:
            self.open_logs(subject.pod, subject.run.name, args or None)

    def do_notes(self, args: str) -> None:
        """Open the notes that people wrote about the run under the cursor. Do nothing without a
        run. `args` is ignored.
        """
        from bs4_console.tui.screens.notes import NotesScreen

        subject = self.subject()
        if subject.pod is not None and subject.run is not None:
            self.push_screen(NotesScreen(subject.pod, subject.run))

    def do_rollouts(self, args: str) -> None:
        """Open the rollouts of the run under the cursor. `args` is the number of a training step,
        the path of a file of the pod, or "" for the newest step. Do nothing without a run.
        """
        from bs4_console.tui.screens.rollouts import RolloutsScreen

        subject = self.subject()
        if subject.pod is not None and subject.run is not None:
            self.push_screen(RolloutsScreen(subject.pod, subject.run, args))

    def do_checkpoints(self, args: str) -> None:
        """Open the checkpoints of the run under the cursor. Do nothing without a run. `args` is
        ignored.
        """
        from bs4_console.tui.screens.checkpoints import CheckpointsScreen

        subject = self.subject()
        if subject.pod is not None and subject.run is not None:
            self.push_screen(CheckpointsScreen(subject.pod, subject.run))

    def do_file(self, args: str) -> None:
        """Open the file with the path in `args` on the pod under the cursor. If `args` is empty,
        open the `:` prompt instead, in which the person types the path.
        """
        if not args and isinstance(self.screen, ConsoleScreen):
            self.screen.do_command("file ")
        elif (pod := self.subject().pod) is not None:
            self.open_file(pod, args)

    def do_incident(self, args: str) -> None:
        """Open the page of the first open incident of the run under the cursor, or of the pod if
        there is no run. Root causes come first, then the oldest. `args` is the id of the failure
        that the incident must be about, or "" for any. A message says so if there is no such
        incident.
        """
        self.open_incident(self.subject(), args)

    # -- by name

    def open_run(self, pod: PodState, run: RunState) -> None:
        """Open the screen of a run on a pod."""
        from bs4_console.tui.screens.run import RunScreen

        self.push_screen(RunScreen(pod, run))

    def open_pod(self, pod: PodState) -> None:
        """Open the page of a pod."""
        from bs4_console.tui.screens.pod import PodScreen

        self.push_screen(PodScreen(pod))

    def open_logs(
        self, pod: PodState, run: str, source: str | None = None, at: str | None = None
    ) -> None:
        """Open the log screen of the run with the name `run`. `source` is a source such as
        "trainer", the path of a file on the pod, which is opened as a file, or None for all sources
        merged. `at` is the place in the source's log at which it is opened, as the cursor
        "GENERATION:OFFSET" (the number of the log file, and a byte in it); None opens its end. A
        message says so if the run has no such source.
        """
        from bs4_console.tui.screens.log import LogScreen

        if source is not None and source.startswith(("/", "~/")):
            self.open_file(pod, source)
            return
        begin = f"log/{run}/"
        known = []
        for name in pod.streams:
            if name.startswith(begin):
                known.append(name.rpartition("/")[2])
        if source is not None and source not in known:
            self.say(
                f"{run} has no log {source}; there are {', '.join(known) or 'none yet'}.",
                severity="warning",
            )
            return
        self.push_screen(LogScreen(pod, run, source, at))

    def open_file(self, pod: PodState, path: str) -> None:
        """Ask the pod's agent whether the file with this path may be shown, and if so, open it like
        a log. Both happen in the background. If the agent refuses, its reason becomes a message.
        """
        session = self.fleet.sessions.get(pod.name)
        if session is not None:
            self.spawn(f"file on {pod.name}", self._open_file(session, pod, path))

    async def _open_file(self, session: PodSession, pod: PodState, path: str) -> None:
        from bs4_console.tui.screens.log import FileScreen

        await session.query(file_stream(path), "stat")
        self.push_screen(FileScreen(pod, path))

    def open_incident(self, subject: Subject, failure: str = "") -> None:
        """Open the page of the first open incident of the run of `subject`, or of its pod if there
        is no run. Root causes come first, then the oldest. `failure` is the id of the known failure
        that the incident must be about, or "" for any. A message says so if there is no such
        incident.
        """
        from bs4_console.tui.screens.incident import IncidentScreen

        for incident in subject.incidents:
            if subject.pod is not None and failure in ("", incident.failure):
                self.push_screen(IncidentScreen(subject.pod, incident.id))
                return
        wanted = " ".join(["There is no open incident", *failure.split(), "here."])
        self.say(wanted, severity="warning")

    def open_plan(self, subject: Subject, playbook: str) -> None:
        """Open the page of a playbook (a known failure and its repair) for the run of `subject`,
        and have the agent make a plan there. `playbook` is the playbook's id. With "" the playbook
        of the run's first open incident is taken; if no incident is open, a message asks for the
        id. Do nothing without a run.
        """
        from bs4_console.tui.screens.incident import IncidentScreen

        if subject.pod is None or subject.run is None:
            return
        fitting = (i.id for i in subject.incidents if playbook in ("", i.playbook, i.failure))
        incident = next(fitting, None)
        if incident is None and not playbook:
            self.say(
                "No incident is open here, so name the playbook: :plan ID (Tab shows them).",
                severity="warning",
            )
            return
        screen = IncidentScreen(subject.pod, incident, subject.run.name, playbook or None)
        self.push_screen(screen)
        screen.call_after_refresh(screen.do_plan, "")

    def show_host_key(self, pod: PodState) -> None:
        """Open the dialog that shows the pod's SSH host key, for the person to compare. After this
        call the dialog does not open by itself for this pod any more.
        """
        from bs4_console.tui.screens.host_key import HostKeyScreen

        self._greeted.add(pod.name)
        self.push_screen(HostKeyScreen(pod))

    def shell_command(self, pod: PodState) -> list[str]:
        """Return the command, as a list of words, that opens a shell on the pod. Raises UsageError
        if no command can be made of the pod's address.
        """
        from bs4_console.pods import shell

        return self.practice_shells.get(pod.name) or shell.argv(pod.name, pod.address)

    def open_shell(self, pod: PodState) -> None:
        """Open a shell on the pod: inside tmux in a new window, otherwise on this terminal in place
        of the screen until the person leaves the shell. If no shell can be opened, or it ends with
        an error, a message says so.
        """
        from bs4_console.tui import outside

        try:
            argv = self.shell_command(pod)
            self.say(f"Shell on {pod.name}:", outside.command_text(argv))
            if outside.in_tmux():
                outside.window(pod.name, argv)
                return
            with self.suspend():
                code = outside.here(argv)
        except SuspendNotSupported:
            self.say(
                "This terminal cannot be left and come back to.",
                f"Open one yourself: {outside.command_text(argv)}",
                severity="warning",
            )
            return
        except ConsoleError as error:
            self.say(error.message, error.next_step, severity="error")
            return
        self.refresh(layout=True)
        if code:
            self.say(f"The shell on {pod.name} ended with {code}.", severity="warning")

    def _greet(self) -> None:
        """Show the host key of a pod at first contact, which a person has to accept: once for each
        pod, on the fleet, one at a time. The pod's row keeps saying that it waits.
        """
        if not isinstance(self.screen, FleetScreen) or self.screen.prompt.is_open:
            return
        for pod in self.fleet.pods:
            if pod.link.state == "host key?" and pod.name not in self._greeted:
                self.show_host_key(pod)
                return
