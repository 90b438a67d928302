"""A run in lines: its identity, progress, processes, and what needs a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bs4_console.tui import status, words
from bs4_console.tui.ink import Line, cut, fold, spread, text_of, whole, width_of
from bs4_console.tui.views.fleet import newest, step_line

if TYPE_CHECKING:
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
#: States of a process, as words and as the kernel's letters.
DEAD, STOPPED = ("dead", "zombie", "Z", "X", "gone"), ("stopped", "T", "t")


def header(pod: PodState, run: RunState, clock: Clock, width: int) -> list[Line]:
    """Return two lines: state and identity, with link and age of the data on the right; then the
    run's numbers.
    """
    how = status.of(pod, run)
    attempt = run.view.attempt
    left: Line = [(" ", ""), *how.line(), ("  ", ""), (run.name, "bold"), (f" on {pod.name}", "")]
    if attempt:
        left.append((f" · attempt {attempt.number}", "dim"))
        if attempt.resume is not None:
            left.append((f" from step {attempt.resume}", "dim"))
    if run.view.adopted:
        left.append((" · adopted", "dim"))
    seen = status.age(pod, clock)
    right = [*status.link_line(pod), ("  ", ""), *_age_of("data", seen), (" ", "")]
    return [spread(left, right, width), whole(_numbers(pod, run, clock), width)]


def _age_of(what: str, seen: float | None) -> Line:
    return [
        (f"{what} ", "dim"),
        (words.old(seen), "warn bold" if seen is None or seen > words.FRESH_S else "good"),
    ]


def _numbers(pod: PodState, run: RunState, clock: Clock) -> list[Line]:
    """Return the run's numbers in parts, the most important first. On a narrow terminal the last
    parts are left out.
    """
    eta = None
    if not status.link_down(pod):
        eta = run.eta_seconds()
    phrase = status.late(pod, run, clock)
    throughput = newest(run.trainer_steps, "throughput")
    where: Line = [(" step ", "dim"), *step_line(run, "bold")]
    if run.view.max_steps and run.step is not None:
        share = min(1.0, (run.step + 1) / run.view.max_steps)
        where += [(" ", ""), *bar(share, 10), (f" {share:.0%}", "dim")]
    parts: list[Line] = [where]
    if phrase:
        parts.append([("   ", ""), (phrase, "warn bold")])
    else:
        parts.append(
            [("   eta ", "dim"), (words.NONE if eta is None else words.duration(eta), "bold")]
        )
        parts.append([("   step time ", "dim"), (words.pace(run.step_seconds()), "bold")])
        if run.step_seen is not None:
            parts.append(
                [
                    ("   last step ", "dim"),
                    (f"{words.duration(clock.mono() - run.step_seen)} ago", ""),
                ]
            )
    if throughput is not None:
        parts.append([("   ", ""), (f"{throughput:,.0f}", "bold"), (" tok/s", "dim")])
    return [*parts, [("   ", ""), (run.view.trainer, "dim")]]


def bar(share: float, width: int, role: str = "accent") -> Line:
    """Return a bar like "━━━━━━━───" for a share between 0 and 1. Its lines are thin, because eight
    full blocks above each other would outshine what is wrong.
    """
    full = round(min(max(share, 0.0), 1.0) * width)
    return [(BAR * full, role), (REST * (width - full), "rule")]


def host_line(pod: PodState, clock: Clock, width: int) -> Line:
    """Return CPU, load, memory, /dev/shm and disks of the host, and what is not visible there."""
    line = _host(pod.latest, width)
    return cut(faded(line) if is_old(pod, clock) else line, width)


def host_line_then(sample: dict[str, Any] | None, width: int) -> Line:
    """Return the line of the host at the time cursor. `sample` is None if nothing of that moment is
    known.
    """
    if sample is None:
        return [(" host ", "head"), ("not known of that moment", "dim")]
    return cut(_host(sample, width), width)


def _host(record: dict[str, Any], width: int) -> Line:
    host: dict[str, Any] = record.get("host") or {}
    if not host:
        return [(" host ", "head"), ("nothing received", "dim")]
    line: Line = [(" host ", "head"), ("cpu ", "dim"), (words.whole_percent(host.get("cpu")), "")]
    line += [(f" of {host['cores']} cores" if host.get("cores") and width >= 110 else "", "dim")]
    gap = "   " if width >= 100 else "  "
    parts = [
        _share(gap, "mem", host.get("mem_used"), host.get("mem_total")),
        _share(gap, "shm", host.get("shm_used"), host.get("shm_total")),
    ]
    for disk in host.get("disks") or []:
        part = _share(gap, str(disk.get("path", "disk")), disk.get("used"), disk.get("total"))
        parts.append([*part, (" READ-ONLY", "bad bold")] if disk.get("read_only") else part)
    hidden = []
    for name, how in (record.get("coverage") or {}).items():
        if how == "hidden":
            hidden.append(name.replace("_", " "))
    if hidden:
        parts.append(
            [
                (f"{gap}not visible: " if width >= 100 else f"{gap}◌ ", "dim"),
                (", ".join(hidden), "warn"),
            ]
        )
    # On a narrow terminal the parts that show a problem, or that are not visible, must not be left
    # out.
    told = sorted(
        parts, key=lambda part: not any("bold" in style or style == "warn" for _, style in part)
    )
    return whole(
        [
            line,
            *(
                parts
                if width_of([span for part in (line, *parts) for span in part]) <= width
                else told
            ),
        ],
        width,
    )


def is_old(pod: PodState, clock: Clock) -> bool:
    """Return True if the pod's newest telemetry is not current any more."""
    seen = status.age(pod, clock)
    return seen is None or seen > words.FRESH_S


