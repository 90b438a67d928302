"""Query Weights & Biases as an external observer: is a run still reporting there, since when not,
and at which step.

W&B is queried only if this machine has a key for it and a run has reported where W&B shows it. Each
poll is one small GraphQL request per run, for fields that W&B's own public API reads too (wandb
0.31, apis/public/runs.py). The key goes only to the server that this machine is configured for.
Addresses that a pod reports are compared with it and never followed.
"""

from __future__ import annotations

import asyncio
import json
import netrc
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

import httpx

from bs4_common.foreign_json import finite
from bs4_console.errors import ConsoleError
from bs4_console.pods.observer import Observation, SightState

PUBLIC = "https://api.wandb.ai"
#: The API address for each address at which W&B shows runs. A self-hosted server has one address
#: for both.
_SHOWN = {
    "https://wandb.ai": PUBLIC,
    "https://www.wandb.ai": PUBLIC,
    "https://app.wandb.ai": PUBLIC,
}
TIMEOUT_S = 10.0
#: Bytes of one answer. A run's fields have some kilobytes, and a summary with tables may have more.
_MOST_BYTES = 4 << 20
_RUN = (
    "query Run($project: String!, $entity: String!, $run: String!) { project(name: $project, "
    "entityName: $entity) { run(name: $run) { name displayName state heartbeatAt historyLineCount "
    "summaryMetrics } } }"
)
_VIEWER = "query Viewer { viewer { entity } }"
#: States that the client itself, or its user, reported when the run ended.
_ENDED = ("finished", "failed", "killed", "preempted")


class WandbError(ConsoleError):
    """Raised when W&B could not be queried, or when this machine's key for it could not be read.
    The message never holds the key.
    """


@dataclass(frozen=True)
class WandbRun:
    """One run as W&B shows it. `state` is W&B's own word, such as "running" or "crashed".
    `heartbeat_t` is the time of the last heartbeat and `updated_t` that of the newest numbers, both
    as Unix times in seconds. `step` is the newest step. Each of the three is None if W&B does not
    have it.
    """

    id: str
    name: str
    state: str
    heartbeat_t: float | None
    updated_t: float | None
    step: int | None


@dataclass(frozen=True)
class Account:
    """What this machine needs to query W&B: the address of the server, `base`, and the secret key,
    `key`. `repr` does not show the key.
    """

    base: str
    key: str

    def __repr__(self) -> str:
        return f"Account({self.base})"


def account(environment: Mapping[str, str] | None = None) -> Account | None:
    """Return the W&B account of this machine, or None if the machine has no key. The server is
    WANDB_BASE_URL, or W&B's own if that is not set. The key is WANDB_API_KEY, or else the one for
    this server in the netrc file (NETRC, by default ~/.netrc). `environment` has the variables;
    None means those of the process.

    Raises WandbError if the netrc file cannot be parsed or can be read by others.
    """
    known = os.environ if environment is None else environment
    base = (known.get("WANDB_BASE_URL") or PUBLIC).rstrip("/")
    if key := known.get("WANDB_API_KEY", "").strip():
        return Account(base, key)
    host = urlsplit(base).hostname or ""
    path = Path(known.get("NETRC") or Path(known.get("HOME", "~")).expanduser() / ".netrc")
    try:
        if path.stat().st_mode & 0o077:
            raise WandbError(
                f"{path} can be read by others, so no key is taken from it.",
                f"Run `chmod 600 {path}`.",
            )
        entry = netrc.netrc(path).authenticators(host)
    except FileNotFoundError:
        return None
    except (OSError, netrc.NetrcParseError) as error:
        # The parser's own message may quote a line of the file.
        raise WandbError(
            f"{path} cannot be read ({type(error).__name__}).", "Write it again with `wandb login`."
        ) from None
    if entry is not None and entry[2]:
        return Account(base, entry[2])
    return None


