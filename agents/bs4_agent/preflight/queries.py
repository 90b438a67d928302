"""Answers the queries that a console sends before a launch: `clock`, `config` (the config's text),
`source` (files of the trainer's source), `look` and `schema`. `look` and `schema` may take a
minute, so the console repeats the query until every part is done.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from bs4_agent.containers.inside import Box
from bs4_agent.launch.environment import inherited
from bs4_agent.pod import Pod
from bs4_agent.preflight import host, pod_probe, schema, server, source, stack
from bs4_agent.probes import services
from bs4_common.errors import AgentError, BadRequest
from bs4_common.failures.compiled import Library, digest
from bs4_common.preflight import (
    ClassesPart,
    HostPart,
    PodPart,
    SchemaBody,
    ServerPart,
    ServicesBody,
    ServicesPart,
    SourceFiles,
    StackPart,
    StartBody,
    StartPart,
    Unknown,
)
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.settings import BadConfig, load_toml

#: Seconds for which one answer waits for the parts that are still under way.
SLICE_S = 2.0
#: Seconds after the last query for it, after which a look is forgotten.
KEPT_S = 300.0
_LOOKS = 4
#: Bytes of a config that are sent: a frame's header holds 64 KiB.
_CONFIG_BYTES = 40 * 1024
_DEPTH = 8

Facts = (
    PodPart | StartPart | ClassesPart | StackPart | ServicesPart | HostPart | ServerPart | Unknown
)
Part = Callable[[], Facts]
Made = TypeVar("Made")
#: The services that are queried inside the container of a run. The object store is queried by the
#: agent.
_IN_THERE = ("hub", "wandb", "model")


class Preflights:
    """Answers the queries with the name `preflight`, which a console sends before a launch to find
    out what would go wrong. No query changes anything on the pod.
    """

    def __init__(self, pod: Pod, library: Library) -> None:
        self._pod, self._library = pod, library
        self._looks: dict[str, PodProbe] = {}
        self._lock = threading.Lock()

    def ask(
        self, op: str, arguments: Mapping[str, Any], stop: threading.Event | None = None
    ) -> dict[str, Any]:
        """Answer one query and return the answer. `op` is the query's name, and `arguments` has its
        arguments by name. Raises BadRequest for an unknown name, or if four other `look` or
        `schema` queries are under way. If `stop` is set, the call returns early with what is known.
        In this list, [x] is a list of x:

        * `clock` returns `t`, the Unix time in seconds.
        * `config` takes `config`, `cwd` and `named` [file]. It returns `files` [[path, text]]: the
          config first, then those of `named` that are TOML, then the files that these include.
        * `source` takes `cwd`, `container`, `env`, `files` [path in the checkout] and `after`. It
          returns files of the trainer's source, see source.read.
        * `look` takes the body of a launch (without one, only the pod is looked at) and `urls`. It
          returns `facts` {part: {...} or {"unknown": why}}, `waiting` [part that is not collected
          yet] and `next` (the query to repeat, or None). The parts are pod, run, schema, stack and
          services; for an evaluation also server, and for the pod alone with verl host. If there is
          a `container`, its own environment is probed inside it: see pod_probe.at_pod,
          stack.look_inside and host.probe.
        * `schema` takes `trainer`, `component`, `cwd`, `files` [[path, text]] and `overrides`
          [word]. It returns the same as `look` with the part schema alone: the verdict of the
          trainer's own classes on a config that is not on the pod.
        """
        if op == "clock":
            return {"t": time.time()}
        if op == "config":
            return {"files": self._config(arguments)}
        if op == "source":
            return dict(self._source(arguments))
        if op not in ("look", "schema"):
            raise BadRequest(
                f"{op[:40]!r} is no question of a preflight; ask clock, config, source, look "
                "or schema."
            )
        body = dict(arguments)
        body.pop("wait", None)
        if not isinstance(body.get("urls") or {}, Mapping):
            raise BadRequest("`urls` is an object of base URLs.")
        key = digest({"op": op, **body})
        now = time.monotonic()
        with self._lock:
            for old, one in list(self._looks.items()):
                if now - one.asked_m > KEPT_S:
                    del self._looks[old]
            if key not in self._looks:
                if len(self._looks) >= _LOOKS:
                    raise BadRequest(
                        f"{_LOOKS} preflights are under way on this pod; wait for one of them."
                    )
                parts = (
                    self._parts(cast(StartBody, body))
                    if op == "look"
                    else self._schema(cast(SchemaBody, body))
                )
                self._looks[key] = PodProbe(parts)
            one = self._looks[key]
            one.asked_m = now
        waiting = one.wait(SLICE_S, stop)
        if not waiting:
            with self._lock:
                self._looks.pop(key, None)
        return {"facts": one.facts(), "waiting": waiting, "next": body if waiting else None}

    def _parts(self, body: StartBody) -> dict[str, Part]:
        """Return the work of each part of a `look`, by the part's name."""
        spec = None
        if body.get("trainer") and body.get("config"):
            spec = pod_probe.spec_for(body)
        home = self._pod.runs.home
        cwd, name = Path.home() / str(body.get("cwd") or "prime-rl"), "preflight"
        if spec is not None:
            cwd, name = spec.cwd, spec.run
        more = inherited(home, cwd)
        environment = {**os.environ, **more}
        question: ServicesBody = {
            "urls": dict(body.get("urls") or {}),
            "b2_file": str(home.credentials / "b2.json"),
        }
        if container := str(body.get("container") or ""):
            return self._parts_inside(body, spec, cwd, container, question)
        parts: dict[str, Part] = {"pod": lambda: pod_probe.at_pod(self._pod, name, environment)}
        if spec is None:
            parts["stack"] = lambda: stack.probe(cwd, [], more)
            if modules := host.modules(body.get("trainer")):
                python = host.interpreter(cwd, more)
                parts["stack"] = lambda: stack.probe(cwd, modules, more, python)
                parts["host"] = lambda: host.probe(cwd, python, more)
            parts["services"] = lambda: _asked(question, more)
            return parts
        planned = spec
        known = _Once(lambda: pod_probe.at_run(self._pod, self._library, body, environment))
        parts["run"] = known
        parts["stack"] = lambda: _stack(planned, known(), more)
        parts["services"] = lambda: _asked(
            {**question, "model": _hub_model(cwd, known()["model"])}, more
        )
        if registry.get(planned.trainer).traits.classes is not None:
            parts["schema"] = lambda: schema.of_launch(planned, more)
        if planned.component == "eval":
            parts["server"] = lambda: server.probe(self._pod, planned)
        return parts

    def _parts_inside(
        self,
        body: StartBody,
        spec: LaunchSpec | None,
        cwd: Path,
        container: str,
        question: ServicesBody,
    ) -> dict[str, Part]:
        """Return the work of each part of a `look` for a launch in a container. GPUs, disks, ports
        and checkpoints are those of the machine; the Python environment, limits, shared memory and
        the credentials of hub and W&B are those of the container.
        """
        more = inherited(self._pod.runs.home, cwd)
        box = _Once(lambda: Box(container))
        name = "preflight" if spec is None else spec.run
        parts: dict[str, Part] = {"pod": lambda: pod_probe.at_pod(self._pod, name, more, box)}
        if spec is None:
            python = host.interpreter(cwd, more, container)
            modules = host.modules(body.get("trainer"))
            parts["stack"] = lambda: stack.look_inside(box(), cwd, modules, more, python)
            if modules:
                parts["host"] = lambda: host.probe(cwd, python, more, box())
            parts["services"] = lambda: _services(box(), python, question, "", more)
            return parts
        planned = spec
        known = _Once(
            lambda: pod_probe.at_run(
                self._pod, self._library, body, _hub_seen(box, {**more, **planned.env})
            )
        )

        def python_of() -> str:
            return str(known().get("python") or host.interpreter(cwd, environment_of(), container))

        def environment_of() -> dict[str, str]:
            return {**more, **registry.get(planned.trainer).environment(planned), **planned.env}

        parts["run"] = known
        parts["stack"] = lambda: stack.look_inside(
            box(), cwd, known()["modules"], environment_of(), python_of()
        )
        parts["services"] = lambda: _services(
            box(),
            python_of(),
            question,
            _hub_model(cwd, known()["model"], box()),
            environment_of(),
        )
        if registry.get(planned.trainer).traits.classes is not None:
            parts["schema"] = lambda: schema.of_launch(planned, more)
        return parts

    def _schema(self, body: SchemaBody) -> dict[str, Part]:
        """Return the work of a `schema` query, by the part's name."""
        cwd = Path.home() / str(body.get("cwd") or "prime-rl")
        more = inherited(self._pod.runs.home, cwd)
        return {"schema": lambda: schema.of_files(body, cwd, more)}

    def _source(self, arguments: Mapping[str, Any]) -> SourceFiles:
        """Return the answer to a `source` query. Raises BadRequest if a field is none."""
        cwd = Path.home() / str(arguments.get("cwd") or "prime-rl")
        names, after = arguments.get("files"), arguments.get("after", 0)
        given = arguments.get("env") or {}
        if not isinstance(names, list) or type(after) is not int or not isinstance(given, Mapping):
            raise BadRequest("`files` is a list, `after` a number and `env` an object.")
        more = {**inherited(self._pod.runs.home, cwd), **given}
        python = host.interpreter(cwd, more, str(arguments.get("container") or ""))
        packages = stack.packages(Path(python))
        if (other := stack.python_of(cwd)) is not None:
            packages += stack.packages(other)
        return source.read(cwd, packages, names, after)

    def _config(self, arguments: Mapping[str, Any]) -> list[list[str]]:
        """Return the files of the answer to a `config` query. Raises BadConfig if a file cannot be
        read, is no TOML file, or the files are too large.
        """
        cwd, named = Path.home() / str(arguments.get("cwd") or ""), arguments.get("named") or ()
        path = cwd / str(arguments.get("config") or "")
        if not isinstance(named, (list, tuple)):
            raise BadRequest("`named` is a list of files.")
        files: list[list[str]] = []
        room = _CONFIG_BYTES
        pending = [(path, 0)]
        for name in named:
            if str(name).endswith(".toml"):
                pending.append((cwd / str(name), 0))
        while pending:
            file, depth = pending.pop(0)
            if file.suffix != ".toml" or depth > _DEPTH:
                raise BadConfig(
                    f"{file} is no .toml file, or includes itself; name the training config."
                )
            try:
                text = file.read_bytes()
            except OSError as error:
                raise BadConfig(
                    f"The config {file} cannot be read ({error.strerror}); name a file that "
                    "exists on the pod."
                ) from error
            room -= len(text)
            if room < 0:
                raise BadConfig(
                    f"{path} is larger than {_CONFIG_BYTES // 1024} KiB with what it "
                    "includes; lint it where it was written."
                )
            files.append([str(file), text.decode("utf-8", "replace")])
            try:
                more = load_toml(file).get("toml_files")
            except BadConfig:
                more = None  # lint reports what is wrong with it, and where
            for name in more if isinstance(more, list) else ():
                pending.append((file.parent / str(name), depth + 1))
        return files


