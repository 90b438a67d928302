"""Handle the boot hook, which starts the agent again when a pod comes back by itself: the line that
each platform needs, and whether a hook is installed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from bs4_common.foreign_json import loads
from bs4_console.errors import ConsoleError, RefusedError
from bs4_console.pods.gate import rules
from bs4_console.pods.port import Transport

PLATFORMS = ("vast", "runpod", "cron", "systemd")
#: The platforms whose hook this console can install. The others are set where the machine is
#: rented.
INSTALLABLE = ("cron", "systemd")
PLAYBOOK = "resume-after-restart"
UNIT = "bs4-agent.service"
_MARK = "bs4_agent/bootstrap.py boot"

#: A shell script that prints facts as NAME=VALUE lines and changes nothing. $1 is the mark of our
#: line, $2 the unit's name.
_LOOK = """
B=${BS4_HOME:-$HOME/.bs4}
echo "home=$B"; echo "uid=$(id -u)"
[ -e "$B/current/bs4_agent/bootstrap.py" ] && echo agent=yes
[ -f "$B/agent.json" ] && echo "record=$(tr -d '\\n' <"$B/agent.json")"
[ -f "$B/boot.json" ] && echo "boot=$(tr -d '\\n' <"$B/boot.json")"
echo "boot_id=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
[ -d /run/systemd/system ] && echo systemd=runs
[ -e "$HOME/.config/systemd/user/default.target.wants/$2" ] && echo "hook=systemd"
[ -e "/var/lib/systemd/linger/$(id -un)" ] && echo linger=yes
command -v crontab >/dev/null 2>&1 && echo crontab=yes &&
  crontab -l 2>/dev/null | grep -qF "$1" && echo "hook=cron"
for p in /proc/[0-9]*/comm; do read -r n <"$p" 2>/dev/null || continue
  case $n in cron|crond) echo cron=runs; break;; esac; done
[ -f /root/onstart.sh ] && echo vast=yes && grep -qF "$1" /root/onstart.sh && echo "hook=vast"
tr '\\0' '\\n' </proc/1/environ 2>/dev/null | grep -q '^RUNPOD_POD_ID=' && echo runpod=yes
tr '\\0' ' ' </proc/1/cmdline 2>/dev/null | grep -qF "$1" && echo "hook=runpod"
df -P "$B" 2>/dev/null | tail -n 1 | { read -r a b c d e mount; echo "mount=$mount"; }
true
"""
_PUT_CRON = (
    '{ crontab -l 2>/dev/null | grep -vF "$1"; [ -z "$2" ] || printf "%s\\n" "$2"; } | crontab -'
)
_PUT_UNIT = """
set -e
d=$HOME/.config/systemd/user; mkdir -p "$d"; printf '%s' "$2" >"$d/.$1.new"; mv "$d/.$1.new" "$d/$1"
systemctl --user daemon-reload; systemctl --user enable "$1"
"""
_DROP_UNIT = (
    'systemctl --user disable "$1" 2>/dev/null; rm -f "$HOME/.config/systemd/user/$1"; systemctl '
    "--user daemon-reload"
)


class NoAgentThere(ConsoleError):
    """Raised if the pod has no agent installed, so that a boot hook would have nothing to start."""


class HookStart(TypedDict, total=False):
    """The pod's record of the last time at which a boot hook has started its agent."""

    t: float
    """The Unix time in seconds of that start."""
    m: float
    """The same time in seconds of the pod's monotonic clock, which begins anew at each boot."""
    b: str
    """The id of the boot of the machine to which that clock belongs."""
    via: str
    """The name of the hook: vast, runpod, cron or systemd."""
    pid: int | None
    """The process id of the agent that was started."""


_START = rules.Shape(
    {},
    {
        "t": rules.wall,
        "m": rules.number,
        "b": rules.text,
        "via": rules.text,
        "pid": rules.whole,
    },
)
_AGENT = rules.Shape({}, {"restart": rules.texts})


