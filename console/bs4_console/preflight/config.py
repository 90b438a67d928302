"""Judge the config of a start: what lint finds in the file as it is on the pod, with the pod's own
facts, and what the trainer's own classes refuse.
"""

from __future__ import annotations

import contextlib
import itertools
import posixpath
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_common.preflight import GpuPart, Look, PodPart, SchemaBody, StartPart
from bs4_console.configs import classes
from bs4_console.configs.document import read_toml
from bs4_console.configs.findings import Finding, by_line
from bs4_console.configs.lint import lint
from bs4_console.configs.sizing.memory import estimate
from bs4_console.configs.view import Given
from bs4_console.errors import ConsoleError, NotApplicableError, RemoteError
from bs4_console.preflight.checks import GIB, Check, Subject, Wanted, said
from bs4_console.preflight.questions import Asks, name_of, sliced
from bs4_console.trainers import registry

_CONFIG: Subject = ("config-rejected", "config")
_CLASSES: Subject = ("schema", "the trainer's own schema")
#: Bytes of a config that are sent to a pod at most: a frame's header holds 64 KiB.
SENT = 40 * 1024
#: Seconds. Importing the classes of 2026-01 imports torch.
CLASSES_S = 120.0


def unread(why: str) -> Check:
    """Return the check that blocks a start whose config cannot be read. `why` is the pod's sentence
    about it.
    """
    what, _, todo = why.rpartition("; ")
    if not what:
        what, todo = why, "name a file that exists on the pod."
    return said(_CONFIG, "blocking", what, f"{todo[:1].upper()}{todo[1:]}")


def judge(
    files: Sequence[tuple[str, str]],
    wanted: Wanted,
    pod: PodPart | None,
    run: StartPart | None,
    own: object = None,
) -> list[Check]:
    """Return the checks of the config of the start `wanted`. Each thing that `config lint` finds
    wrong in it becomes a check, and one check is "ok" if none of them is an error.

    `files` has (path on the pod, text) of each config file, the main one first. If it is empty,
    there is one check, with the state "unknown". `pod`, `run` and `own` are parts of the agent's
    answer (None: missing): about the pod, about the start, and about what the trainer's own config
    classes say of the config.
    """
    if not files:
        return [said(_CONFIG, "unknown", "The config could not be read.")]
    answer = classes.read(own)
    with tempfile.TemporaryDirectory(prefix="bs4-preflight-") as directory:
        try:
            place = _lay_out(files, Path(directory))
            given = _given(
                wanted, pod or {}, run or {}, _Laid(Path(directory), [name for name, _ in files])
            )
            found = _judged(place, wanted.trainer, wanted.component, given, answer)
        except ConsoleError as error:
            return [said(_CONFIG, "blocking", error.message, error.next_step)]
    name = Path(files[0][0]).name
    checks = []
    for item in found:
        checks.append(
            said(
                (item.id, f"{name}, line {item.line}"),
                "blocking" if item.level == "error" else "warning",
                item.message,
                item.fix,
            )
        )
    if not any(check.state == "blocking" for check in checks):
        by = f"{answer.name} of the pod takes it, and lint" if answer.name else "Lint"
        checks.insert(
            0,
            said(
                _CONFIG,
                "ok",
                f"{name}: {by} finds no error for {wanted.trainer} ({len(found)} warnings).",
            ),
        )
    if not answer.name and wanted.of.has_classes:
        checks.append(
            said(
                _CLASSES,
                "unknown",
                f"Judged by the schema that is shipped here alone: {answer.why}",
            )
        )
    return checks


def memory(files: Sequence[tuple[str, str]], wanted: Wanted, pod: PodPart | None) -> list[str]:
    """Return lines for a person that say how much memory trainer and inference server need on one
    GPU of this pod, and how that was computed (as in `config estimate`). If it cannot be estimated,
    one line says why. The result is empty if the config could not be read, or is not for a whole
    training.

    `files` has (path on the pod, text) of each config file, the main one first. `wanted`
    describes the launch that is checked, and `pod` is what the agent answered about the machine and
    its GPUs, None if it did not.
    """
    if wanted.component != "rl" or not files:
        return []
    sizes = []
    for row in _gpus(pod or {}).get("devices", ()):
        if total := row.get("total"):
            sizes.append(total)
    if not sizes:
        return ["Not estimated: how much memory the GPUs of this pod have is not known."]
    size = round(min(sizes) / GIB, 1)
    with tempfile.TemporaryDirectory(prefix="bs4-preflight-") as directory:
        try:
            made = estimate(_lay_out(files, Path(directory)), wanted.trainer, size)
        except ConsoleError as error:
            return [f"Not estimated: {error.message}"]
    return made.lines(size)


