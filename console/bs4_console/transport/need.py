"""The requirements for the agent on a pod: the script that reports what the pod has, its answer,
and the errors if something is missing.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

from bs4_common.wire import AHEAD_VARIABLE
from bs4_console.errors import DeployFailed, NoPython, NoSpace
from bs4_console.transport.bundle import MACHINES, PYTHON_MIN, PYTHON_MIN_TEXT, Bundle

#: The script's argument, in place of a hash name, for which any installed bundle will do.
ANY = "any"
#: The script's argument, in place of the KiB that deploying needs, which makes it change nothing.
LOOK = "look"

_WANTED = PYTHON_MIN[0] * 100 + PYTHON_MIN[1]

# The script is joined to one line and sent in single quotes, which sh, bash, zsh, fish and csh read
# alike only if there is no newline, ', ! and \ inside. A line before it sets BS4_AHEAD. $1 is the
# token, $2 the hash name or "any", $3 the KiB that deploying needs, or "look" to change nothing.
# Further arguments go to attach. The file `ok` has the Python, the hash name and "version build" on
# three lines; it exists only if the bundle is complete. The output begins with an empty line,
# because a start-up file may have printed a line without its end. -I: no PYTHON* variables, no user
# site, nothing from the working directory. -S: no site-packages, whose .pth files run code.
# Directories are made only if all else is as it must be, so that a pod that cannot take the agent
# is left as it was.
_ATTACH = (
    """