def faded(line: Line) -> Line:
    """Return the line in grey, because its numbers are not current. Headings, warnings and errors
    keep their role.
    """
    rows = []
    for text, style in line:
        rows.append(
            (text, style if style in ("head", "rule", "warn", "warn bold", "bad bold") else "dim")
        )
    return rows


def _share(gap: str, name: str, used: float | None, total: float | None) -> Line:
    share = words.percent(used, total)
    line: Line = [(f"{gap}{name} ", "dim")]
    if share is None:
        return [*line, (words.NONE, "dim")]
    full = share >= status.FULL_PERCENT
    line.append((f"{words.gib(used)}/{words.gib(total)}G", ""))
    return [*line, (f" {share:.0f}%{' FULL' if full else ''}", "warn bold" if full else "dim")]


def components_line(pod: PodState, run: RunState, clock: Clock, width: int) -> Line:
    """Return the run's processes, for example "launcher 812  engine 830", with dead ones marked. If
    the data is old, the line says so and nothing is green.
    """
    line: Line = [(" procs", "head")]
    old = is_old(pod, clock)
    if old and run.components:
        line.append((f" seen {words.age(status.age(pod, clock))} ago", "warn"))
    if not run.components:
        begins = run.word in ("registered", "starting")
        return [
            *line,
            (
                " none seen yet"
                if begins
                else " none seen"
                if run.alive
                else " none: the run is not alive",
                "dim",
            ),
        ]
    return cut([*line, *_components(run.components, width, old=old)], width)


