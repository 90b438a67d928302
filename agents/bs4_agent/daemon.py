"""`python -m bs4_agent daemon`: puts the parts of the agent together and runs their threads."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bs4_agent import __version__, own_log
from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.channel.server import Server
from bs4_agent.credentials.held import HeldSecrets
from bs4_agent.heap import no_library_search, one_arena
from bs4_agent.lifecycle import handover
from bs4_agent.lifecycle.attach import daemon_command
from bs4_agent.lifecycle.home_watch import HomeWatch
from bs4_agent.observe.kernel_feed import KernelFeed
from bs4_agent.observe.wandb_feed import WandbFeed
from bs4_agent.observe.watcher import Watcher
from bs4_agent.paths import Home
from bs4_agent.pod import Pod
from bs4_agent.runs.adopt import learn_secrets
from bs4_agent.runs.follower import RunFollower
from bs4_agent.runs.growth import Growth
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.setup_log import open_setup_log
from bs4_agent.streams import files
from bs4_agent.streams.registry import Streams
from bs4_agent.telemetry.background import GuardedGpus
from bs4_agent.telemetry.gpus import open_gpus
from bs4_agent.telemetry.kernel import KernelLog
from bs4_agent.telemetry.processes import ProcessTable
from bs4_agent.telemetry.sampler import Sampler
from bs4_agent.workers import spawn
from bs4_common.clock import boot_id
from bs4_common.errors import AgentError, Busy, SpoolFull
from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine
from bs4_common.journal import Journal
from bs4_common.ledger import JournalRecord
from bs4_common.streams.logs import LogStream
from bs4_common.streams.segments import SegmentStream
from bs4_common.telemetry import Telemetry
from bs4_common.wire import PROTOCOLS
from bs4_common.withheld import Withheld

if TYPE_CHECKING:
    from bs4_agent.checkpoints.retention import Retention
    from bs4_agent.checkpoints.sync import Syncs
    from bs4_agent.preflight.queries import Preflights
    from bs4_agent.recorder.recorder import Recorder
    from bs4_common.greeting import AgentGreeting

#: A day at 1 Hz is about 140 MB with 8 GPUs. The cap keeps a day for four GPUs and most of a day
#: for eight.
TELEMETRY_CAP = 128 * 1024 * 1024
JOURNAL_CAP = 64 * 1024 * 1024
#: Seconds. The pause after a defect in a thread, so that a defect that happens every time does not
#: fill the disk.
FAULT_PAUSE_S = 10.0
#: Seconds. A longer time without an agent is a gap in watching, which the next start journals.
GAP_S = 5.0


class Daemon:
    """The agent of one pod, as a long-running process. `home` is its home directory, `scope` the
    part of the machine that it may see, `build` the version of its code, and `playbooks` the
    compiled playbooks as JSON. `start` starts all its threads; `stop` ends them and leaves all runs
    running.
    """

    def __init__(self, home: Home, scope: Scope, build: handover.Build, playbooks: bytes) -> None:
        self.home, self.scope, self.build = home, scope, build
        self._stop = threading.Event()
        self._leaving = threading.Event()
        self.home_watch = HomeWatch(home)
        self.streams = Streams()
        telemetry = SegmentStream(home.state / "telemetry", TELEMETRY_CAP)
        journal = SegmentStream(
            home.state / "journal", JOURNAL_CAP, keep_unreleased=True, relief=telemetry.shed
        )
        self.streams.opens(files.PREFIX, functools.partial(files.open_file, home))
        self.streams.answer("files", self._list_files)
        self.streams.add("telemetry", telemetry)
        self.streams.add("journal", journal)
        self.secrets = HeldSecrets(home)
        self.book = Book(Journal(journal, Withheld(home.withheld, self.secrets.redacted_values)))
        self.table = ProcessTable(scope)
        self.gpus = GuardedGpus(open_gpus(scope))
        self.runs = Runs(
            home,
            scope,
            self.book,
            self.table,
            agent_restart=daemon_command(),
            secrets=self.secrets,
        )
        self.library = Library(playbooks)
        engine = Engine(list(self.library))
        self.follower = RunFollower(self.streams, self.runs, on_fault=self._follower_fault)
        self.pod = Pod(scope, self.table, self.gpus, self.runs, self.follower, self.book)
        self.actions = Actions(self.pod, self.library, self.book, journal, self._hand_over)
        self.watcher = Watcher(self.pod, engine, self.book, self.actions)
        self.follower.on_line = self.watcher.feed
        self.actions.orders.on_keep = self._guard_disks
        self.actions.orders.on_sync = self._sync_stores
        self._syncs: Syncs | None = None
        self._disk_guard: Retention | None = None
        self._recorder: Recorder | None = None
        self.book.listen(self._record_crashes)
        self.streams.answer("checkpoints", self._ask_checkpoints)
        self.actions.kinds.log = self._show_set_ups
        self._setup_log: LogStream | None = None
        self._kernel_log = KernelLog(scope.dev)
        self._kernel = KernelFeed(self._kernel_log, self.runs, self.watcher.feed)
        self.pod.blind = self._kernel.blind
        self.pod.fault = self._watcher_fault
        self._wandb = WandbFeed(self.runs, self.book, self.watcher.feed)
        self.sampler = Sampler(
            scope, self.gpus, self.table, self._sampled, self.pod.run_members, self.pod.paths
        )
        self._telemetry = telemetry
        self.server = Server(
            home.socket(build.bundle), self.streams, self.actions.submit, self.hello
        )
        self._preflights: Preflights | None = None
        self.streams.answer("preflight", self._preflight)

    def hello(self) -> AgentGreeting:
        """Return what the agent tells a console in the handshake: the versions of the protocol, the
        agent and Python, its bundle, the id of its home directory, its pid, host and boot id, and
        the present time by both clocks (`t`: Unix time, `m`: the monotonic clock, in seconds).
        """
        return {
            "protocol": PROTOCOLS[0],
            "agent": __version__,
            "bundle": self.build.bundle,
            "build": self.build.build,
            "home": self.home.id(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "pid": os.getpid(),
            "boot_id": boot_id(),
            "host": os.uname().nodename,
            "t": time.time(),
            "m": time.monotonic(),
        }

    def _list_files(
        self, op: str, arguments: Mapping[str, Any], stop: threading.Event | None
    ) -> dict[str, Any]:
        """Answer a query about files for a person who types a path."""
        from bs4_agent.streams.listing import Listing  # only for a person who types a path

        return dict(Listing(self.home).ask(op, arguments, stop))

    def _preflight(
        self, op: str, arguments: Mapping[str, Any], stop: threading.Event | None
    ) -> dict[str, Any]:
        """Answer a preflight query."""
        if self._preflights is None:
            from bs4_agent.preflight.queries import Preflights  # loaded only for those who ask

            self._preflights = Preflights(self.pod, self.library)
        return self._preflights.ask(op, arguments, stop)

    def start(self) -> None:
        """Write into the journal that the agent starts, start all its threads, and continue actions
        that an earlier agent did not finish.
        """
        spawn(lambda: self.home_watch.run(self._stop, self.stop), "home")
        # With a full journal it watches all the same, and a console can release what it holds.
        with contextlib.suppress(SpoolFull):
            self._tell_start()
        self.runs.poll()
        for run in self.runs.all():
            learn_secrets(self.runs, run)
        self.follower.poll()
        self._thread("sampler", self.sampler.run)
        self._thread("prober", self.pod.prober.run)
        self.pod.collector.start()
        self._thread("follower", self._follow)
        if self.home.setup.is_dir():
            self._show_set_ups()
        if self.home.reports.is_dir():
            from bs4_agent.recorder.recorder import show_reports

            show_reports(self.streams, self.home.reports)
        self.actions.resume()
        self._thread("watcher", self.watcher.run)
        if any(order.get("last") for order in self.book.ledger.orders.values()):
            self._guard_disks()
        if any(view.order.get("to") for view in self.book.ledger.syncs.values()):
            self._sync_stores()

    def serve(self) -> None:
        """Serve consoles and block until `stop` is called."""
        self.server.serve_forever()

    def stop(self) -> None:
        """Order all threads to end, and disconnect all consoles. Runs go on."""
        self._stop.set()
        self.server.stop()

    def leave(self, signal_name: str) -> None:
        """Record how far each run has come, and then call `stop`. This is for a SIGTERM, after
        which the whole pod may end. The call returns at once and the work is done on a thread,
        because a signal handler makes the call.
        """
        if not self._leaving.is_set():
            self._leaving.set()
            threading.Thread(target=self._leave, args=(signal_name,), name="leave").start()

    def _leave(self, signal_name: str) -> None:
        """Record where each run stands, and then stop."""
        from bs4_agent.checkpoints import intent

        self._stop.set()  # no thread begins anything more, least of all an upload
        try:
            intent.write(self.home, self.runs, self.book.ledger, self.book, signal_name)
        except (AgentError, OSError):
            traceback.print_exc()  # a full disk prevents nobody from leaving
        self.stop()

    def abandon(self) -> None:
        """End the agent because its home directory is gone or belongs to another agent now. Nothing
        is written to the journal, which lies in that directory. Uploads are ended; runs go on.
        """
        if self._syncs is not None:
            self._syncs.close()
        sentence = f"bs4-agent: {self.home.root} is not this agent's home any more; it ends."
        print(sentence, file=sys.stderr)  # noqa: T201  (standard error is agent.log)

    def close(self) -> None:
        """Write the end of the agent to the journal (the agent's log of actions and incidents), if
        that has room, and release everything it holds. Call it after `serve` has returned.
        """
        with contextlib.suppress(SpoolFull):
            self.book.append(
                "agent",
                event="stopped",
                version=__version__,
                bundle=self.build.bundle,
                pid=os.getpid(),
            )
        if self._syncs is not None:
            self._syncs.close()
        self.gpus.close()
        self.sampler.close()
        self.pod.collector.stop()
        self.follower.close()
        self._kernel_log.close()
        self.streams.close()

    def _show_set_ups(self) -> LogStream:
        """Return the stream of the set-ups' output, which consoles can read from now on."""
        if self._setup_log is None:
            self._setup_log = open_setup_log(self.home)
            self.streams.add(self._setup_log.name, self._setup_log)
        return self._setup_log

    def _guard_disks(self) -> None:
        """Apply retention from the first order on. Before that, nothing of it is loaded and it
        scans no disk.
        """
        if self._disk_guard is not None:
            self._disk_guard.wake()
            return
        from bs4_agent.checkpoints.retention import Retention

        self._disk_guard = Retention(self.pod, self.book, self.actions)
        self._thread("disk-guard", self._disk_guard.run)

    def _sync_stores(self) -> None:
        """Sync checkpoints from the first order on. Before that, nothing of it is loaded."""
        if self._syncs is not None:
            self._syncs.wake()
            return
        from bs4_agent.checkpoints.sync import Syncs

        self._syncs = Syncs(self.pod, self.book)
        self.pod.stores = self._syncs.told
        self._thread("sync", self._syncs.run)

    def _record_crashes(self, record: JournalRecord) -> None:
        """Write crash reports from the first crash on. Before that, nothing of the recorder is
        loaded. An attempt that a repair has stopped was broken before; one that a person has
        stopped was not.
        """
        kind, event = record.get("type"), record.get("event")
        run, attempt = record.get("run"), record.get("attempt")
        if (
            kind == "run"
            and event == "attempt-ended"
            and not record.get("good")
            and (
                not self.runs.stop_requested(str(run), attempt or 0)
                or any(one.run == run for one in self.book.ledger.unfinished("playbook"))
            )
        ):
            if self._recorder is None:
                from bs4_agent.recorder.recorder import Recorder

                self._recorder = Recorder(self.pod, self.streams)
                self._thread("recorder", self._recorder.run)
            self._recorder.crashed(str(run), attempt or 0)
        elif kind == "incident" and event == "opened" and self._recorder is not None:
            self._recorder.found(str(run), attempt or 0)

    def _ask_checkpoints(
        self, op: str, arguments: Mapping[str, Any], stop: threading.Event | None
    ) -> dict[str, Any]:
        """Answer a query about checkpoints."""
        from bs4_agent.checkpoints.answers import answer

        return dict(answer(self.pod, op, arguments))

    def _tell_start(self) -> None:
        """Journal who watches from now on, and for how long nobody did."""
        before = self.book.ledger.agent
        last = max((self.book.ledger.last_t, self._last_sample_t()), default=0.0)
        event = "restarted" if os.environ.pop("BS4_AGENT_RESTARTED", "") else "started"
        self.book.append(
            "agent",
            sync=True,
            event=event,
            version=__version__,
            bundle=self.build.bundle,
            pid=os.getpid(),
        )
        gap = time.time() - last
        if before and gap > GAP_S:
            self.book.append("agent", event="watch-gap", gap_s=round(gap, 1), from_t=last)
        repaired = self._telemetry.repaired
        if repaired is not None:
            self.book.append(
                "gap",
                stream="telemetry",
                from_offset=repaired["from"],
                to_offset=repaired["to"],
                reason=repaired["reason"],
            )

    def _last_sample_t(self) -> float:
        """Return the Unix time of the last telemetry record, or 0.0 if there is none."""
        line = self._telemetry.last_line()
        if line is None or self._telemetry.timestamp is None:
            return 0.0
        return self._telemetry.timestamp(line) or 0.0

    def _sampled(self, record: Telemetry) -> None:
        """Take one telemetry record."""
        self._kernel.driver_events(record["gpus"]["xids"])
        self._telemetry.append(record)

    def _follow(self, stop: threading.Event) -> None:
        """Follow the logs until `stop` is set."""
        growth = Growth()
        try:
            while not stop.wait(rest_s := self.follower.least_pause_s):
                growth.watch(self.follower.growing())
                grown = growth.wait(self.follower.pause_s - rest_s)
                if stop.is_set():
                    return
                self._kernel.poll()
                try:
                    self._wandb.poll()
                    self.follower.poll(grown=grown)
                except SpoolFull:
                    # steps are derived from logs, which stay, so they are read again once there is
                    # space
                    stop.wait(5.0)
        finally:
            growth.close()

    def _thread(self, name: str, work: Callable[[threading.Event], None]) -> None:
        """Run `work` on a supervised thread."""
        threading.Thread(target=self._supervised, args=(name, work), name=name, daemon=True).start()

    def _supervised(self, name: str, work: Callable[[threading.Event], None]) -> None:
        """Run `work` until the agent stops. A defect in it must not end the watch in silence: it is
        journalled if the journal has room (its traceback is in agent.log), and work starts again.
        """
        while not self._stop.is_set():
            try:
                work(self._stop)
            except Exception as error:  # noqa: BLE001
                # The last line of defence. Expected errors are handled where they happen.
                traceback.print_exc()
                # A full disk must not end the thread either.
                with contextlib.suppress(SpoolFull, OSError):
                    self.book.append(
                        "agent",
                        event="fault",
                        thread=name,
                        detail=f"{type(error).__name__}: {error}"[:500],
                        pid=os.getpid(),
                    )
                self._stop.wait(FAULT_PAUSE_S)

    def _watcher_fault(self, sentence: str) -> None:
        """Journal that one run cannot be looked at, if the journal has room."""
        with contextlib.suppress(SpoolFull, OSError):
            self.book.append(
                "agent", event="fault", thread="watcher", detail=sentence, pid=os.getpid()
            )

    def _follower_fault(self, sentence: str) -> None:
        """Journal a defect of the log follower."""
        self.book.append(
            "agent", event="fault", thread="follower", detail=sentence, pid=os.getpid()
        )

    def _hand_over(self) -> None:
        """Let this agent's answer go out, and then end, because a newer agent takes over. Runs are
        not touched.
        """
        self.book.append(
            "agent", sync=True, event="handover", bundle=self.build.bundle, pid=os.getpid()
        )
        threading.Timer(0.2, self.stop).start()


def main(arguments: Sequence[str]) -> int:
    """Run the agent of the home in BS4_HOME until it is stopped, and return the exit code 0. If
    another agent of this home is alive and stays so for 5 seconds, print that and return 0 too,
    because two agents would do everything twice. With `--wait` in `arguments`, wait up to 70
    seconds for that other agent, which may end after its present step.
    """
    own_log.use()
    home = Home.from_environment()
    home.create()
    try:
        claimed = handover.claim(
            home, handover.LEAVE_S if "--wait" in arguments else handover.CLAIM_S
        )
    except Busy as error:
        print(f"bs4-agent: {error}", file=sys.stderr)  # noqa: T201
        return 0
    threading.stack_size(256 * 1024)
    one_arena()
    no_library_search()
    build = handover.Build.own()
    daemon = Daemon(home, Scope.from_environment(), build, playbooks())
    signal.signal(signal.SIGTERM, lambda *_: daemon.leave("SIGTERM"))
    signal.signal(signal.SIGINT, lambda *_: daemon.stop())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # `kill -USR1` writes every thread's stack to agent.log, so that a hang on a pod can be
    # understood without a debugger there.
    faulthandler.register(signal.SIGUSR1)
    daemon.server.bind()
    daemon.start()
    handover.write_record(home, daemon.server.path, build, daemon_command())
    daemon.serve()
    if daemon.home_watch.gone:
        daemon.abandon()
        return 0
    daemon.close()
    handover.mark_stopped(home)
    os.close(claimed)
    return 0


def playbooks() -> bytes:
    """Return the bytes of playbooks.json (all compiled playbooks), a file beside this package in
    the bundle. Raises AgentError if the file is missing.
    """
    path = Path(__file__).resolve().parents[1] / "playbooks.json"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise AgentError(
            f"This agent has no playbooks ({path}); deploy it with `bs4-console deploy`."
        ) from None
