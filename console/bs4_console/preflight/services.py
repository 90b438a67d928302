"""Judge what lies outside the pod: credentials, the model, the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bs4_common.preflight import Credential, HubModel, ServiceClock, ServicesPart, StartPart
from bs4_common.telemetry import DiskUsage
from bs4_console import models
from bs4_console.configs.families import billions
from bs4_console.models import Remark
from bs4_console.preflight.checks import (
    Check,
    State,
    Wanted,
    gib,
    said,
    space,
    unseen,
    within,
)

_HUB = ("hub-auth", "Hugging Face token")
_WANDB = ("wandb-auth", "W&B key")
_STORE = ("object-store-auth", "B2 key")
#: What a key on a pod should not be able to do.
_DELETE = "deleteFiles"
_MODEL = ("model-not-found", "model")
_TEXT = ("model-unsupported", "model kind")
_CACHE = ("disk-full", "disk for the model")
_CLOCK = ("clock", "clock")

#: Seconds. Screens correct smaller clock offsets; signatures and tokens begin to fail at minutes.
SKEW_S, SKEW_FATAL_S = 2.0, 300.0
#: Seconds. A Date header has whole seconds and comes with a delay.
DATE_SLACK_S = 5.0
#: The state of a check by the level of a remark about a model.
_STATES: Mapping[str, State] = {"error": "blocking", "warning": "warning"}
#: Bytes of one parameter on the hub.
_WEIGHTS = 2.0
_SILENT = "See whether the pod has a network: `curl -sI https://huggingface.co | head -1`."


def judge(
    services: ServicesPart | None,
    run: StartPart | None,
    wanted: Wanted,
    skew: float | None,
) -> list[Check]:
    """Return the checks of what the start `wanted` needs from outside the pod: the Hugging Face
    token, the model and the disk space for it, the keys of W&B and the object store, and the pod's
    clock. `services` and `run` are the parts of the agent's answer about these services and about
    the start (None: missing). `skew` is the number of seconds by which the pod's clock is ahead of
    the console's, or None if it was not measured.
    """
    subjects = [_HUB, _WANDB, _STORE, *([_MODEL] if wanted.complete else [])]
    found: ServicesPart = services or {}
    start: StartPart = run or {}
    clock = _clock(skew, found.get("clock") or {})
    name = start.get("model", "")
    if (blind := unseen(subjects, services)) is not None:
        return [*blind, *_registry(name, wanted), clock]
    model, box = found.get("model"), found.get("container")
    hub = _hub(found.get("hub", {}), model, wanted)
    checks = within([hub, _wandb(found.get("wandb", {}), start, wanted)], box)
    checks.append(_store(found.get("b2", {}), wanted))
    if wanted.complete:
        checks += within(_model(model, name, wanted), box)
        checks += _download(model, start.get("cache"))
    return [*checks, clock]


def _renew(wanted: Wanted, by_hand: str) -> str:
    if wanted.container:
        return (
            f"`docker exec -it {wanted.container} {by_hand}` writes it; or make the container "
            "with `docker run --env-file FILE`."
        )
    return f"{wanted.setup('--credentials ask')} writes it; or `{by_hand}` on the pod."


def _hub(part: Credential, model: HubModel | None, wanted: Wanted) -> Check:
    state, detail, where = part.get("state"), part.get("detail"), part.get("token")
    if state == "ok":
        why = f"The hub knows it (from the {where})."
        if part.get("writes") is True:
            why += (
                " It may also write there, so whoever takes the pod can change your repositories; "
                "a token that only reads is enough."
            )
        return said(_HUB, "ok", why)
    if state == "refused":
        return said(
            _HUB,
            "blocking",
            f"The hub refuses it ({detail}, from the {where}).",
            f"A bad token makes even public downloads fail. {_renew(wanted, 'hf auth login')}",
        )
    if state == "absent":
        if model is not None and (
            model.get("cached") or (model.get("status") == 200 and not model.get("gated"))
        ):
            return said(_HUB, "ok", "There is none, and this model needs none.")
        return said(
            _HUB,
            "warning",
            f"There is none: {detail}.",
            f"If the model is gated or private: {_renew(wanted, 'hf auth login')}",
        )
    return said(_HUB, "unknown", f"It could not be asked: {detail}.", _SILENT)


def _wandb(part: Credential, run: StartPart, wanted: Wanted) -> Check:
    state, detail, where = part.get("state"), part.get("detail"), part.get("token")
    used = run.get("wandb")
    fix = f"{_renew(wanted, 'wandb login')} Or start with WANDB_MODE=offline and sync later."
    if state == "ok":
        return said(_WANDB, "ok", f"W&B knows it (from the {where}).")
    if state == "refused":
        return said(
            _WANDB,
            "blocking" if used is not False else "warning",
            f"W&B refuses it ({detail}, from the {where}).",
            fix,
        )
    if state == "offline":
        return said(_WANDB, "ok", f"W&B is not asked: {detail}.")
    if state == "absent":
        if used is False:
            return said(_WANDB, "ok", "There is none, and the config does not use W&B.")
        level: State = "blocking" if used else "warning"
        return said(_WANDB, level, f"There is none: {detail}.", fix)
    return said(_WANDB, "unknown", f"It could not be asked: {detail}.", _SILENT)


def _store(part: Credential, wanted: Wanted) -> Check:
    state, detail, missing = part.get("state"), part.get("detail"), part.get("missing", ())
    fix = (
        "Make an application key for the bucket with listBuckets, listFiles, readFiles and "
        "writeFiles. " + _renew(replace(wanted, container=""), "b2 account authorize")
    )
    if state == "absent":
        return said(_STORE, "ok", "There is none: checkpoints live and die with the pod.")
    if state == "refused":
        return said(
            _STORE, "warning", f"B2 refuses it ({detail}): nothing will be copied there.", fix
        )
    lacking = [name for name in missing if name != _DELETE]
    if state == "ok" and lacking:
        return said(_STORE, "warning", f"It may not {', '.join(lacking)}.", fix)
    if state == "ok" and _DELETE in missing:
        why = "B2 knows it: it may list, read and write, and whoever takes the pod cannot delete."
        return said(_STORE, "ok", why)
    if state == "ok":
        why = (
            "B2 knows it. It may also delete, so whoever takes the pod can delete the copies; only "
            "--keep-remote needs that."
        )
        return said(_STORE, "ok", why)
    return said(_STORE, "unknown", f"It could not be asked: {detail}.", _SILENT)


def _model(model: HubModel | None, name: str, wanted: Wanted) -> list[Check]:
    registry = _registry(name, wanted)
    if model is None:
        check = said(_MODEL, "unknown", "The config names no model.")
        if name:
            check = said(_MODEL, "ok", f"{name} is a path on the pod.")
        return [check, *registry]
    return [_to_be_had(model), *_senses(model, registry)]


def _download(model: HubModel | None, usage: DiskUsage | None) -> list[Check]:
    """Return the check that a model which has to be downloaded fits its disk. Empty if the model is
    cached or its name does not say its size.
    """
    if model is None or model.get("cached"):
        return []
    name = model.get("id", "")
    if (size := billions(name)) is None:
        return []
    need, free = size * 1e9 * _WEIGHTS, space(usage)[0]
    if free is None:
        return [said(_CACHE, "unknown", "The disk of the hub's cache does not answer.")]
    return [
        said(
            _CACHE,
            "ok" if free > need else "blocking",
            f"{gib(free)} are free in the hub's cache; {name} is about {gib(need)} "
            f"({size:g}B x {_WEIGHTS:g} bytes).",
            "Free space there, or let HF_HOME name a larger disk.",
        )
    ]


def _to_be_had(model: HubModel) -> Check:
    name, status, detail = model.get("id"), model.get("status"), model.get("detail")
    if model.get("cached"):
        return said(_MODEL, "ok", f"{name} is in the pod's cache.")
    if status == 200:
        return said(_MODEL, "ok", f"{name} is on the hub and this pod may read it.")
    if status in (401, 403, 404):
        remark = models.refused(str(name), status, "")[0]
        gated = status != 404
        return said(
            ("hub-gated", _MODEL[1]) if gated else _MODEL, "blocking", remark.message, remark.fix
        )
    if detail == "HF_HUB_OFFLINE is set":
        return said(
            ("hub-offline-uncached", _MODEL[1]),
            "blocking",
            f"{detail}, and {name} is not in the pod's cache.",
            f"Fetch it with `hf download {name}` while HF_HUB_OFFLINE is unset.",
        )
    return said(
        _MODEL,
        "unknown",
        f"{name} is not in the pod's cache, and the hub gave no answer ({detail}).",
        _SILENT,
    )


def _senses(model: HubModel, registry: list[Check]) -> list[Check]:
    """Return the checks of the model's config.json and of the registry of models."""
    config = model.get("config")
    against = [check for check in registry if check.state != "ok"]
    if config is not None:
        return [*map(_remarked, models.senses(model.get("id", ""), dict(config))), *against]
    if against:
        return registry
    return [said(_TEXT, "unknown", "Its config.json could not be read.")]