def components_then(sample: dict[str, Any] | None, run: RunState, width: int) -> Line:
    """Return the line of the run's processes at the time cursor. `sample` is None if nothing of
    that moment is known.
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


def _components(components: Sequence[dict[str, Any]], width: int, *, old: bool) -> Line:
    line: Line = []
    grouped: dict[str, list[dict[str, Any]]] = {}
    for component in components:
        grouped.setdefault(component.get("component") or "other", []).append(component)
    order = {name: i for i, name in enumerate(COMPONENTS)}
    # Dead and stopped components come first, so that they are not cut off at the right.
    for name in sorted(
        grouped,
        key=lambda n: (
            not any(c.get("state") in (*DEAD, *STOPPED) for c in grouped[n]),
            order.get(n, 99),
            n,
        ),
    ):
        part = _component(name, grouped[name], width >= 100)
        if old:
            line += faded(part)
        else:
            line += part
    return line


def _component(name: str, found: list[dict[str, Any]], pids: bool) -> Line:
    dead = [c for c in found if c.get("state") in DEAD]
    stopped = []
    for c in found:
        if c.get("state") in STOPPED:
            stopped.append(c)
    line: Line = [
        ("  " if pids else " ", ""),
        (
            "✖" if dead else "‖" if stopped else "●",
            "bad bold" if dead else "warn bold" if stopped else "good",
        ),
    ]
    line.append((f" {name}", "bold" if dead or stopped else ""))
    if len(found) == 1:
        line.append((f" {found[0].get('pid')}" if pids else "", "dim"))
    else:
        line.append((f" ×{len(found)}", "dim"))
    if dead:
        line.append((" dead" if len(dead) == len(found) else f" {len(dead)} dead", "bad bold"))
    elif stopped:
        line.append(
            (" stopped" if len(stopped) == len(found) else f" {len(stopped)} stopped", "warn bold")
        )
    return line


def alarm_lines(
    pod: PodState, run: RunState, clock: Clock, keys: dict[str, str], width: int, most: int = 3
) -> list[Line]:
    """Return what is wrong and the key to press, in at most `most` lines. Empty if all is well."""
    lines: list[Line] = []
    known = status.lost(pod)
    if known is not None and pod.lost is not None:
        sign = "alarm" if known.rank == 4 else "caution"
        told: Line = [(f" {known.sign} ", sign), (f" {known.word}: ", known.role)]
        open_it: Line = [(keys["pod"], "key @pod"), (" signs and what to do ", "@pod")]
        if most > 1:
            sentence = fold(pod.lost.sentence, width - width_of(told) - width_of(open_it) - 2)
        else:
            sentence = [[(pod.lost.sentence, "")]]
        lines.append(
            spread(cut([*told, *sentence[0]], width - width_of(open_it) - 1), open_it, width)
        )
        if most > 1:
            rest = " ".join([*(text_of(line) for line in sentence[1:]), pod.lost.next_step])
            lines.append(cut([("     ", ""), (rest, "")], width))
    elif status.link_down(pod):
        left: Line = [
            (" ? ", "caution"),
            (f" {pod.name} {status.link_words(pod, clock)}.", "warn bold"),
            (
                f" {pod.link.detail}"
                if status.recorded(pod)
                else " The run is not judged by that.",
                "",
            ),
        ]
        retry: Line = []
        if not status.recorded(pod):
            retry = [(keys["retry"], "key @retry"), (" reconnect ", "@retry")]
        lines.append(spread(cut(left, width - width_of(retry) - 1), retry, width))
    for incident in pod.ledger.open_incidents(run.name):
        sign = "✖" if incident.severity == "critical" else "▲"
        role = "warn bold"
        if incident.severity == "critical":
            role = "bad bold"
        left = [
            (f" {sign} ", "alarm" if sign == "✖" else "warn bold"),
            (f" {incident.title}", role),
        ]
        tail = _incident_key(pod, incident.playbook, run.name, keys)
        if width_of(left) + width_of(tail) > width:
            # The title is more important than the words beside the key.
            tail = [
                tail[-2],
                (" fix ", "@incident"),
            ]
        since: Line = [(f"  {words.duration(clock.wall() - incident.opened_t)}", "dim")]
        left = whole([left, since], width - width_of(tail) - 1)
        if incident.summary and width - width_of(left) - width_of(tail) > 30:
            left.append((f"  {incident.summary}", "dim"))
        lines.append(spread(cut(left, max(10, width - width_of(tail) - 1)), tail, width))
    return lines[:most]


def alarm_lines_then(
    pod: PodState, run: RunState, t: float, keys: dict[str, str], width: int, most: int = 3
) -> list[Line]:
    """Return what was wrong at the time cursor, and what has opened since, in at most `most` lines.
    `t` is that moment by the pod's clock. An incident was open then if it had opened and not yet
    ended.
    """
    lines: list[Line] = []
    mine = sorted(
        (i for i in pod.ledger.incidents.values() if i.run == run.name), key=lambda i: i.opened_t
    )
    for incident in mine:
        if incident.opened_t <= t and (incident.state == "open" or incident.updated_t > t):
            if incident.severity == "critical":
                sign, role = ("✖", "bad bold")
            else:
                sign, role = ("▲", "warn bold")
            left: Line = [
                (f" {sign} ", role),
                (f" {incident.title}", role),
                (f"  then for {words.duration(t - incident.opened_t)}", "dim"),
            ]
            lines.append(cut(left, width))
    later = [i for i in mine if i.opened_t > t]
    if later and len(lines) < most:
        first = later[0]
        left = [
            (" ◌ ", "dim"),
            (f" {words.duration(first.opened_t - t)} later: ", "dim"),
            (first.title, ""),
        ]
        left.append((f" and {len(later) - 1} more" if len(later) > 1 else "", "dim"))
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
    """Return the log streams of the run, the usual ones first."""
    prefix = f"log/{run}/"
    found = [name for name in pod.streams if name.startswith(prefix)]
    order = {name: i for i, name in enumerate(SOURCES)}
    return sorted(found, key=lambda name: (order.get(name.removeprefix(prefix), 99), name))


def short(stream: str) -> str:
    """Return a stream's source as the source column shows it."""
    name = stream.rpartition("/")[2]
    return {"orchestrator": "orch", "inference": "infer"}.get(name, name)
