"""Of the training environment: what is installed, whether it fits, whether it can be imported."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from bs4_console.preflight import stack as judges
from bs4_console.preflight.checks import Check, Wanted

OLD, NEW = "prime-rl-2026-01", "prime-rl"
VERSIONS = {
    OLD: {
        "python": "3.12.8",
        "prime_rl": "0.1.0",
        "torch": "2.9.0+cu128",
        "vllm": "0.12.0",
        "verifiers": "0.1.8.post2",
        "cuda": "12.8",
    },
    NEW: {
        "python": "3.12.8",
        "prime_rl": "0.8.0",
        "torch": "2.11.0+cu128",
        "vllm": "0.26.0+cu129",
        "cuda": "12.8",
    },
}
START = Wanted(trainer=OLD, config="rl.toml")
POD = {"gpus": {"driver": "580.65.06"}}


def judged(
    trainer: str = OLD,
    pod: dict[str, Any] | None = None,
    imports: dict[str, Any] | None = None,
    **versions: Any,
) -> list[Check]:
    base = VERSIONS[trainer or OLD]
    stack = {
        "python": "/p/.venv/bin/python3",
        "versions": {**base, **versions},
        "imports": imports or {"reverse_text": None},
    }
    return judges.judge(
        stack, POD if pod is None else pod, Wanted(trainer=trainer, config="rl.toml")
    )


def state(checks: list[Check], identifier: str, title: str = "") -> str:
    return next(check.state for check in checks if check.id == identifier and title in check.title)


@pytest.mark.parametrize("trainer", [OLD, NEW])
def test_a_known_stack_is_ok_throughout(trainer: str) -> None:
    assert {check.state for check in judged(trainer)} == {"ok"}
    assert (
        state(
            judged(trainer, flash_attn="2.8.3", imports={"reverse_text": None, "flash_attn": None}),
            "flash-attn-abi",
        )
        == "ok"
    )


def test_the_practice_pods_have_known_stacks() -> None:
    # By name: the product does not import the miniature.
    stacks = importlib.import_module("bs4_practice.miniature.install").STACKS
    for trainer, generation in ((OLD, "2026-01"), (NEW, "current")):
        installed = {
            name.replace("-", "_"): version for name, version in stacks[generation].items()
        }
        assert state(judged(trainer, **installed), "stack") == "ok"


def test_no_environment_blocks_and_says_the_command() -> None:
    checks = judges.judge({"python": None, "versions": {}, "imports": {}}, POD, START)
    assert [check.state for check in checks] == ["blocking", *["unknown"] * 5]
    assert "uv sync" in checks[0].fix


def test_a_probe_that_failed_is_unknown() -> None:
    assert {
        check.state
        for check in judges.judge({"unknown": "it did not tell its versions"}, POD, START)
    } == {"unknown"}


@pytest.mark.parametrize(("trainer", "version"), [(OLD, "0.8.0"), (NEW, "0.1.0")])
def test_the_other_generation_blocks(trainer: str, version: str) -> None:
    assert state(judged(trainer, prime_rl=version), "P06") == "blocking"


def test_a_version_between_the_generations_is_taken_by_name() -> None:
    assert state(judged(NEW, prime_rl="0.7.3"), "P06") == "ok"
    assert state(judged(NEW, prime_rl="0.7.3"), "stack") == "warning"


@pytest.mark.parametrize(
    ("name", "version"),
    [("vllm", "0.13.0"), ("torch", "2.9.1+cu128"), ("flash_attn", "2.7.4"), ("python", "3.11.2")],
)
def test_versions_that_nobody_has_tried_together_are_a_warning(name: str, version: str) -> None:
    checks = judged(OLD, **{name: version})
    assert state(checks, "stack") == "warning"
    assert f"{name} {version}" in next(check.why for check in checks if check.id == "stack")


def test_another_build_of_the_same_version_is_no_other_version() -> None:
    assert state(judged(OLD, torch="2.9.0+cu126", cuda="12.6"), "stack") == "ok"


def test_a_stack_without_vllm_cannot_start() -> None:
    assert state(judged(OLD, vllm=None), "stack") == "blocking"


@pytest.mark.parametrize(
    ("driver", "cuda", "word"),
    [
        ("570.26", "12.8", "ok"),
        ("550.54.14", "12.8", "warning"),
        ("515.105.01", "12.8", "blocking"),
        ("570.124.06", "13.0", "blocking"),
        ("580.65.06", "14.0", "unknown"),
        (None, "12.8", "unknown"),
        ("580.65.06", None, "unknown"),
    ],
)
def test_the_driver_and_the_cuda_that_torch_was_built_for(
    driver: str | None, cuda: str | None, word: str
) -> None:
    assert (
        state(judged(OLD, {"gpus": {"driver": driver}}, cuda=cuda), "cuda-driver-missing") == word
    )


def test_imports_that_fail_name_module_and_error() -> None:
    imports = {
        "reverse_text": "ModuleNotFoundError: No module named 'reverse_text'",
        "flash_attn": "ImportError: undefined symbol: _ZN3c10",
    }
    checks = judged(OLD, imports=imports, flash_attn="2.8.3")
    assert (state(checks, "env-not-installed"), state(checks, "flash-attn-abi")) == (
        "blocking",
        "blocking",
    )
    why = next(check.why for check in checks if check.id == "flash-attn-abi")
    assert "undefined symbol" in why
    fix = next(check.fix for check in checks if check.id == "env-not-installed")
    assert "prime env install OWNER/reverse-text" in fix


def test_a_config_without_an_environment_is_unknown() -> None:
    stack = {"python": "/p", "versions": VERSIONS[OLD], "imports": {}}
    assert state(judges.judge(stack, POD, START), "env-not-installed") == "unknown"


def test_the_pod_alone_compares_with_no_generation() -> None:
    stack = {"python": "/p", "versions": VERSIONS[OLD], "imports": {}}
    assert [check.id for check in judges.judge(stack, POD, Wanted())] == [
        "uv-missing",
        "cuda-driver-missing",
        "flash-attn-abi",
    ]


def test_a_server_by_itself_needs_no_environment() -> None:
    stack = {"python": "/p", "versions": VERSIONS[OLD], "imports": {}}
    assert "env-not-installed" not in [
        check.id
        for check in judges.judge(
            stack, POD, Wanted(trainer=OLD, config="infer.toml", component="inference")
        )
    ]