echo; t=$1; h=$2; n=$3; shift 3;
B=${BS4_HOME:-$HOME/.bs4}; p=; c=; v=;
if [ -r "$B/current/ok" ]; then { read -r p; read -r c; read -r v; } < "$B/current/ok"; fi;
if [ -n "$c" ] && [ -x "$p" ] && { [ "$c" = "$h" ] || [ "$h" = any ]; }; then
a="$B/agent/$c/bs4_agent"; r=ready;
if [ -n "$AHEAD" ] && [ -e "$a/lifecycle/ahead.py" ]; then r="ready ahead";
else unset AHEAD; fi;
echo "$t $r"; exec "$p" -IS "$a/bootstrap.py" attach "$@";
fi;
[ "$n" = look ] && { echo "$t end"; exit 0; };
if [ -n "$c" ] && [ -x "$p" ]; then echo "$t current $c $v"; fi;
g=; k="import sys,ctypes,zlib;v=sys.version_info;print(v[0]*100+v[1],sys.executable)";
for x in python3 python3.13 python3.12 python3.11 python3.10 python3.14
/usr/local/bin/python3 /opt/conda/bin/python3 /opt/*/bin/python3 /venv/*/bin/python3
"$HOME"/.local/bin/python3 "$HOME"/.local/bin/python3.1?
"$HOME"/*conda*/bin/python3 "$HOME"/mini*/bin/python3
"$HOME"/.local/share/uv/python/*/bin/python3 "$HOME"/.pyenv/versions/*/bin/python3 python; do
f=$(command -v "$x" 2>/dev/null) || continue;
i=$("$f" -IS -c "$k" 2>/dev/null) || { echo "$t broken $f"; continue; };
echo "$t python $i"; if [ "${i%% *}" -ge WANTED ]; then g=1; break; fi;
done;
s=$(uname -s); m=$(uname -m); echo "$t machine $s $m"; case $s-$m in MACHINES) ;; *) g=;; esac;
d=$B/agent; [ -d "$d" ] || d=$B; [ -d "$d" ] || d=${B%/*};
a=$(LC_ALL=C df -Pk "$d" 2>/dev/null | { read -r x; read -r x x x a x; echo "$a"; });
echo "$t free $a"; [ "${a:-$n}" -ge "$n" ] || g=;
if [ -n "$g" ]; then umask 077;
e=$( { LC_ALL=C mkdir -p "$B/agent" && [ -w "$B/agent" ]; } 2>&1)
|| echo "$t unwritable $e"; fi;
echo "$t home $B"; echo "$t end"
""".replace("AHEAD", AHEAD_VARIABLE)
    .replace("WANTED", str(_WANTED))
    .replace("MACHINES", "|".join(f"Linux-{machine}" for machine in MACHINES))
)
ATTACH = " ".join(_ATTACH.split("\n")).strip()


@dataclass(kw_only=True)
class Need:
    """What a pod has reported about itself because the wanted agent bundle did not run there.
    `pythons` has a pair (100 * major + minor version, path) for each of its Pythons, and `broken`
    the paths of Pythons that do not run. `machine` and `system` are the machine type and the system
    as `uname` prints them, and `home` is the agent's home directory. `free_kib` is the free disk
    space for the agent in KiB, or None if unknown. `unwritable` is the error text if `home` cannot
    be written, else None. `current` is the installed bundle (name, version, build number), or None.
    """

    pythons: list[tuple[int, str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    machine: str = ""
    system: str = ""
    home: str = ""
    free_kib: int | None = None
    unwritable: str | None = None
    current: tuple[str, str, int] | None = None

    @property
    def python(self) -> str | None:
        """Return the path of the first Python on the pod that is new enough for the agent, or None
        if the pod has none.
        """
        for version, path in self.pythons:
            if version >= _WANTED:
                return path
        return None


def script(token: str, name: str, mode: str, *arguments: str, ahead: bytes = b"") -> list[str]:
    """Return a shell command, as a list of words, that runs on a pod. It connects to the agent from
    the bundle `name` or, if that does not run there, reports what the pod has. With the constant
    ANY as the name, any installed bundle will do. `mode` is LOOK, which changes nothing on the pod,
    or the disk space in KiB that an installation needs, as text. `token` is a text with which the
    lines of output begin that are meant for the console, and `arguments` are passed on to the
    agent.

    `ahead` are the first bytes for the agent, at most AHEAD_LIMIT of them. If the agent's version
    can read such bytes, it gets them, and the printed line is `ready ahead` in place of `ready`.
    They are part of the script's text, because older versions of the agent accept no further
    argument.
    """
    first = f"{AHEAD_VARIABLE}={base64.b64encode(ahead).decode()}; export {AHEAD_VARIABLE}; "
    return ["sh", "-c", first + ATTACH, "bs4", token, name, mode, *arguments]


def parse(lines: Sequence[str]) -> Need:
    """Return what a pod has reported about itself (its Pythons, machine type, free disk space and
    so on) because the wanted agent bundle did not run there. `lines` are the lines that the command
    of `script` has printed on the pod, without the token at their beginning. Lines that make no
    sense are skipped, because the pod is not trusted.
    """
    need = Need()
    for line in lines:
        key, _, rest = line.partition(" ")
        if key == "python":
            version, _, path = rest.partition(" ")
            if version.isdecimal() and len(version) < 6:
                need.pythons.append((int(version), path))
        elif key == "broken":
            need.broken.append(rest)
        elif key == "machine":
            need.system, _, need.machine = rest.partition(" ")
        elif key == "home":
            need.home = rest
        elif key == "free":
            need.free_kib = int(rest) if rest.isdecimal() and len(rest) < 19 else None
        elif key == "unwritable":
            need.unwritable = rest.strip()
        elif key == "current":
            name, version, build = [*rest.split(), "0", "0"][:3]
            if build.isdecimal() and len(build) < 19:
                need.current = (name, version, int(build))
    return need


def check(label: str, need: Need, bundle: Bundle) -> str:
    """Return the path of the Python on the pod with which `bundle` can be installed. `need` is what
    the pod has reported, and `label` names the pod in messages. Raises NoPython, NoSpace or
    DeployFailed, before anything is sent, if the report shows that the bundle cannot be installed.
    """
    if need.system and (need.system != "Linux" or need.machine not in MACHINES):
        raise DeployFailed(
            f"{label} is a {need.system} {need.machine} machine; the agent is made for Linux "
            f"on {' and '.join(MACHINES)}.",
            "Use a pod of one of these.",
        )
    if need.python is None:
        found = max(need.pythons, default=None)
        if found is not None:
            what = (
                f"{label} has Python {found[0] // 100}.{found[0] % 100} ({found[1]}); the agent "
                f"needs {PYTHON_MIN_TEXT} or newer."
            )
        elif need.broken:
            what = (
                f"{label} has no usable Python: {need.broken[0]} does not run, or lacks ctypes "
                "or zlib."
            )
        else:
            what = f"{label} has no python3."
        raise NoPython(
            what,
            "Install one there, for instance `apt-get install python3` or `uv python install "
            "3.12`, then try again.",
        )
    if need.unwritable is not None and "No space left" not in need.unwritable:
        raise DeployFailed(
            f"{need.home} on {label} cannot be written: {need.unwritable or 'permission denied'}.",
            "Make the home directory writable, or set BS4_HOME there (~/.ssh/environment, "
            "SetEnv) to a directory that is.",
        )
    free = 0 if need.unwritable is not None else need.free_kib
    if free is not None and free < wanted_kib(bundle):
        raise no_space(label, bundle, free)
    return need.python


def wanted_kib(bundle: Bundle) -> int:
    """Return the disk space in KiB that the installation of the bundle needs on a pod."""
    return (len(bundle.data) + bundle.unpacked) // 1024 + 1


def no_space(label: str, bundle: Bundle, free_kib: int) -> NoSpace:
    """Return the error for a disk with only `free_kib` KiB free, which is too little for the
    bundle. It is returned and not raised. `label` names the pod in the message.
    """
    return NoSpace(
        f"The home directory of {label} has {free_kib} KiB free; the agent needs "
        f"{wanted_kib(bundle)} KiB.",
        "Free space there (`df -h ~`, old caches in ~/.cache), or set BS4_HOME to a "
        "directory with room. Nothing was left behind.",
    )
