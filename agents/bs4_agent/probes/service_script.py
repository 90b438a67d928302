"""Finds out what the services (Hugging Face, W&B, Backblaze B2) say about this pod's credentials
and about the model. This file is a script; `services.probe` runs it.

A token is read, used and forgotten in this process, which nobody else can inspect. The answer has
states and numbers, but never a key, a name or a text of the service.
"""

from __future__ import annotations

import base64
import email.utils
import json
import netrc
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict

URLS = {
    "hub": "https://huggingface.co",
    "wandb": "https://api.wandb.ai",
    "b2": "https://api.backblazeb2.com",
}
#: Variables that name another address: our own first (a mirror, a practice pod), then the
#: service's.
_URL_NAMES = {
    "hub": ("BS4_HUB_URL", "HF_ENDPOINT"),
    "wandb": ("BS4_WANDB_URL", "WANDB_BASE_URL"),
    "b2": ("BS4_B2_URL",),
}
#: The capabilities that a bucket key needs to keep checkpoints there.
CAPABILITIES = ("listFiles", "readFiles", "writeFiles", "deleteFiles")
_TIMEOUT_S = 8.0
_BODY = 4 * 1024 * 1024
#: The keys of a model's config.json that show whether it can be trained as text.
_KEYS = (
    "architectures",
    "model_type",
    "vision_config",
    "audio_config",
    "vision_tower",
    "mm_vision_tower",
    "image_token_id",
)


class ServiceAnswer(TypedDict, total=False):
    """What is known of one service (Hugging Face's hub, W&B or Backblaze B2) and of this machine's
    credentials for it.
    """

    token: str
    """Where the credentials were found: "environment", "file" or "absent"; or "unknown" if the
    service did not answer in time.
    """
    state: str
    """Whether the service accepts the credentials: "ok"; "refused"; "absent" if there are none;
    "offline" if an environment variable forbids to call the service; or "unknown".
    """
    detail: str
    """The reason for the state, as text for a person."""
    writes: bool | None
    """Only for the hub: True if the token may write, None if the hub does not say it."""
    missing: list[str]
    """Only for B2: the capabilities that checkpoints need and the key lacks."""


class ModelAnswer(TypedDict):
    """What Hugging Face's hub, and its cache on the pod, say of the model with the id `id`."""

    id: str
    cached: bool
    """True if the model's config.json is in the cache."""
    config: dict[str, str | int | bool | list[str]] | None
    """The important keys of the model's config.json. The value of a table is True."""
    status: int | None
    """The HTTP status of the hub's answer, or None without an answer."""
    gated: bool | None
    """True if the hub gives the model only to users whom its owner permits. None if unknown."""
    detail: str
    """A text for a person about an error, or ""."""


class ClockAnswer(TypedDict):
    """The difference between this machine's clock and the clock of a service."""

    service: str
    """The host name of the service."""
    offset_s: float
    """How many seconds this machine's clock is ahead."""


class ServicesAnswer(TypedDict, total=False):
    """What the probe has found out about the services that a run needs: Hugging Face (`hub`), W&B
    and the object store (`b2`), the model on the hub, and how far the pod's clock is from theirs. A
    service that was not to be queried has no key here.
    """

    hub: ServiceAnswer
    wandb: ServiceAnswer
    b2: ServiceAnswer
    model: ModelAnswer | None
    """None if no model was given, or a local path."""
    clock: ClockAnswer | None
    """None if no service answered."""