@dataclass(frozen=True)
class Seen:
    """What `probe` has found out about one pod and its boot hooks, which start the agent again
    after a reboot.

    `home` is the agent's home directory on the pod and `python` the interpreter that runs the
    agent. `hooks` names the installed hooks (vast, runpod, cron, systemd). `facts` are further
    answers of the pod by name, such as boot_id, crontab or linger. `last` is the pod's record of
    the last start by a hook, or None if no hook has started the agent yet.
    """

    home: str
    python: str
    hooks: Sequence[str]
    facts: Mapping[str, str]
    last: HookStart | None

    @property
    def command(self) -> str:
        """Return the shell command that a boot hook on this pod has to run to start the agent,
        whether there is a hook yet or not.
        """
        return (
            f"{shlex.quote(self.python)} -IS "
            f"{shlex.quote(f'{self.home}/current/{_MARK.split()[0]}')} boot"
        )

    @property
    def worked(self) -> bool:
        """Return True if a hook has started the agent since the machine last booted. Return False
        if none has, or if the last start by a hook belongs to an earlier boot.
        """
        return self.last is not None and self.last.get("b") == self.facts.get("boot_id")


async def probe(link: Transport, pod: str) -> Seen:
    """Probe a pod for boot hooks, without changing anything on it, and return what was found.
    `link` is the connection to the pod, and `pod` its name, which is used only in the message of an
    error. Raises NoAgentThere if no agent is installed on the pod. Raises Unreachable if the pod
    does not answer in time.
    """
    done = await link.run(["sh", "-c", _LOOK, "sh", _MARK, UNIT])
    facts, hooks = {}, []
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if equals:
            facts[name] = value
        if name == "hook":
            hooks.append(value)
    if facts.get("agent") != "yes":
        raise NoAgentThere(
            f"There is no agent on {pod} that a hook could start.",
            f"Put it there with `bs4-console deploy --pod {pod}`.",
        )
    agent = _checked(facts.get("record"), _AGENT) or {}
    restart = agent.get("restart") or ["python3"]
    return Seen(facts["home"], restart[0], hooks, facts, _checked(facts.get("boot"), _START))


def text(platform: str, seen: Seen) -> str:
    """Return the text of the boot hook for `platform` (vast, runpod, cron or systemd), ready for a
    person to paste: an on-start line, a container start command, a crontab line or a systemd unit.
    `seen` is what `probe` has found out about the pod; the paths in the text are taken from it.
    """
    return {"vast": _vast, "runpod": _runpod, "cron": cron_line, "systemd": unit}[platform](seen)


def where(platform: str) -> str:
    """Return sentences that tell a person where to put the boot hook of `platform` (vast, runpod,
    cron or systemd), and what must be there on the pod for it to work. The boot hook is the line
    or unit file that starts the agent again when the pod boots.
    """
    return {
        "vast": (
            "Append this line to /root/onstart.sh on the instance; Vast runs that file at every "
            "start of the container. For the next instance give it as its on-start script."
        ),
        "runpod": (
            "Give this as the container start command (`dockerArgs`) of the pod or its template. "
            "Only /workspace outlives a stop there, so the agent's home, prime-rl and the run's "
            "output have to be below it (BS4_HOME=/workspace/.bs4)."
        ),
        "cron": (
            "A line for `crontab -e`; `--install cron` puts it there. It needs a cron daemon "
            "that runs."
        ),
        "systemd": (
            f"A user's unit, ~/.config/systemd/user/{UNIT}; `--install systemd` puts it there. "
            "Without `loginctl enable-linger` it starts with the first login only."
        ),
    }[platform]


def cron_line(seen: Seen) -> str:
    """Return the crontab line that starts the agent when the pod boots. `seen` is what `probe` has
    found out about the pod; the paths in the line are taken from it.
    """
    return (
        f"@reboot {_home(seen)}{seen.command} --via cron "
        f">>{shlex.quote(seen.home + '/agent.log')} 2>&1"
    )


def unit(seen: Seen) -> str:
    """Return the text of a systemd user unit that starts the agent when the pod boots. `seen` is
    what `probe` has found out about the pod; the paths in the text are taken from it.

    The unit has KillMode=process and no main process, so stopping the unit does not end the
    processes of runs. KillMode=none would do the same, but is deprecated.
    """
    words = [seen.python, "-IS", f"{seen.home}/current/{_MARK.split()[0]}", "boot"]
    quoted = " ".join(f'"{word}"' if " " in word else word for word in words)
    return (
        "[Unit]\nDescription=bs4-console agent: watches training runs, resumes them by their "
        "mode\nAfter=network-online.target\n\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nKillMode=process\n"
        f'Environment="BS4_HOME={seen.home}"\n'
        f"ExecStart={quoted} --via systemd\nExecStop={quoted} --stopping\n\n[Install]\n"
        "WantedBy=default.target\n"
    )


