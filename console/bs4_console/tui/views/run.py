"""A run in lines: its identity, progress, processes, and what needs a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from bs4_console.pods.state import disk_percent
from bs4_console.tui import formatting, status
from bs4_console.tui.styled_text import Line, cut, fold, spread, text_of, whole, width_of
from bs4_console.tui.views.fleet import newest, step_line

if TYPE_CHECKING:
    from bs4_console.pods.samples import DiskUsage, Host, Process, Telemetry
    from bs4_console.pods.state import PodState, RunState
    from bs4_console.tui.clock import Clock

#: The order of the components. Others follow by name.
COMPONENTS = (
    "launcher",
    "orchestrator",
    "trainer",
    "rank",
    "inference",
    "router",
    "engine",
    "worker",
    "env-server",
)
#: The order of the sources. The launcher is last because it repeats what others wrote, and of a
#: line that was written twice the first is shown.
SOURCES = ("orchestrator", "trainer", "inference", "env", "launcher")
BAR, REST = "━", "─"
#: Roles that data keeps when it is old.
_LASTING = ("head", "rule", "warn", "warn bold", "bad bold")


def header(pod: PodState, run: RunState, clock: Clock, width: int) -> list[Line]:
    """Return the two lines, of at most `width` cells, at the top of a run's screen. The first has
    the run's status, name, pod and attempt, and on the right the link and the age of the data. The
    second has its step, ETA, time per step and other numbers.
    """
    how = status.status_of(pod, run)
    attempt = run.view.attempt
    left: Line = [(" ", ""), *how.line(), ("  ", ""), (run.name, "bold"), (f" on {pod.name}", "")]
    if attempt:
        left.append((f" · attempt {attempt.number}", "dim"))
        if attempt.resume is not None:
            left.append((f" from step {attempt.resume}", "dim"))
    if phase := _phase(pod, run):
        left.append((f" · phase {phase}", "dim"))
    if run.view.adopted:
        left.append((" · adopted", "dim"))
    seen = status.age(pod, clock)
    age = (formatting.old(seen), "warn bold" if status.is_old(seen) else "good")
    right = [*status.link_line(pod), ("  ", ""), ("data ", "dim"), age, (" ", "")]
    return [spread(left, right, width), whole(_numbers(pod, run, clock), width)]


def _phase(pod: PodState, run: RunState) -> str:
    """Return the name of the phase of a phased run that was launched last, or ""."""
    # The screen of a run has it already; others need no more of this module than a bar.
    from bs4_console.run_log.record_fold import launches

    plans = launches(pod, run.name)
    if not plans:
        return ""
    return plans[max(plans)].phase


def _numbers(pod: PodState, run: RunState, clock: Clock) -> Iterator[Line]:
    """Yield the run's numbers in parts, the most important first. On a narrow terminal the last
    parts are left out.
    """
    begins = run.word == "starting"
    where: Line = [(" step ", "dim")]
    if begins:
        # The newest step is that of an attempt before.
        where.append((formatting.NONE, "bold"))
    else:
        where += step_line(run, "bold")
    if run.view.max_steps and run.step is not None and not begins:
        share = min(1.0, run.steps_done / run.view.max_steps)
        where += [(" ", ""), *bar(share, 10), (f" {share:.0%}", "dim")]
    yield where
    attempt = run.view.attempt
    if phrase := status.late(pod, run, clock):
        yield [("   ", ""), (phrase, "warn bold")]
    elif attempt is not None and begins:
        begun = clock.wall() + (pod.link.clock_offset or 0.0) - attempt.started_t
        yield [("   no step yet", "bold"), (f", begun {formatting.duration(begun)} ago", "dim")]
    else:
        eta = status.eta(pod, run, clock)
        yield [
            ("   eta ", "dim"),
            (formatting.NONE if eta is None else formatting.duration(eta), "bold"),
        ]
        yield [("   step time ", "dim"), (formatting.pace(run.step_seconds()), "bold")]
        if run.has_stepped and run.step_seen is not None:
            ago = formatting.duration(clock.mono() - run.step_seen)
            yield [("   last step ", "dim"), (f"{ago} ago", "")]
    throughput = newest(run.trainer_steps, "throughput")
    if throughput is not None and not begins:
        yield [("   ", ""), (f"{throughput:,.0f}", "bold"), (" tok/s", "dim")]
    yield [("   ", ""), (run.view.trainer, "dim")]


def bar(share: float, width: int, role: str = "accent") -> Line:
    """Return a bar of `width` cells like "━━━━━━━───" as a styled line. `share`, from 0 to 1, says
    how much of the bar is filled, and `role` is the style of that part.
    """
    full = round(min(max(share, 0.0), 1.0) * width)
    return [(BAR * full, role), (REST * (width - full), "rule")]


def host_line(pod: PodState, clock: Clock, width: int) -> Line:
    """Return one line of at most `width` cells about the pod's host now: CPU, memory, /dev/shm,
    disks, and which sources (such as the kernel log) the agent cannot read there. The line is grey
    if the telemetry is old.
    """
    line = _host(pod.latest, width)
    return cut(faded(line) if is_old(pod, clock) else line, width)


def host_line_then(sample: Telemetry | None, width: int) -> Line:
    """Return one line of at most `width` cells about the pod's host at the time cursor (a past
    moment): CPU, memory, /dev/shm and disks. `sample` is the telemetry record of that moment; with
    None the line says that it is not known.
    """
    if sample is None:
        return [(" host ", "head"), ("not known of that moment", "dim")]
    return cut(_host(sample, width), width)


def _host(record: Telemetry, width: int) -> Line:
    host: Host = record.get("host") or {}
    if not host:
        return [(" host ", "head"), ("nothing received", "dim")]
    line: Line = [
        (" host ", "head"),
        ("cpu ", "dim"),
        (formatting.whole_percent(host.get("cpu")), ""),
    ]
    if host.get("cores") and width >= 110:
        line.append((f" of {host['cores']} cores", "dim"))
    gap = "   " if width >= 100 else "  "
    parts: list[Line] = []
    for disk in host.get("disks") or []:
        parts.append(_disk(gap, disk, 16 if width < 100 else 40))
    # The last is the first to be left out on a narrow terminal.
    parts.append(_amount(gap, "mem", host.get("mem_used"), host.get("mem_total")))
    parts.append(_amount(gap, "shm", host.get("shm_used"), host.get("shm_total")))
    hidden = []
    for name, how in (record.get("coverage") or {}).items():
        if how == "hidden":
            hidden.append(name)
    if hidden:
        names = ", ".join(hidden).replace("_", " ")
        what = "not visible:" if width >= 100 else "◌"
        parts.append([(f"{gap}{what} ", "dim"), (names, "warn")])
    if width_of(chain(line, *parts)) > width:
        # On a narrow terminal the parts that show a problem, or that are not visible, must not be
        # left out.
        parts.sort(key=_is_calm)
    return whole([line, *parts], width)


def _is_calm(part: Line) -> bool:
    return not any("bold" in style or style == "warn" for _, style in part)


def is_old(pod: PodState, clock: Clock) -> bool:
    """Return True if the pod's newest telemetry arrived more than FRESH_S (5) seconds ago, or if
    none ever has.
    """
    return status.is_old(status.age(pod, clock))


def faded(line: Line) -> Line:
    """Return the styled line in grey, to show that its numbers are not current. Headings, warnings
    and errors keep their style.
    """
    found = []
    for text, style in line:
        found.append((text, style if style in _LASTING else "dim"))
    return found


def _amount(gap: str, name: str, used: float | None, total: float | None) -> Line:
    line: Line = [(f"{gap}{name} ", "dim")]
    share = formatting.percent(used, total)
    if share is None:
        return [*line, (formatting.NONE, "dim")]
    full = share >= status.FULL_PERCENT
    line.append((f"{formatting.gib(used)}/{formatting.gib(total)}G", ""))
    return [*line, (f" {share:.0f}%{' FULL' if full else ''}", "warn bold" if full else "dim")]


def _disk(gap: str, disk: DiskUsage, room: int) -> Line:
    """Return a disk as "/data 41% used, 1.2 TiB free": what is free decides what may be done. Its
    path takes at most `room` cells.
    """
    path = formatting.path_end(disk.get("path", "disk"), room)
    line: Line = [(f"{gap}{path} ", "dim")]
    share, free = disk_percent(disk), disk.get("free")
    if share is None:
        line.append((formatting.NONE, "dim"))
    else:
        if free is None:
            free = (disk.get("total") or 0) - (disk.get("used") or 0)
        full = share >= status.FULL_PERCENT
        word, role = ("FULL", "warn bold") if full else ("used", "")
        line.append((f"{share:.0f}% {word}, {formatting.size(free)} free", role))
    if disk.get("read_only"):
        line.append((" READ-ONLY", "bad bold"))
    return line


def components_line(pod: PodState, run: RunState, clock: Clock, width: int) -> Line:
    """Return one line of at most `width` cells with the processes of the run by component, for
    example "launcher 812  engine 830"; dead and stopped processes are marked. If the telemetry is
    old, the line says so and shows no process as healthy. Without processes it says why there are
    none.
    """
    line: Line = [(" procs", "head")]
    old = is_old(pod, clock)
    if old and run.components:
        line.append((f" seen {formatting.age(status.age(pod, clock))} ago", "warn"))
    if run.components:
        return cut([*line, *_components(run.components, width, old=old)], width)
    why = " none seen" if run.alive else " none: the run is not alive"
    if run.word in ("registered", "starting"):
        why = " none seen yet"
    return [*line, (why, "dim")]


def components_then(sample: Telemetry | None, run: RunState, width: int) -> Line:
    """Return one line of at most `width` cells with the processes that the run had at the time
    cursor (a past moment), by component; dead and stopped ones are marked. `sample` is the
    telemetry record of that moment; with None the line says that it is not known.
    """
    line: Line = [(" procs", "head")]
    if sample is None:
        return [*line, (" not known of that moment", "dim")]
    entry = next(
        (entry for entry in sample.get("runs") or [] if entry.get("run") == run.name), None
    )
    if entry is None or not entry.get("components"):
        return [*line, (" none then", "dim")]
    return cut([*line, *_components(entry["components"], width, old=False)], width)


def _components(components: Sequence[Process], width: int, *, old: bool) -> Line:
    grouped: dict[str, list[Process]] = {}
    for component in components:
        grouped.setdefault(component.get("component") or "other", []).append(component)
    # Dead and stopped components come first, so that they are not cut off at the right.
    names = sorted(grouped, key=lambda name: _placed(name, COMPONENTS))
    names.sort(key=lambda name: not any(_count(grouped[name])))
    line: Line = []
    for name in names:
        line += _component(name, grouped[name], width >= 100)
    return faded(line) if old else line


def _count(found: Iterable[Process]) -> tuple[int, int]:
    """Return how many of the processes are dead, and how many are stopped."""
    dead = stopped = 0
    for component in found:
        dead += component.get("state") in status.DEAD
        stopped += component.get("state") in status.STOPPED
    return dead, stopped


def _placed(name: str, order: Sequence[str]) -> tuple[int, str]:
    """Return the key that sorts names in this order, and others behind them by name."""
    return order.index(name) if name in order else len(order), name


def _component(name: str, found: Sequence[Process], pids: bool) -> Line:
    dead, stopped = _count(found)
    sign, role, count, word = "●", "good", 0, ""
    if dead:
        sign, role, count, word = "✖", "bad bold", dead, "dead"
    elif stopped:
        sign, role, count, word = "‖", "warn bold", stopped, "stopped"
    line: Line = [("  " if pids else " ", ""), (sign, role), (f" {name}", "bold" if count else "")]
    if len(found) > 1:
        line.append((f" ×{len(found)}", "dim"))
    elif pids:
        line.append((f" {found[0].get('pid')}", "dim"))
    if count:
        line.append((f" {word}" if count == len(found) else f" {count} {word}", role))
    return line


def alarm_lines(
    pod: PodState, run: RunState, clock: Clock, keys: dict[str, str], width: int, most: int = 3
) -> list[Line]:
    """Return what is wrong with the run now, in at most `most` lines of at most `width` cells: a
    pod that is lost or a link that is down, then the run's open incidents, each with the key that
    helps. `keys` maps command ids to keys. The result is empty if nothing is wrong.
    """
    lines: list[Line] = []
    known = status.lost(pod)
    if known is not None and pod.lost is not None:
        sign = "alarm" if known.rank == 4 else "caution"
        told: Line = [(f" {known.sign} ", sign), (f" {known.word}: ", known.role)]
        open_it: Line = [(keys["pod"], "key @pod"), (" signs and what to do ", "@pod")]
        sentence: list[Line] = [[(pod.lost.sentence, "")]]
        if most > 1:
            sentence = fold(pod.lost.sentence, width - width_of(told) - width_of(open_it) - 2)
        lines.append(
            spread(cut([*told, *sentence[0]], width - width_of(open_it) - 1), open_it, width)
        )
        if most > 1:
            rest = " ".join([*map(text_of, sentence[1:]), pod.lost.next_step])
            lines.append(cut([("     ", ""), (rest, "")], width))
    elif status.link_down(pod):
        why, retry = " The run is not judged by that.", [(keys["retry"], "key @retry")]
        retry.append((" reconnect ", "@retry"))
        if status.recorded(pod):
            why, retry = f" {pod.link.detail}", []
        left: Line = [
            (" ? ", "caution"),
            (f" {pod.name} {status.link_words(pod, clock)}.", "warn bold"),
            (why, ""),
        ]
        lines.append(spread(cut(left, width - width_of(retry) - 1), retry, width))
    for incident in pod.ledger.open_incidents(run.name):
        left = [(" ▲ ", "warn bold"), (f" {incident.title}", "warn bold")]
        if incident.severity == "critical":
            left = [(" ✖ ", "alarm"), (f" {incident.title}", "bad bold")]
        tail = _incident_key(pod, incident.playbook, run.name, keys)
        if width_of(left) + width_of(tail) > width:
            # The title is more important than the words beside the key.
            tail = [tail[-2], (" fix ", "@incident")]
        since: Line = [(f"  {formatting.duration(clock.wall() - incident.opened_t)}", "dim")]
        left = whole([left, since], width - width_of(tail) - 1)
        if incident.summary and width - width_of(left) - width_of(tail) > 30:
            left.append((f"  {incident.summary}", "dim"))
        lines.append(spread(cut(left, max(10, width - width_of(tail) - 1)), tail, width))
    return lines[:most]


def alarm_lines_then(
    pod: PodState, run: RunState, t: float, keys: dict[str, str], width: int, most: int = 3
) -> list[Line]:
    """Return the run's incidents that were open at the time cursor (a past moment), then the first
    incident that was opened after that moment, in at most `most` lines of at most `width` cells.
    `t` is the moment as a Unix time in seconds by the pod's clock. `keys` maps command ids to keys.
    The result is empty if there are no such incidents.
    """
    lines: list[Line] = []
    mine = sorted(
        (i for i in pod.ledger.incidents.values() if i.run == run.name), key=lambda i: i.opened_t
    )
    for incident in mine:
        if incident.opened_t <= t and (incident.state == "open" or incident.updated_t > t):
            sign, role = "▲", "warn bold"
            if incident.severity == "critical":
                sign, role = "✖", "bad bold"
            left: Line = [
                (f" {sign} ", role),
                (f" {incident.title}", role),
                (f"  then for {formatting.duration(t - incident.opened_t)}", "dim"),
            ]
            lines.append(cut(left, width))
    later = [i for i in mine if i.opened_t > t]
    if later and len(lines) < most:
        first = later[0]
        left = [
            (" ◌ ", "dim"),
            (f" {formatting.duration(first.opened_t - t)} later: ", "dim"),
            (first.title, ""),
            (f" and {len(later) - 1} more" if len(later) > 1 else "", "dim"),
        ]
        tail: Line = []
        if first.state == "open":
            tail = [(keys["incident"], "key @incident"), (" evidence and fix ", "@incident")]
        lines.append(spread(cut(left, max(10, width - width_of(tail) - 1)), tail, width))
    return lines[:most]


def _incident_key(pod: PodState, playbook: str | None, run: str, keys: dict[str, str]) -> Line:
    if status.fixing(pod, run):
        return [
            ("↻ fix is running  ", "accent bold"),
            (keys["incident"], "key @incident"),
            (" watch ", "@incident"),
        ]
    ready = any(
        p.run == run and p.playbook == playbook and not p.refused for p in pod.ledger.plans.values()
    )
    return [
        (keys["incident"], "key @incident"),
        (" see the plan " if ready else " evidence and fix ", "@incident"),
    ]


def sources(pod: PodState, run: str) -> list[str]:
    """Return the names of the run's log streams on the pod, for example "log/math-7b/trainer" for
    the trainer of the run math-7b. Orchestrator, trainer and inference come first, then the
    launcher, then the others sorted by name. `run` is the run's name.
    """
    prefix = f"log/{run}/"
    found = [name for name in pod.streams if name.startswith(prefix)]
    return sorted(found, key=lambda name: _placed(name.removeprefix(prefix), SOURCES))


def short(stream: str) -> str:
    """Return the source at the end of `stream`, the name of a log stream, shortened for the column
    of sources in a log: for "log/math-7b/orchestrator" it is "orch".
    """
    name = stream.rpartition("/")[2]
    return {"orchestrator": "orch", "inference": "infer"}.get(name, name)