def ask(request: Mapping[str, Any]) -> ServicesAnswer:
    """Query Hugging Face's hub, W&B and Backblaze B2 about this machine's credentials and about the
    model in `request`, which `services.probe` describes, and return their answers. Each service is
    queried on a thread of its own, so one that does not answer does not delay the others.
    """
    given = request.get("urls") or {}
    urls = {name: str(given.get(name) or _url(name)).rstrip("/") for name in URLS}
    model = str(request.get("model") or "")
    asked = set(request.get("only") or ("hub", "wandb", "b2", "model"))
    dates: list[tuple[str, float]] = []
    answer: ServicesAnswer = {}

    def work(question: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=question, daemon=True)
        thread.start()
        return thread

    file = str(request.get("b2_file") or "")
    questions: dict[str, Callable[[], None]] = {
        "hub": lambda: answer.update({"hub": _hub(urls["hub"], dates)}),
        "wandb": lambda: answer.update({"wandb": _wandb(urls["wandb"], dates)}),
        "b2": lambda: answer.update({"b2": _b2(urls["b2"], file, dates)}),
        "model": lambda: answer.update({"model": _model(urls["hub"], model, dates)}),
    }
    threads = [work(question) for name, question in questions.items() if name in asked]
    until = time.monotonic() + 2 * _TIMEOUT_S + 2.0  # a model takes two requests
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0.0))
    silent: ServiceAnswer = {
        "token": "unknown",
        "state": "unknown",
        "detail": "no answer in time",
    }
    found: ServicesAnswer = {}
    if "hub" in asked:
        found["hub"] = answer.get("hub", silent)
    if "wandb" in asked:
        found["wandb"] = answer.get("wandb", silent)
    if "b2" in asked:
        found["b2"] = answer.get("b2", silent)
    found["model"], found["clock"] = answer.get("model"), None
    if dates:
        found["clock"] = {"service": dates[0][0], "offset_s": round(dates[0][1], 1)}
    return found


def _url(name: str) -> str:
    """Return the address of the service, from the environment or the default."""
    for key in _URL_NAMES[name]:
        if os.environ.get(key):
            return os.environ[key]
    return URLS[name]


def _hub(base: str, dates: list[tuple[str, float]]) -> ServiceAnswer:
    """Return the state of the Hugging Face token."""
    where, token = hub_token()
    if os.environ.get("HF_HUB_OFFLINE") in ("1", "true", "TRUE", "ON"):
        return {"token": where, "state": "offline", "detail": "HF_HUB_OFFLINE is set"}
    if not token:
        return {"token": where, "state": "absent", "detail": "neither HF_TOKEN nor a token file"}
    headers = {"Authorization": f"Bearer {token}"}
    status, data, detail = _fetch(f"{base}/api/whoami-v2", headers, dates)
    return {"token": where, "state": _state(status), "detail": detail, "writes": _writes(data)}


def _writes(whoami: Any) -> bool | None:
    """Return True if the Hugging Face token of this answer may write something, False if it only
    reads, and None if the answer does not say it.
    """
    token = _inside(whoami, "auth", "accessToken")
    rights = _inside(token, "role")
    if rights == "read":
        return False
    if rights == "write":
        return True
    fine = _inside(token, "fineGrained")
    if rights != "fineGrained" or not isinstance(fine, dict):
        return None
    granted = _list(_inside(fine, "global"))
    for entry in _list(_inside(fine, "scoped")):
        granted += _list(_inside(entry, "permissions"))
    return any(str(name).endswith(".write") for name in granted)


def _list(value: Any) -> list[Any]:
    """Return a copy of a JSON list; an empty list for anything else."""
    if isinstance(value, list):
        return list(value)
    return []