class WandbApi:
    """A client for one W&B server. Use it as an async context manager, or call `close` yourself."""

    def __init__(self, known: Account, *, timeout: float = TIMEOUT_S) -> None:
        """Keep the account. `timeout` is the number of seconds for one request."""
        self.base = known.base
        # No redirects: they would carry the key to another server.
        self._client = httpx.AsyncClient(
            auth=httpx.BasicAuth("api", known.key), timeout=timeout, follow_redirects=False
        )
        self._entity: str | None = None
        self._timeout = timeout

    async def __aenter__(self) -> WandbApi:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._client.aclose()

    async def run(self, project: str, run: str, entity: str = "") -> WandbRun | None:
        """Return the run that has the W&B id `run` in the project `project` of `entity` ("" means
        the entity to which the key belongs). Return None if W&B does not know the run or does not
        show it to this key. Raises WandbError if W&B could not be queried.
        """
        if not entity:
            if self._entity is None:
                viewer = await self._ask(_VIEWER, {})
                self._entity = str(_within(viewer, "viewer", "entity") or "")
            entity = self._entity
        data = await self._ask(_RUN, {"project": project, "entity": entity, "run": run})
        found = _within(data, "project", "run")
        return _read(found) if isinstance(found, dict) else None

    async def _ask(self, query: str, variables: Mapping[str, str]) -> object:
        """Return the data that answers one GraphQL query. Raises WandbError if there is none."""
        try:
            async with asyncio.timeout(self._timeout):
                return _data(await self._post(query, variables), self.base)
        except (httpx.HTTPError, TimeoutError, httpx.InvalidURL) as error:
            raise WandbError(
                f"W&B at {self.base} did not answer ({type(error).__name__}).",
                "Look at the network of this machine.",
            ) from None

    async def _post(self, query: str, variables: Mapping[str, str]) -> tuple[int, bytes]:
        """Send one GraphQL query, and return the HTTP status and the body. Raises WandbError if the
        body is too large.
        """
        body = {"query": query, "variables": dict(variables)}
        async with self._client.stream("POST", f"{self.base}/graphql", json=body) as response:
            data = b""
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > _MOST_BYTES:
                    raise WandbError(
                        f"W&B at {self.base} sent more than {_MOST_BYTES >> 20} MB for one run.",
                        "Check WANDB_BASE_URL.",
                    )
            return response.status_code, data


def _data(answer: tuple[int, bytes], base: str) -> object:
    """Return the data of an answer. Raises WandbError if the answer is an error."""
    status, body = answer
    if status in (401, 403):
        raise WandbError(
            f"W&B at {base} refuses the key of this machine ({status}).", "Run `wandb login` here."
        )
    if status != 200:
        raise WandbError(
            f"W&B at {base} answered with {status}.", "It is asked again at the next look."
        )
    try:
        data = _within(json.loads(body), "data")
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise WandbError(
            f"What answers at {base} does not speak W&B's API.", "Check WANDB_BASE_URL."
        )
    return data


def _read(found: object) -> WandbRun:
    """Return the run that an answer describes."""
    summary = _summary(_within(found, "summaryMetrics"))
    heartbeat_t = _time(_within(found, "heartbeatAt"))
    step, updated_t = _number(_within(summary, "_step")), _number(_within(summary, "_timestamp"))
    return WandbRun(
        id=str(_within(found, "name") or ""),
        name=str(_within(found, "displayName") or ""),
        state=str(_within(found, "state") or "unknown"),
        heartbeat_t=heartbeat_t,
        updated_t=heartbeat_t if updated_t is None else float(updated_t),
        step=None if step is None else int(step),
    )


def _number(value: object) -> int | float | None:
    """Return `value` if it is a finite number (a truth value is none), else None."""
    if isinstance(value, bool) or finite(value) is None:
        return None
    return value if isinstance(value, (int, float)) else None