class PodProbe:
    """The facts that one `look` query asks for: what matters on the pod to a launch. They are
    collected in parts, each on a thread of its own, so that a GPU driver that hangs or a service
    that does not answer delays only its own part. `asked_m` is the time at which a console last
    sent this query, in seconds of the monotonic clock.
    """

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self.asked_m = time.monotonic()
        self._names = list(parts)
        self._found: dict[str, Facts] = {}
        self._changed = threading.Condition()
        for name, part in parts.items():
            threading.Thread(
                target=self._work, args=(name, part), name=f"preflight {name}", daemon=True
            ).start()

    def wait(self, seconds: float, stop: threading.Event | None) -> list[str]:
        """Wait at most `seconds` until all parts of the answer are collected, and return the names
        of those parts that are still missing then. The wait ends early if `stop` is set.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            while (
                len(self._found) < len(self._names)
                and (left := deadline - time.monotonic()) > 0
                and not (stop and stop.is_set())
            ):
                self._changed.wait(min(left, 0.25))
            return [name for name in self._names if name not in self._found]

    def facts(self) -> dict[str, Facts]:
        """Return {name of a part: its result} for those parts of the answer that are collected by
        now. A part that failed has the result {"unknown": why}.
        """
        with self._changed:
            return dict(self._found)

    def _work(self, name: str, part: Part) -> None:
        """Run one part and keep its result. An error becomes {"unknown": why}."""
        try:
            found: Facts = part()
        except AgentError as error:
            found = Unknown(unknown=error.message)
        except Exception as error:  # noqa: BLE001
            # A defect of ours makes this part unknown, and never a preflight without an end.
            traceback.print_exc()
            why = (
                f"the agent has a defect here ({type(error).__name__}: {error}); its traceback is "
                "in ~/.bs4/agent.log"
            )
            found = Unknown(unknown=why[:400])
        with self._changed:
            self._found[name] = found
            self._changed.notify_all()


class _Once(Generic[Made]):
    """A value that several parts need and that the first of them makes."""

    def __init__(self, work: Callable[[], Made]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._result: Made | None = None

    def __call__(self) -> Made:
        with self._lock:
            if self._result is None:
                self._result = self._work()
            return self._result


def _stack(planned: LaunchSpec, known: StartPart, more: Mapping[str, str]) -> StackPart:
    """Return the stack of the environment that the launch will have: the checkout's environment, or
    the one that the trainer itself names.
    """
    return stack.probe(
        planned.cwd,
        known["modules"],
        {**more, **registry.get(planned.trainer).environment(planned)},
        known.get("python"),
    )


def _hub_seen(box: Callable[[], Box], given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a launch in a container, with the hub's cache under the
    path that the agent can read. If the container cannot be entered, return `given`: the launch
    fails for the same reason and reports it.
    """
    try:
        inside = box()
    except AgentError:
        return dict(given)
    theirs = inside.environment()
    home = Path(
        theirs.get("HF_HOME") or Path(theirs.get("HOME") or "/root", ".cache", "huggingface")
    )
    seen = {"HF_HOME": str(inside.view.here(home) or inside.view.raw(home))}
    if cache := theirs.get("HF_DATASETS_CACHE"):
        seen["HF_DATASETS_CACHE"] = str(inside.view.here(cache) or inside.view.raw(cache))
    return {**theirs, **seen, **given}


def _asked(question: ServicesBody, more: Mapping[str, str]) -> ServicesPart:
    """Return what the services say. `more` are variables besides the agent's own."""
    return cast(ServicesPart, services.probe(question, environment=more))


def _services(
    box: Box, python: str, question: ServicesBody, model: str, more: Mapping[str, str]
) -> ServicesPart:
    """Return the state of the services. Hub, W&B and the model are checked with the container's own
    credentials, the object store with the agent's.
    """
    inside: ServicesBody = {"urls": question["urls"], "model": model, "only": _IN_THERE}
    theirs = cast(
        ServicesPart, services.probe(inside, environment=more, ask=box.ask, python=python)
    )
    ours = _asked({**question, "only": ("b2",)}, {})
    return {
        **theirs,
        "b2": ours["b2"],
        "clock": ours["clock"] or theirs["clock"],
        "container": box.name,
    }


def _hub_model(cwd: Path, model: str, box: Box | None = None) -> str:
    """Return the model's id, or "" if the model is on the pod or in the image of the container
    `box`. A local model needs no look-up in the hub.
    """
    local = model and (cwd / model).exists()
    if model and not local and box is not None:
        local = box.view.has(Path(box.place(cwd), model))
    return "" if local else model