def _inside(value: Any, *keys: str) -> Any:
    """Return what stands under these keys in a JSON value, or None."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _wandb(base: str, dates: list[tuple[str, float]]) -> ServiceAnswer:
    """Return the state of the W&B key."""
    where, key = wandb_key()
    if os.environ.get("WANDB_MODE") in ("offline", "disabled", "dryrun"):
        return {
            "token": where,
            "state": "offline",
            "detail": f"WANDB_MODE is {os.environ['WANDB_MODE']}",
        }
    if not key:
        return {
            "token": where,
            "state": "absent",
            "detail": "neither WANDB_API_KEY nor an entry in ~/.netrc",
        }
    body = json.dumps({"query": "query Viewer { viewer { id } }"}).encode()
    headers = {"Authorization": _basic("api", key), "Content-Type": "application/json"}
    status, data, detail = _fetch(f"{base}/graphql", headers, dates, body)
    if status == 200 and not ((data or {}).get("data") or {}).get("viewer"):
        # W&B answers an unknown key with 200 too
        return {
            "token": where,
            "state": "refused",
            "detail": "the key belongs to nobody",
        }
    return {"token": where, "state": _state(status), "detail": detail}


def _b2(base: str, file: str, dates: list[tuple[str, float]]) -> ServiceAnswer:
    """Return the state of the B2 key and the capabilities that it lacks."""
    where, identifier, key = b2_key(file)
    if not identifier or not key:
        return {"token": where, "state": "absent", "detail": "no application key"}
    status, data, detail = _fetch(
        f"{base}/b2api/v3/b2_authorize_account", {"Authorization": _basic(identifier, key)}, dates
    )
    storage = ((data or {}).get("apiInfo") or {}).get("storageApi") or {}
    can = storage.get("capabilities") or []
    missing = []
    for name in CAPABILITIES:
        if status == 200 and name not in can:
            missing.append(name)
    return {"token": where, "state": _state(status), "detail": detail, "missing": missing}


def _model(base: str, model: str, dates: list[tuple[str, float]]) -> ModelAnswer | None:
    """Return the facts about the model, or None if it is a local path or no id."""
    if not model or Path(model).exists() or model.count("/") != 1 or model.startswith(("/", ".")):
        return None
    cached = cached_config(model)
    answer: ModelAnswer = {
        "id": model,
        "cached": cached is not None,
        "config": _short(cached),
        "status": None,
        "gated": None,
        "detail": "",
    }
    if os.environ.get("HF_HUB_OFFLINE") in ("1", "true", "TRUE", "ON"):
        return {**answer, "detail": "HF_HUB_OFFLINE is set"}
    token = hub_token()[1]
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    name = urllib.parse.quote(model)
    status, info, detail = _fetch(f"{base}/api/models/{name}", headers, dates)
    answer["status"], answer["detail"] = status, detail
    if status == 200 and info is not None:
        answer["gated"] = bool(info.get("gated"))
        may, config, why = _fetch(f"{base}/{name}/resolve/main/config.json", headers, dates)
        # Anybody may read the description of a gated model; only its files show whether this token
        # may read them.
        answer["status"], answer["detail"] = may if may is not None else status, why
        answer["config"] = _short(config) or answer["config"]
    return answer


def _fetch(
    url: str, headers: Mapping[str, str], dates: list[tuple[str, float]], body: bytes | None = None
) -> tuple[int | None, Any, str]:
    """Return (HTTP status or None, the JSON object or None, a short description of the result). The
    text of a service's error is not kept.
    """
    request = urllib.request.Request(url, data=body, headers={"User-Agent": "bs4-agent", **headers})
    opener = urllib.request.build_opener(KeepTokenAtHome)
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            _note_date(url, answer.headers.get("Date"), dates)
            try:
                data = json.loads(answer.read(_BODY))
            except ValueError:
                return answer.status, None, "no JSON"
            return answer.status, data if isinstance(data, dict) else None, f"HTTP {answer.status}"
    except urllib.error.HTTPError as error:
        _note_date(url, error.headers.get("Date") if error.headers else None, dates)
        return error.code, None, f"HTTP {error.code}"
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return (
            None,
            None,
            f"no answer: {getattr(reason, 'strerror', None) or type(reason).__name__}",
        )


class KeepTokenAtHome(urllib.request.HTTPRedirectHandler):
    """Follows HTTP redirects, but removes the access token from a request that is redirected to
    another host. Hugging Face redirects downloads in this way.
    """

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request for the new address `newurl`, without the access token if that is
        another host. Return None if the redirect is not followed. The parameters are those of
        HTTPRedirectHandler.
        """
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if (
            following is not None
            and urllib.parse.urlsplit(newurl).netloc != urllib.parse.urlsplit(req.full_url).netloc
        ):
            following.remove_header("Authorization")
        return following


def _note_date(url: str, text: str | None, dates: list[tuple[str, float]]) -> None:
    """Append (host, this clock minus the service's clock in seconds) to `dates`, if the answer has
    a date.
    """
    if text:
        moment = email.utils.parsedate_to_datetime(text)
        # The header has whole seconds, rounded down.
        dates.append(
            (urllib.parse.urlsplit(url).hostname or "", time.time() - moment.timestamp() - 0.5)
        )


def _state(status: int | None) -> str:
    """Return the state that an HTTP status stands for: ok, refused or unknown."""
    if status == 200:
        return "ok"
    if status in (401, 403):
        return "refused"
    return "unknown"


