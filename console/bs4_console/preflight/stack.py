"""Judge the training environment: its versions against the known stacks and the driver, and the
imports that a run needs.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Literal

from bs4_common.preflight import PodPart, StackPart, StartPart
from bs4_console.assets import find
from bs4_console.preflight.checks import Check, Subject, Wanted, said, unseen, within
from bs4_console.setup.recipe import stacks

_THERE = ("uv-missing", "training environment")
_GENERATION = ("P06", "trainer generation")
_KNOWN = ("stack", "versions")
_DRIVER = ("cuda-driver-missing", "driver and CUDA")
_FLASH = ("flash-attn-abi", "flash-attn")
_ENVIRONMENTS = ("env-not-installed", "environments")
_MODULE = ("verl-missing", "verl")
_ENGINE = ("rollout-engine", "rollout engine")

#: The packages that are listed, in this order.
_TOLD = ("python", "prime_rl", "verl", "torch", "vllm", "sglang", "ray", "flash_attn", "cuda")
#: The key in configs/stacks.toml, by key of the agent's answer.
_PACKAGES: Mapping[str, Literal["package", "vllm", "torch", "flash_attn", "verifiers"]] = {
    "prime_rl": "package",
    "vllm": "vllm",
    "torch": "torch",
    "flash_attn": "flash_attn",
    "verifiers": "verifiers",
}


def judge(
    stack: StackPart | None,
    pod: PodPart | None,
    wanted: Wanted,
    run: StartPart | None = None,
) -> list[Check]:
    """Return the checks of the training environment on the pod: the trainer and the libraries that
    it needs. `wanted` describes the run that a person wants to start. `stack`, `pod` and `run` are
    the parts of the agent's answer about the installed libraries, the pod and this run. A part that
    is missing is None.

    If `wanted` names no run to start, the installed versions are listed and not compared with those
    that are known to work. verl's versions are never compared, because verl runs with whatever its
    image has.
    """
    trainer = _trainer(wanted)
    subjects = [_THERE, _DRIVER, _FLASH]
    if trainer:
        subjects[1:1] = [_GENERATION, _KNOWN] if wanted.of.installed else [_MODULE, _ENGINE]
    if trainer and wanted.loads_environments:
        subjects.append(_ENVIRONMENTS)
    if (blind := unseen(subjects, stack)) is not None:
        return blind
    found: StackPart = stack or {}
    return within(_judged(found, pod or {}, wanted, run or {}, subjects), found.get("container"))


def _trainer(wanted: Wanted) -> str:
    """Return the trainer that is judged, or "" if only the pod is."""
    if wanted.complete or wanted.for_machine:
        return wanted.trainer
    return ""


def _judged(
    found: StackPart,
    pod: PodPart,
    wanted: Wanted,
    run: StartPart,
    subjects: Sequence[Subject],
) -> list[Check]:
    trainer, cwd = _trainer(wanted), wanted.cwd
    if not found.get("python"):
        fix = (
            f"{wanted.setup()} makes it; or on the pod: `cd ~/{cwd.removeprefix('~/')} && uv "
            "sync --all-extras`."
        )
        state = said(_THERE, "blocking", f"There is no .venv in {cwd}, nor above it.", fix)
        return [
            state,
            *(
                said(subject, "unknown", "There is no training environment to ask.")
                for subject in subjects[1:]
            ),
        ]
    have = {}
    for key, value in found.get("versions", {}).items():
        if value is not None:
            have[key] = value
    told = ", ".join(f"{name} {have[name]}" for name in _TOLD if name in have)
    checks = [said(_THERE, "ok", f"{found['python']}: {told}.")]
    imports = dict(found.get("imports", {}))
    if trainer and wanted.of.installed:
        checks += [_generation(have, trainer), _known(have, trainer)]
    elif trainer:
        checks += [_module(wanted.of.module, imports, have), *_engine(have, run)]
    checks.append(_driver(have.get("cuda"), pod.get("gpus", {}).get("driver")))
    return [*checks, *_imports(imports, have, wanted)]


def _generation(have: Mapping[str, str], trainer: str) -> Check:
    version = have.get("prime_rl")
    if version is None:
        return said(
            _GENERATION,
            "blocking",
            "prime-rl is not installed in the training environment.",
            "Install it where it is checked out: `uv sync --all-extras`.",
        )
    wanted = stacks()[trainer]["package"]
    for other, entry in stacks().items():
        if other != trainer and _minor(version) == _minor(entry["package"]) != _minor(wanted):
            return said(
                _GENERATION,
                "blocking",
                f"prime-rl {version} is installed, which is {entry['title']}; the start is for "
                f"{trainer}.",
                f"Give `--trainer {other}`, or check out {stacks()[trainer]['revision']} and "
                "`uv sync`.",
            )
    return said(_GENERATION, "ok", f"prime-rl {version}.")


def _module(module: str, imports: Mapping[str, str | None], have: Mapping[str, str]) -> Check:
    if module not in imports:
        return said(_MODULE, "unknown", f"Whether {module} can be imported was not asked.")
    if imports[module] is not None:
        return said(
            _MODULE,
            "blocking",
            f"{module} cannot be imported: {imports[module]}",
            f"Give --cwd the directory that {module} is checked out in, --env VIRTUAL_ENV=DIR its "
            "environment, or `pip install` it there.",
        )
    how = f"{module} can be imported, from a checkout."
    if module in have:
        how = f"{module} {have[module]} can be imported."
    return said(_MODULE, "ok", how)


def _engine(have: Mapping[str, str], run: StartPart) -> list[Check]:
    """Return the check of the rollout engine that the run uses. It is only checked to be installed,
    because importing it takes a minute.
    """
    engine = run.get("engine")
    if engine is None:
        return []
    if engine not in ("vllm", "sglang"):
        return [said(_ENGINE, "unknown", f"Whether {engine} is installed is not looked at.")]
    if engine in have:
        return [said(_ENGINE, "ok", f"{engine} {have[engine]}.")]
    other = "sglang" if engine == "vllm" else "vllm"
    through = ""
    if other in have:
        through = f", or roll out through {other}: `-- actor_rollout_ref.rollout.name={other}`"
    return [
        said(
            _ENGINE,
            "blocking",
            f"The rollouts go through {engine}, which is not installed.",
            f"Use an image with {engine}{through}.",
        )
    ]


def _known(have: Mapping[str, str], trainer: str) -> Check:
    entry = stacks()[trainer]
    absent = [name for name in ("torch", "vllm") if name not in have]
    if absent:
        return said(
            _KNOWN,
            "blocking",
            f"{' and '.join(absent)} are not installed in the training environment.",
            "Run `uv sync --all-extras`.",
        )
    other = []
    for name, key in _PACKAGES.items():
        wanted = entry[key]
        if name in have and re.match(r"\d", wanted) and _public(have[name]) != _public(wanted):
            other.append(f"{name} {have[name]} (known: {wanted})")
    python = entry["python"].removeprefix("~=")
    if python and _minor(have.get("python", python)) != _minor(python):
        other.append(f"python {have['python']} (known: {entry['python']})")
    if other:
        return said(
            _KNOWN,
            "warning",
            f"Nobody has tried this together: {', '.join(other)}.",
            f"`uv sync --all-extras` at {entry['revision']} brings the versions of its lock "
            "file; or try 5 steps first.",
        )
    return said(_KNOWN, "ok", f"As in {entry['title']} ({entry['revision']}).")


def _driver(cuda: str | None, driver: str | None) -> Check:
    if cuda is None or driver is None or not re.match(r"\d", driver):
        why = "torch is built without CUDA, or does not say with which."
        if cuda is not None:
            why = "The driver does not tell its version."
        return said(_DRIVER, "unknown", why)
    table = _cuda()
    least = table["runs"].get(cuda.partition(".")[0])
    made_for = table["made_for"].get(cuda)
    why = f"Driver {driver}, torch for CUDA {cuda}"
    if least is None:
        return said(_DRIVER, "unknown", f"{why}; what that needs is not known here.")
    if _numbers(driver) < _numbers(least):
        return said(
            _DRIVER,
            "blocking",
            f"{why}, which needs {least} or newer.",
            "Take a pod with a newer driver; it cannot be changed from inside.",
        )
    if made_for is not None and _numbers(driver) < _numbers(made_for):
        return said(
            _DRIVER,
            "warning",
            f"{why}, made for {made_for}.",
            "Prefer a pod with that driver; what vLLM compiles for the GPU at its start may fail "
            "on an older one.",
        )
    return said(_DRIVER, "ok", f"{why}.")


def _imports(
    imports: dict[str, str | None], have: Mapping[str, str], wanted: Wanted
) -> list[Check]:
    checks = []
    if "flash_attn" in imports:
        problem = imports.pop("flash_attn")
        how = wanted.of.rebuild_flash_attn
        fix = f"Install the wheel made for this torch and CUDA, last of all: {how}."
        name = f"flash-attn {have.get('flash_attn')}"
        good = said(_FLASH, "ok", f"{name} can be imported.")
        checks.append(
            good
            if problem is None
            else said(_FLASH, "blocking", f"{name} cannot be imported: {problem}", fix)
        )
    else:
        checks.append(said(_FLASH, "ok", "flash-attn is not installed."))
    if not wanted.complete or not wanted.loads_environments:
        return checks
    if not imports:
        return [
            *checks,
            said(
                _ENVIRONMENTS, "unknown", "The config names no environment that could be imported."
            ),
        ]
    for module, problem in imports.items():
        if problem is None:
            checks.append(said(_ENVIRONMENTS, "ok", f"{module} can be imported."))
            continue
        name = module.replace("_", "-")
        fix = (
            f"Install it where the trainer runs: `prime env install OWNER/{name}`, or `uv pip "
            "install -e PATH`; then this again."
        )
        checks.append(
            said(
                _ENVIRONMENTS,
                "blocking",
                f"{module} cannot be imported in the training environment: {problem}",
                fix,
            )
        )
    return checks


@functools.cache
def _cuda() -> dict[str, dict[str, str]]:
    with (find("configs") / "cuda.toml").open("rb") as handle:
        return tomllib.load(handle)


def _public(version: str) -> str:
    """Return a version without its local part: 2.11.0 for 2.11.0+cu128, which comes from another
    index.
    """
    return version.partition("+")[0]


def _minor(version: str) -> tuple[int, ...]:
    return _numbers(version)[:2]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", _public(version)))
