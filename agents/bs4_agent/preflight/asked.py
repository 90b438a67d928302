"""Questions of the console before a start: `clock`, `config` (its text), and `look` and `schema`, which may take a minute and are therefore
asked again and again until they are done."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bs4_agent.errors import AgentError, BadRequest
from bs4_agent.playbooks.compiled import Library, digest
from bs4_agent.pod import Pod
from bs4_agent.preflight import host, look, schema, stack
from bs4_agent.probes import classes, services
from bs4_agent.runs.variables import standing
from bs4_agent.trainers import registry
from bs4_agent.trainers.base import LaunchSpec
from bs4_agent.trainers.settings import BadConfig, load_toml
from bs4_agent.trainers.verl import VERL

#: Seconds for which one answer waits for the parts that are still under way.
SLICE_S = 2.0
#: A look that nobody has asked for any more is forgotten after so long.
KEPT_S = 300.0
_LOOKS = 4
#: Bytes of a config that are sent: a frame's header holds 64 KiB.
_CONFIG_BYTES = 40 * 1024
_DEPTH = 8

Part = Callable[[], Mapping[str, Any]]


class Preflights:
    """Answers the queries of the name `preflight`. Nothing on the pod is changed by any of them."""

    def __init__(self, pod: Pod, library: Library) -> None:
        self._pod, self._library = pod, library
        self._looks: dict[str, Look] = {}
        self._lock = threading.Lock()

    def ask(self, op: str, arguments: Mapping[str, Any], stop: threading.Event | None = None) -> dict[str, Any]:
        """* `clock` -> `t`, wall seconds.
        * `config`: `config`, `cwd` -> `files` [[path, text]], the named file first, then those that it includes.
        * `look`: the body of a launch (none of it: the pod alone), `urls` -> `facts` {part: {...} or {"unknown": why}}, `waiting` [part],
          `next` (the same question again, or None). Parts: pod, run, schema, stack, services; of the pod alone for verl also host.
        * `schema`: `trainer`, `component`, `cwd`, `files` [[path, text]], `overrides` [word] -> as `look`, with the part schema alone: what
          the trainer's own classes say of a config that lies elsewhere.
        """
        if op == "clock":
            return {"t": time.time()}
        if op == "config":
            return self._config(arguments)
        if op not in ("look", "schema"):
            raise BadRequest(f"{op[:40]!r} is no question of a preflight; ask clock, config, look or schema.")
        body = {key: value for key, value in arguments.items() if key != "wait"}
        key = digest({"op": op, **body})
        now = time.monotonic()
        with self._lock:
            for old in [k for k, one in self._looks.items() if now - one.asked_m > KEPT_S]:
                del self._looks[old]
            one = self._looks.get(key)
            if one is None:
                if len(self._looks) >= _LOOKS:
                    raise BadRequest(f"{_LOOKS} preflights are under way on this pod; wait for one of them.")
                one = self._looks[key] = Look(self._parts(body) if op == "look" else self._schema(body))
            one.asked_m = now
        waiting = one.wait(SLICE_S, stop)
        if not waiting:
            with self._lock:
                self._looks.pop(key, None)
        return {"facts": one.facts(), "waiting": waiting, "next": body if waiting else None}

    def _parts(self, body: Mapping[str, Any]) -> dict[str, Part]:
        spec = look.spec_for(body) if body.get("trainer") and body.get("config") else None
        urls = body.get("urls") or {}
        if not isinstance(urls, Mapping):
            raise BadRequest("`urls` is an object of base URLs.")
        home = self._pod.runs.home
        cwd = spec.cwd if spec is not None else Path.home() / str(body.get("cwd") or "prime-rl")
        more = standing(home, cwd)
        environment = {**os.environ, **more}
        name = spec.run if spec is not None else "preflight"
        parts: dict[str, Part] = {"pod": lambda: look.at_pod(self._pod, name, environment)}
        question = {"urls": dict(urls), "b2_file": str(home.credentials / "b2.json")}
        if spec is None:
            parts["stack"] = lambda: stack.look(cwd, [], more)
            if body.get("trainer") == VERL:
                python = host.interpreter(cwd, more)
                parts["stack"] = lambda: stack.look(cwd, host.MODULES, more, python)
                parts["host"] = lambda: host.look(cwd, python, more)
            parts["services"] = lambda: services.probe(question, environment=more)
            return parts
        planned = spec
        known = _Once(lambda: look.at_run(self._pod, self._library, body, environment))
        parts["run"] = known
        parts["stack"] = lambda: _stack(planned, known(), more)
        parts["services"] = lambda: services.probe({**question, "model": _local_or_id(cwd, str(known()["model"]))}, environment=more)
        if planned.trainer in classes.CLASSES:
            parts["schema"] = lambda: schema.of_launch(planned, more)
        return parts

    def _schema(self, body: Mapping[str, Any]) -> dict[str, Part]:
        cwd = Path.home() / str(body.get("cwd") or "prime-rl")
        more = standing(self._pod.runs.home, cwd)
        return {"schema": lambda: schema.of_files(body, cwd, more)}

    def _config(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        path = Path.home() / str(arguments.get("cwd") or "") / str(arguments.get("config") or "")
        files: list[list[str]] = []
        pending, room = [(path, 0)], _CONFIG_BYTES
        while pending:
            file, depth = pending.pop(0)
            if file.suffix != ".toml" or depth > _DEPTH:
                raise BadConfig(f"{file} is no .toml file, or includes itself; name the training config.")
            try:
                text = file.read_bytes()
            except OSError as error:
                raise BadConfig(f"The config {file} cannot be read ({error.strerror}); name a file that exists on the pod.") from error
            room -= len(text)
            if room < 0:
                raise BadConfig(f"{path} is larger than {_CONFIG_BYTES // 1024} KiB with what it includes; lint it where it was written.")
            files.append([str(file), text.decode("utf-8", "replace")])
            try:
                more = load_toml(file).get("toml_files")
            except BadConfig:
                more = None  # lint says what is wrong with it, and where
            pending += [(file.parent / str(name), depth + 1) for name in (more if isinstance(more, list) else ())]
        return {"files": files}


class Look:
    """The parts of one look, each in a thread: a GPU driver that hangs or a service that is silent holds up itself only."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self.asked_m = time.monotonic()
        self._names = list(parts)
        self._found: dict[str, Mapping[str, Any]] = {}
        self._changed = threading.Condition()
        for name, part in parts.items():
            threading.Thread(target=self._work, args=(name, part), name=f"preflight {name}", daemon=True).start()

    def wait(self, seconds: float, stop: threading.Event | None) -> list[str]:
        """The parts that are not done after at most so many seconds."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while len(self._found) < len(self._names) and (left := deadline - time.monotonic()) > 0 and not (stop and stop.is_set()):
                self._changed.wait(min(left, 0.25))
            return [name for name in self._names if name not in self._found]

    def facts(self) -> dict[str, Any]:
        with self._changed:
            return dict(self._found)

    def _work(self, name: str, part: Part) -> None:
        try:
            found: Mapping[str, Any] = part()
        except AgentError as error:
            found = {"unknown": error.message}
        except Exception as error:  # noqa: BLE001 (a defect of ours is an unknown part with its name, never a preflight without an end)
            traceback.print_exc()
            found = {
                "unknown": f"the agent has a defect here ({type(error).__name__}: {error}); its traceback is in ~/.bs4/agent.log"[:400]
            }
        with self._changed:
            self._found[name] = found
            self._changed.notify_all()


class _Once:
    """A look that several parts need, made by the first of them."""

    def __init__(self, work: Callable[[], dict[str, Any]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._result: dict[str, Any] | None = None

    def __call__(self) -> dict[str, Any]:
        with self._lock:
            if self._result is None:
                self._result = self._work()
            return self._result


def _stack(planned: LaunchSpec, known: Mapping[str, Any], more: Mapping[str, str]) -> dict[str, Any]:
    """The environment that the start will have: its checkout's, or the one that the trainer itself names."""
    if planned.container:
        return {"unknown": f"It is that of container {planned.container}, which is not looked into from the host."}
    environment = {**more, **registry.get(planned.trainer).environment(planned)}
    return stack.look(planned.cwd, known["modules"], environment, known.get("python"))


def _local_or_id(cwd: Path, model: str) -> str:
    """A model that lies on the pod is asked nobody about."""
    return "" if model and (cwd / model).exists() else model