async def on_pod(
    asks: Asks,
    file: Path,
    trainer: str,
    *,
    component: str,
    cwd: str,
    given: Given,
    overrides: Sequence[str],
) -> tuple[list[Finding], classes.Answer]:
    """Check the config file `file` of this machine, also with the trainer's own config classes on
    the pod of `asks`. Return two things: what is wrong with it, and what those classes answered.
    `trainer` is its id, such as "prime-rl". `component` is the program that the config is for, such
    as "rl" for the whole training. `cwd` is the directory of the training environment on the pod,
    `given` what is known beside the file, and `overrides` are the options of the launch command.

    Raises UsageError if the file cannot be read, and NotApplicableError if the agent is too old to
    be asked about classes.
    """
    answer = classes.read(
        (await _asked(asks, file, trainer, component, cwd, overrides)).get("schema")
    )
    return _judged(file, trainer, component, given, answer), answer


async def _asked(
    asks: Asks, file: Path, trainer: str, component: str, cwd: str, overrides: Sequence[str]
) -> Look:
    document = read_toml(file, follow=registry.of(trainer).includes)
    files, size = [], 0
    for path, text in ((file, document.text), *document.included):
        files.append([str(path.resolve()), text])
        size += len(text.encode())
    if size > SENT:
        return {
            "schema": {
                "unknown": (
                    f"The config is larger than {SENT // 1024} KiB, and more is not sent to a pod."
                )
            }
        }
    question: SchemaBody = {
        "trainer": trainer,
        "component": component,
        "cwd": cwd,
        "files": files,
        "overrides": list(overrides),
    }
    try:
        return await sliced(asks, "schema", question, CLASSES_S)
    except RemoteError as error:
        if error.type not in ("unknown-stream", "bad-request"):
            raise
        pod = name_of(asks) or "the pod"
        raise NotApplicableError(
            f"The agent on {pod} is older than this console and cannot ask the trainer's own "
            "classes.",
            f"Bring the new one: `bs4-console deploy --pod {pod}`; or lint without --pod.",
        ) from None


def _judged(
    file: Path, trainer: str, component: str, given: Given, answer: classes.Answer
) -> list[Finding]:
    found = lint(file, trainer, given, component)
    document = read_toml(file, follow=registry.of(trainer).includes)
    return by_line(classes.laid_over(found, answer, document))


def named(overrides: Sequence[str]) -> list[str]:
    """Return the paths of the config files that a launch command's options (`overrides`) name for
    single components, as in `--trainer @ FILE`. The result is empty if they name none.
    """
    found = []
    for before, word in itertools.pairwise(overrides):
        if before == "@":
            found.append(word)
    return found


def _lay_out(files: Sequence[tuple[str, str]], root: Path) -> Path:
    """Write the files below `root`, placed to each other as on the pod, and return the path of the
    first one. No path of the pod leads out of `root`.
    """
    places = []
    for name, text in files:
        place = _below(root, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        places.append(place)
    return places[0]


def _below(root: Path, name: str) -> Path:
    return root.joinpath(*(part for part in Path(name).parts if part not in ("/", "..", ".")))


@dataclass(frozen=True)
class _Laid:
    """The files of a pod with the paths `names`, written below `root`."""

    root: Path
    names: Sequence[str]

    def words(self, command: Sequence[str]) -> list[str]:
        """Return a command of the pod with the paths of its config files replaced by those on this
        machine.
        """
        found: list[str] = []
        for word in command:
            # Relative paths count from one directory of the pod. Of several names with this ending,
            # the shortest is directly below that directory.
            ending = ""
            if found[-1:] == ["@"]:
                ending = f"/{posixpath.normpath(word)}"
            same = []
            for name in self.names:
                if ending and f"/{name}".endswith(ending):
                    same.append(name)
            found.append(str(_below(self.root, min(same, key=len))) if same else word)
        return found


def _gpus(pod: PodPart) -> GpuPart:
    return pod.get("gpus", {})


def _given(wanted: Wanted, pod: PodPart, run: StartPart, laid: _Laid) -> Given:
    """Return the pod's facts for lint: the launch command and the number of GPUs. Installed
    environments are not among them: they are imported elsewhere, which says more.
    """
    gpus = _gpus(pod)
    count = len(gpus.get("devices", ())) if gpus.get("state") == "ok" else None
    assigned = []
    for name, value in pod.get("environment", {}).items():
        if value is not None:
            assigned.append(f"{name}={shlex.quote(value)}")
    command = run.get("command") or shlex.join(
        ["uv", "run", "rl", "@", wanted.config, *wanted.overrides]
    )
    with contextlib.suppress(ValueError):  # an agent may say anything: then it is read as it is
        command = shlex.join(laid.words(shlex.split(command)))
    return Given(launch=" ".join([*assigned, command]), gpus=count)