def _registry(name: str, wanted: Wanted) -> list[Check]:
    """Return what the registry of models knows against this model. Empty for a model that it does
    not know.
    """
    if not name or not wanted.complete or models.get(name) is None:
        return []
    rows = []
    for remark in models.verify(name, wanted.trainer):
        if remark.level != "info" and remark.check != "known":
            rows.append(_remarked(remark))
    return rows


def _remarked(remark: Remark) -> Check:
    subject = _TEXT
    if remark.check == "tool-calls":
        subject = ("no-tool-calls", "tool calls of the model")
    return said(subject, _STATES.get(remark.level, "ok"), remark.message, remark.fix)


def _clock(skew: float | None, date: ServiceClock) -> Check:
    offset = date.get("offset_s")
    parts = []
    if skew is not None:
        parts.append(f"{abs(skew):.1f} s {'before' if skew > 0 else 'behind'} this console's")
    if offset is not None:
        parts.append(
            f"{abs(offset):.0f} s {'before' if offset > 0 else 'behind'} that of "
            f"{date.get('service')}"
        )
    if not parts:
        return said(_CLOCK, "unknown", "Nobody could be asked what time it is.")
    why = f"It is {' and '.join(parts)}."
    # The offset to a service decides if it is known, because this console's own clock may be wrong.
    off = abs(skew or 0.0)
    if offset is not None:
        off = max(abs(offset) - DATE_SLACK_S, 0.0)
    fix = (
        "Set it: `chronyc -a makestep` or `ntpdate pool.ntp.org` on the host; a container has "
        "its host's clock."
    )
    if off > SKEW_FATAL_S:
        return said(
            _CLOCK, "blocking", f"{why} Certificates and signed requests fail at that.", fix
        )
    if off > SKEW_S:
        return said(_CLOCK, "warning", why, fix)
    if offset is not None and skew is not None and abs(skew) > SKEW_S + DATE_SLACK_S:
        return said(
            _CLOCK,
            "warning",
            f"{why} So it is this console's clock that is wrong.",
            "Set the clock of this machine.",
        )
    return said(_CLOCK, "ok", why)