def _summary(text: object) -> object:
    """Return the run's summary metrics, or None if they cannot be parsed."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _within(value: object, *keys: str) -> object:
    """Return what stands under `keys`, one within the other, in a JSON value, or None if there is
    nothing.
    """
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _time(text: object) -> float | None:
    """Return the wall time in seconds of a W&B timestamp, or None. The timestamps are UTC, with or
    without a zone.
    """
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


class Tracked(TypedDict, total=False):
    """Where W&B shows one program of a run, as the pod's journal (the agent's log of actions and
    incidents) records it. `side` is the program, such as "trainer" or "orchestrator". `id` is its
    run id at W&B, in the `project` of the `entity` on the `server`, a URL.
    """

    side: str
    id: str
    project: str
    entity: str
    server: str


class WandbRow(TypedDict, total=False):
    """What W&B says of one program (`side`, such as "trainer") of the run `run`, in the form in
    which the detectors of failures read it. `found` is False if W&B does not know the program's run
    or does not show it; then all fields after it are missing. `id`, `entity`, `project` and `name`
    are those at W&B, `state` is W&B's own word, such as "crashed", and `last_step` the newest
    training step.
    """

    run: str
    side: str | None
    found: bool
    id: str | None
    entity: str | None
    project: str | None
    name: str
    last_step: int | None
    updated_t: float | None
    """Wall seconds since 1970 at which W&B last got data."""
    state: str


class WandbWitness:
    """Queries W&B about one run, as an external observer: something that sees a run without the
    pod. `tracked` says where W&B shows each program of the run, such as the trainer and the
    orchestrator (server, entity, project and id), as the pod's journal (the agent's log of actions
    and incidents) records it.
    """

    name = "wandb"

    def __init__(self, api: WandbApi, run: str, tracked: Sequence[Tracked]) -> None:
        self._api, self._run, self._tracked = api, run, tracked
        self.rows: list[WandbRow] = []
        """The rows of the last poll, in the form of `ConsoleFacts.wandb`."""

    async def observe(self) -> Observation:
        """Query W&B once about all programs of the run that report to it (its sides, such as
        trainer and orchestrator), and return one observation that combines the answers. Its state
        is "unknown", with the reason in `coverage`, if W&B could not be queried, does not show the
        run, or cannot tell whether the run goes on.
        """
        here = []
        for entry in self._tracked:
            if _same_server(str(entry.get("server") or ""), self._api.base):
                here.append(entry)
        if not here:
            servers = sorted({str(entry.get("server")) for entry in self._tracked})
            return _blind(
                f"it reports to {', '.join(servers) or 'nowhere'}, and this machine has a key for "
                f"{self._api.base} only"
            )
        try:
            sides = await asyncio.gather(*(self._side(entry) for entry in here))
        except WandbError as error:
            self.rows = []
            return _blind(error.message, error.next_step)
        self.rows = list(map(self._row, here, sides))
        return self._sight([found for found in sides if found is not None])

    async def _side(self, entry: Tracked) -> WandbRun | None:
        """Return the run that W&B has for an entry of `tracked`, or None."""
        project, run, entity = (str(entry.get(key) or "") for key in ("project", "id", "entity"))
        return await self._api.run(project, run, entity)

    def _row(self, entry: Tracked, found: WandbRun | None) -> WandbRow:
        """Return what W&B knows of one side as a row for the detectors."""
        row: WandbRow = {
            "run": self._run,
            "side": entry.get("side"),
            "found": found is not None,
            "id": entry.get("id"),
            "entity": entry.get("entity"),
            "project": entry.get("project"),
        }
        if found is not None:
            row["name"], row["last_step"] = found.name, found.step
            row["updated_t"], row["state"] = found.updated_t, found.state
        return row

    def _sight(self, found: Sequence[WandbRun]) -> Observation:
        """Return the observation that combines all sides of the run."""
        if not found:
            names = ", ".join(
                f"{e.get('entity') or 'the own entity'}/{e.get('project')}/{e.get('id')}"
                for e in self._tracked
            )
            return _blind(f"it knows no run {names}, or does not show it to this key")
        seen_t = max(
            (one.heartbeat_t for one in found if one.heartbeat_t is not None), default=None
        )
        step = max((one.step for one in found if one.step is not None), default=None)
        words = sorted({one.state for one in found})
        state: SightState = "unknown"
        coverage = "W&B: its heartbeats ended, and W&B cannot tell whether the run did"
        if "running" in words and seen_t is None:
            coverage = "W&B: no heartbeat yet"
        elif "running" in words:
            state, coverage = "running", ""
        elif all(word in _ENDED for word in words):
            state, coverage = "stopped", ""
        newest = "" if step is None else f", newest step {step}"
        return Observation(
            state=state,
            detail=f"W&B has it as {' and '.join(words)}{newest}.",
            seen_t=seen_t,
            coverage=coverage,
            step=step,
            raw_state="/".join(words),
        )


def _same_server(shown: str, base: str) -> bool:
    """Return True if a run that W&B shows at `shown` is queried at `base`."""
    return not shown or _SHOWN.get(shown, shown).rstrip("/") == base


def _blind(why: str, next_step: str = "") -> Observation:
    """Return an observation that says why nothing could be seen."""
    return Observation(
        state="unknown",
        detail=f"W&B: {why.rstrip('.')}.",
        seen_t=None,
        coverage=f"W&B: {why.rstrip('.')}",
        next_step=next_step,
    )