def _vast(seen: Seen) -> str:
    return f"{_home(seen)}{seen.command} --via vast >>{shlex.quote(seen.home + '/agent.log')} 2>&1"


def _runpod(seen: Seen) -> str:
    """Return the container start command for RunPod.

    The image's own start script goes on below it. TERM, which comes seconds before KILL, is passed
    on after the agent has received it. If it comes before that script was started, the script is
    not started any more. The trap is set first, because whatever comes before it would end, or (as
    process 1) be ignored, without a word to the agent.
    """
    boot = f"{_home(seen)}{seen.command}"
    script = (
        f'trap "{boot} --stopping; kill -TERM \\$! 2>/dev/null || exit" TERM; '
        f"{boot} --via runpod; /start.sh & wait $!; wait $!"
    )
    return f"bash -c {shlex.quote(script)}"


def _home(seen: Seen) -> str:
    return f"BS4_HOME={shlex.quote(seen.home)} "


async def install(link: Transport, platform: str, seen: Seen) -> None:
    """Install the boot hook of `platform`, which must be `cron` or `systemd`, on the pod. `link` is
    the connection to the pod, and `seen` is what `probe` has found out about it, from which the
    hook's command is made. An earlier hook of the same platform is replaced. Raises RefusedError
    with the pod's own message if the command that installs the hook fails on the pod. Raises
    Unreachable if the pod does not answer in time.
    """
    if platform == "cron":
        done = await link.run(["sh", "-c", _PUT_CRON, "sh", _MARK, cron_line(seen)])
    else:
        done = await link.run(["sh", "-c", _PUT_UNIT, "sh", UNIT, unit(seen)])
    if done.exit_status != 0:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [
            f"exit code {done.exit_status}"
        ]
        raise RefusedError(
            f"The {platform} hook could not be put there: {why[0][:300]}.",
            f"Print it with --print {platform} instead.",
        )


async def remove(link: Transport, seen: Seen) -> list[str]:
    """Remove the cron and systemd boot hooks that `seen` lists from the pod. Return the names of
    the platforms whose hook was removed, or an empty list if there was nothing to remove. Hooks of
    vast and runpod stay: they are set where the machine is rented. Raises Unreachable if the pod
    does not answer in time.
    """
    gone = [name for name in seen.hooks if name in INSTALLABLE]
    if "cron" in gone:
        await link.run(["sh", "-c", _PUT_CRON, "sh", _MARK, ""])
    if "systemd" in gone:
        await link.run(["sh", "-c", _DROP_UNIT, "sh", UNIT])
    return gone


def verdict(seen: Seen) -> list[str]:
    """Return sentences for a person: which boot hooks are installed, whether they have started the
    agent, and what would keep them from starting it (no linger, no cron daemon). Without any hook,
    the text says so and names the hook that suits this machine, if one does.
    """
    facts = seen.facts
    if not seen.hooks:
        found = "No service of it that starts things was found: no cron, no systemd."
        for name, fits in (
            ("vast", facts.get("vast") == "yes"),
            ("runpod", facts.get("runpod") == "yes"),
            ("systemd", facts.get("systemd") == "runs"),
            ("cron", facts.get("cron") == "runs" and facts.get("crontab") == "yes"),
        ):
            if fits:
                found = f"`--print {name}` is for this machine."
                break
        return [
            "There is no boot hook: after a restart nobody watches before a console connects. "
            + found
        ]
    lines = [f"Boot hook: {', '.join(seen.hooks)}."]
    if seen.last is None:
        lines.append("It has not started the agent yet: the machine was not restarted since.")
    elif seen.worked:
        lines.append("It has started the agent in this life of the machine.")
    else:
        lines.append("It last started the agent in an earlier life.")
    if "systemd" in seen.hooks and facts.get("linger") != "yes":
        lines.append(
            "Its user does not linger: `loginctl enable-linger` lets it start without a login."
        )
    if "cron" in seen.hooks and facts.get("cron") != "runs":
        lines.append("No cron daemon runs, so the line in the crontab starts nothing.")
    if "runpod" in seen.hooks and not facts.get("mount", "").startswith("/workspace"):
        lines.append(
            f"{seen.home} is on {facts.get('mount')}, which RunPod clears at a stop; only "
            "/workspace stays."
        )
    return lines


def _checked(value: str | None, shape: rules.Shape) -> Any:
    """Return the JSON object of this shape that is written in a fact of the probe, or None."""
    try:
        found = loads(value or "null")
        shape.check(found)
    except ValueError:
        return None
    return found