def _basic(user: str, secret: str) -> str:
    """Return the header of HTTP basic authentication."""
    return "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()


def _short(config: Any) -> dict[str, str | int | bool | list[str]] | None:
    """Return the important keys of a config.json. For a table, the value is True."""
    if not isinstance(config, dict):
        return None
    found = {}
    for key in _KEYS:
        if config.get(key) is not None:
            found[key] = isinstance(config[key], dict) or config[key]
    return found


def hub_home() -> Path:
    """Return the directory in which Hugging Face libraries keep their cache and token."""
    return Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")


def cached_config(model: str) -> Any:
    """Return the content of the config.json of the model with the id `model`, from an earlier
    download to Hugging Face's cache on this machine. Return None if it is not there.
    """
    root = Path(os.environ.get("HF_HUB_CACHE") or hub_home() / "hub")
    for path in sorted(root.glob(f"models--{model.replace('/', '--')}/snapshots/*/config.json")):
        try:
            return json.loads(path.read_bytes()[:_BODY])
        except (OSError, ValueError):
            continue
    return None


def hub_token() -> tuple[str, str]:
    """Return two texts: where Hugging Face's token was found ("environment", "file" or "absent"),
    and the token itself, which is "" if it is absent. The places are searched in the same order as
    the library huggingface_hub does.
    """
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if token := os.environ.get(name, "").strip():
            return "environment", token
    token = _text(Path(os.environ.get("HF_TOKEN_PATH") or hub_home() / "token")).strip()
    return ("file" if token else "absent", token)


def wandb_key() -> tuple[str, str]:
    """Return two texts: where the W&B key was found ("environment", "file" or "absent"), and the
    key itself, which is "" if it is absent. As in W&B's own library, the environment variable comes
    first, then the file ~/.netrc, in which the key stands under the host of WANDB_BASE_URL.
    """
    if key := os.environ.get("WANDB_API_KEY", "").strip():
        return "environment", key
    host = urllib.parse.urlsplit(os.environ.get("WANDB_BASE_URL") or URLS["wandb"]).hostname or ""
    try:
        entry = netrc.netrc(os.environ.get("NETRC") or str(Path.home() / ".netrc")).authenticators(
            host
        )
    except (OSError, netrc.NetrcParseError):
        entry = None
    if entry is not None and entry[2]:
        return ("file", entry[2])
    return ("absent", "")


def b2_key(file: str = "") -> tuple[str, str, str]:
    """Return three texts: where the key of Backblaze B2 was found ("environment", "file" or
    "absent"), the key's id, and the key; both are "" if it is absent. The environment variables
    that the tool b2 reads come first. Next is the JSON file `file`, with the fields key_id and key,
    and last the file that `b2 account authorize` writes.
    """
    identifier = os.environ.get("B2_APPLICATION_KEY_ID", "").strip()
    key = os.environ.get("B2_APPLICATION_KEY", "").strip()
    if identifier and key:
        return "environment", identifier, key
    try:
        own = json.loads(_text(Path(file))) if file else {}
    except ValueError:
        own = {}
    if own.get("key_id") and own.get("key"):
        return "file", str(own["key_id"]), str(own["key"])
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    for path in (
        Path(os.environ.get("B2_ACCOUNT_INFO") or Path.home() / ".b2_account_info"),
        config / "b2" / "account_info",
    ):
        if path.is_file() and (found := _account(path)) is not None:
            return ("file", *found)
    return "absent", "", ""


def _account(path: Path) -> tuple[str, str] | None:
    """Return (key id, key) in b2's account file, or None."""
    import sqlite3

    try:
        with sqlite3.connect(f"file:{urllib.parse.quote(str(path))}?mode=ro", uri=True) as database:
            row = database.execute(
                "SELECT account_id_or_app_key_id, application_key FROM account"
            ).fetchone()
    except sqlite3.Error:
        return None
    if row and all(row):
        return (str(row[0]), str(row[1]))
    return None


def _text(path: Path) -> str:
    """Return the text of the file, or "" if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


if __name__ == "__main__":
    json.dump(ask(json.load(sys.stdin)), sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # does not wait for a thread whose service is dead
