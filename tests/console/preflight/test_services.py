"""Of credentials, the model and the clock."""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.preflight import services as judges
from bs4_console.preflight.checks import GIB, Check, Wanted

START = Wanted(trainer="prime-rl-2026-01", config="rl.toml", run="demo")
TEXT = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
GOOD = {"token": "file", "state": "ok", "detail": "HTTP 200"}


def model(**changes: Any) -> dict[str, Any]:
    return {
        "id": "own/small",
        "cached": False,
        "config": TEXT,
        "status": 200,
        "gated": False,
        "detail": "HTTP 200",
        **changes,
    }


def judged(
    wanted: Wanted = START,
    run: dict[str, Any] | None = None,
    skew: float | None = 0.0,
    **changes: Any,
) -> list[Check]:
    services = {
        "hub": GOOD,
        "wandb": GOOD,
        "b2": {**GOOD, "missing": []},
        "model": model(),
        "clock": None,
        **changes,
    }
    return judges.judge(
        services, {"model": "own/small", "wandb": True, **(run or {})}, wanted, skew
    )


def state(identifier: str, **changes: Any) -> str:
    return next(check.state for check in judged(**changes) if check.id == identifier)


def part(word: str, **more: Any) -> dict[str, Any]:
    return {
        "token": "absent" if word == "absent" else "file",
        "state": word,
        "detail": "so",
        **more,
    }


def test_all_is_well() -> None:
    assert {check.state for check in judged()} == {"ok"}
    assert [check.id for check in judged(Wanted())] == [
        "hub-auth",
        "wandb-auth",
        "object-store-auth",
        "clock",
    ]


def test_services_that_could_not_be_asked_are_unknown() -> None:
    checks = judges.judge({"unknown": "no network"}, {"model": "own/small"}, START, 0.0)
    assert {check.id: check.state for check in checks} == {
        "hub-auth": "unknown",
        "wandb-auth": "unknown",
        "object-store-auth": "unknown",
        "model-not-found": "unknown",
        "clock": "ok",
    }


@pytest.mark.parametrize(
    ("hub", "found", "word"),
    [
        (part("refused"), model(), "blocking"),
        (part("unknown"), model(), "unknown"),
        (part("offline"), model(), "unknown"),
        (part("absent"), model(), "ok"),
        (part("absent"), model(cached=True, status=None), "ok"),
        (part("absent"), model(status=None), "warning"),
    ],
)
def test_the_hubs_token(hub: dict[str, Any], found: dict[str, Any], word: str) -> None:
    assert state("hub-auth", hub=hub, model=found) == word


@pytest.mark.parametrize("writes", [True, False, None])
def test_a_token_that_may_write_is_pointed_out(writes: bool | None) -> None:
    checks = judged(hub=part("ok", writes=writes))
    (why,) = [check.why for check in checks if check.id == "hub-auth"]
    assert ("a token that only reads is enough" in why) is (writes is True)


@pytest.mark.parametrize(
    ("found", "used", "word"),
    [
        (part("absent"), True, "blocking"),
        (part("absent"), False, "ok"),
        (part("absent"), None, "warning"),
        (part("refused"), True, "blocking"),
        (part("refused"), False, "warning"),
        (part("offline"), True, "ok"),
        (part("unknown"), True, "unknown"),
    ],
)
def test_the_key_of_wandb(found: dict[str, Any], used: bool | None, word: str) -> None:
    assert state("wandb-auth", wandb=found, run={"wandb": used}) == word


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (part("absent"), "ok"),
        (part("refused"), "warning"),
        (part("ok", missing=["deleteFiles"]), "ok"),
        (part("ok", missing=[]), "ok"),
        (part("ok", missing=["writeFiles", "deleteFiles"]), "warning"),
        (part("unknown"), "unknown"),
    ],
)
def test_the_key_of_b2(found: dict[str, Any], word: str) -> None:
    assert state("object-store-auth", b2=found) == word


def test_the_key_of_b2_that_is_asked_for_cannot_delete() -> None:
    """What whoever takes a pod cannot delete stays."""

    def of(missing: list[str]) -> Any:
        checks = judged(b2=part("ok", missing=missing))
        return next(check for check in checks if check.id == "object-store-auth")

    assert "cannot delete" in of(["deleteFiles"]).why
    assert "can delete the copies" in of([]).why
    lacking = of(["writeFiles", "deleteFiles"])
    assert lacking.why == "It may not writeFiles."
    assert "writeFiles" in lacking.fix
    assert "deleteFiles" not in lacking.fix


@pytest.mark.parametrize(
    ("found", "identifier", "word"),
    [
        (model(status=404), "model-not-found", "blocking"),
        (model(status=403, gated=True), "hub-gated", "blocking"),
        (model(status=401), "hub-gated", "blocking"),
        (model(status=None, detail="no answer: Connection refused"), "model-not-found", "unknown"),
        (model(status=503), "model-not-found", "unknown"),
        (model(status=404, cached=True), "model-not-found", "ok"),
        (model(status=None, detail="HF_HUB_OFFLINE is set"), "hub-offline-uncached", "blocking"),
        (model(status=None, cached=True, detail="HF_HUB_OFFLINE is set"), "model-not-found", "ok"),
        (model(config={**TEXT, "vision_config": True}), "model-unsupported", "blocking"),
        (model(config={"architectures": ["BertModel"]}), "model-unsupported", "warning"),
        (model(config=None), "model-unsupported", "unknown"),
    ],
)
def test_the_model(found: dict[str, Any], identifier: str, word: str) -> None:
    assert state(identifier, model=found) == word


def test_a_model_that_could_not_be_trained_before_is_known() -> None:
    name = "mistralai/Ministral-3-8B-Instruct-2512"
    check = next(
        c
        for c in judged(run={"model": name}, model=model(id=name))
        if c.id == "model-unsupported" and c.state == "blocking"
    )
    assert "could not be trained" in check.why


def test_a_path_on_the_pod_is_asked_nobody_about() -> None:
    assert state("model-not-found", model=None, run={"model": "/models/own"}) == "ok"
    assert state("model-not-found", model=None, run={"model": ""}) == "unknown"


@pytest.mark.parametrize(
    ("skew", "offset", "word"),
    [
        (0.5, None, "ok"),
        (3.0, None, "warning"),
        (-900.0, None, "blocking"),
        (0.5, 4.0, "ok"),
        (0.0, 60.0, "warning"),
        (0.0, -900.0, "blocking"),
        (600.0, 1.0, "warning"),  # this console's clock is the wrong one
        (None, None, "unknown"),
    ],
)
def test_the_clock(skew: float | None, offset: float | None, word: str) -> None:
    clock = None if offset is None else {"service": "hub.example.org", "offset_s": offset}
    assert state("clock", skew=skew, clock=clock) == word


@pytest.mark.parametrize(
    ("found", "free", "words"),
    [
        (model(id="own/m-8B"), 100.0, ["ok"]),
        (model(id="own/m-8B"), 10.0, ["blocking"]),
        (model(id="own/m-8B"), None, ["unknown"]),
        (model(id="own/m-8B", cached=True), 10.0, []),
        (model(), 10.0, []),
    ],
)
def test_a_download_has_to_fit(found: dict[str, Any], free: float | None, words: list[str]) -> None:
    usage = {"free": None if free is None else free * GIB}
    assert [
        check.state
        for check in judged(model=found, run={"cache": usage})
        if check.id == "disk-full"
    ] == words
