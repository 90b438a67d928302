"""Rules for verl. They read a YAML config, a TOML file that a launch from this console takes, or a
script that starts `python -m verl.trainer.main_ppo key=value ...` or verl's SFT trainer (hydra
overrides).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

import yaml

from bs4_common.trainers import verl_settings
from bs4_console import nested_yaml
from bs4_console.configs.catalog import finding
from bs4_console.configs.document import BadToml, broken, parse, read_text
from bs4_console.configs.families import known_bad, reads_pictures
from bs4_console.configs.findings import Finding
from bs4_console.configs.view import Given

_START = re.compile(
    r"\bverl\.trainer\.(?:main_ppo(?:_v0)?|(?P<sft>(?:fsdp_)?sft_trainer(?:_ray)?))\b"
)
_ASSIGN = re.compile(r"^\s*(?:export\s+|local\s+)?([A-Za-z_]\w*)=(.*)$")
_TABLE = re.compile(r"^\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"^\s*([\w.+\"'-]+)\s*=")
_WORD = re.compile(r"^(\+{0,2}|~)([A-Za-z_][\w.@/-]*)=(.*)$", re.DOTALL)
#: The tables of a TOML file that are not verl's: the run's environment variables, and the wanted
#: number of steps.
_OURS = ("environment", "plan")
_MODES = ("auto", "disable", "resume_path")
#: Stands for a value that only the shell or hydra knows.
UNKNOWN = object()


@dataclass
class Job:
    """One training that a verl config or script starts. `values` has its settings by their dotted
    key, and `lines` the 1-based line of each. `prefixes` has, by key, the "+" or "++" that stands
    before the key in a command. `environment` has (value, line) for each environment variable, by
    its name. `line` is the line at which the job itself begins, and `is_script` is False for a YAML
    config.
    """

    line: int
    is_script: bool
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    environment: dict[str, tuple[Any, int]] = field(default_factory=dict)

    @property
    def sft(self) -> bool:
        """Return True if the job is supervised fine-tuning (SFT) and not RL."""
        return verl_settings.component_of(self.values) == "sft"

    def get(self, key: str) -> Any:
        """Return the value of the setting with the dotted key `key`, or None if the job does not
        set it. Return the object UNKNOWN if the value is only known to the shell or to hydra
        (verl's config system) when the script runs.
        """
        return self.values.get(key)

    def number(self, key: str) -> float | None:
        """Return the value of the setting with the dotted key `key` as a number. Return None if it
        is not set, is not a number, or is infinite.
        """
        value = self.values.get(key)
        if isinstance(value, bool):
            return None
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None
        return number if math.isfinite(number) else None

    def at(self, *keys: str) -> int:
        """Return the 1-based line of the first of the dotted keys `keys` that the job sets, or the
        line at which the job begins if it sets none.
        """
        for key in keys:
            if key in self.lines:
                return self.lines[key]
        return self.line


def check(file: File, given: Given) -> list[Finding]:
    """Return what is wrong with a verl config or with a script that starts verl, as findings. The
    list is empty if nothing is. `given` is what is known besides the file, such as the launch
    command. Raises UsageError if the file cannot be read.
    """
    text = read_text(file)
    try:
        started = jobs(file, text, given.launch)
    except BadToml as error:
        return [broken(error)]
    except nested_yaml.TooLarge as error:
        return [_no_config(str(error))]
    except yaml.YAMLError as error:
        return [_bad_yaml(text, error)]
    except TypeError:
        return [_no_config("This is not a table of settings.")]
    if not started:
        return [
            _no_config(
                "Nothing in it starts verl (`python -m verl.trainer.main_ppo`, or its SFT trainer)."
            )
        ]
    found: list[Finding] = []
    for job in started:
        for rule in _RULES:
            # A launch from this console sets all paths of a TOML file's run, new ones for each
            # attempt.
            if rule is not paths or file.suffix != ".toml":
                found += rule(job)
    return found


def jobs(file: File, text: str, launch: str) -> list[Job]:
    """Return the trainings that a file starts. `text` is the file's text. `launch` is the launch
    command, whose words take precedence over the values in a TOML file, or "". Raises BadToml,
    yaml.YAMLError or TypeError if the text cannot be read.
    """
    if file.suffix == ".toml":
        return [_toml(text, launch)]
    started = list(scripts(text))
    if started or file.suffix in (".sh", ".txt", ".md"):
        return started
    return [_yaml(text)]


def _no_config(message: str) -> Finding:
    """Return the finding about a file that is no verl config and no script that starts verl."""
    return Finding(
        id="yaml",
        level="error",
        line=1,
        message=message,
        fix="Give a verl config or the script that starts it.",
    )


def _bad_yaml(text: str, error: yaml.YAMLError) -> Finding:
    """Return the finding about a text that is not valid YAML."""
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or getattr(error, "reason", None)
    return Finding(
        id="yaml",
        level="error",
        line=mark.line + 1 if mark else (text.count("\n", 0, getattr(error, "position", 0)) + 1),
        message=f"This is not valid YAML: {what or 'it cannot be read'}.",
        fix="Correct the syntax.",
    )


def _yaml(text: str) -> Job:
    """Return the job of a YAML config. Raises YAMLError if the text is not valid or too large, and
    TypeError if it is no table.
    """
    nested_yaml.check(text)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise TypeError
    job = Job(1, False)

    def walk(node: yaml.MappingNode, prefix: str) -> None:
        keys: set[str] = set()
        for key, value in node.value:
            name = f"{prefix}{key.value}"
            if name in keys:  # Hydra refuses it, YAML itself takes the last
                raise yaml.MarkedYAMLError(
                    problem=f"found duplicate key {name}", problem_mark=key.start_mark
                )
            keys.add(name)
            job.lines[name] = key.start_mark.line + 1
            if isinstance(value, yaml.MappingNode):
                job.values[name] = {}
                walk(value, name + ".")
            else:
                job.values[name] = _plain(_constructed(value), value)

    walk(root, "")
    return job


def _constructed(node: yaml.Node) -> Any:
    """Return the value of a YAML node. Raises MarkedYAMLError with the node's own line if Python
    cannot make such a date or number.
    """
    try:
        return yaml.safe_load(yaml.serialize(node))
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError) as error:
        what = getattr(error, "problem", None) or "a value is not what it looks like"
        raise yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark) from None


def _toml(text: str, launch: str) -> Job:
    """Return the job of a TOML file that a launch from this console takes.

    Its dotted keys are Hydra's overrides, and a plus anywhere in a key is Hydra's. The words of the
    launch command win over the file, and are reported at the line that they replace. Raises BadToml
    if the text is not valid.
    """
    job = Job(1, False)

    def walk(value: object, path: tuple[str, ...]) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                walk(inner, (*path, key))
            return
        name = ".".join(part.lstrip("+") for part in path)
        job.values[name] = None if value == "None" else _known(value)
        job.prefixes[name] = "+" * max(len(part) - len(part.lstrip("+")) for part in path)

    walk({key: value for key, value in parse(text).items() if key not in _OURS}, ())
    for word in _words(launch):
        match = _WORD.match(word)
        if word.startswith("~"):
            job.values.pop(word[1:].partition("=")[0], None)
        elif match and ("." in match[2] or match[2] in job.values):
            job.values[match[2]] = _scalar(_resolved(match[3], {}))
            job.prefixes[match[2]] = match[1] or job.prefixes.get(match[2], "")
    header = ""
    for number, line in enumerate(text.split("\n"), 1):
        if opened := _TABLE.match(line):
            header = opened[1] + "."
            job.lines.setdefault(opened[1], number)
        elif key := _KEY.match(line):
            name = ".".join(
                part.strip().strip("\"'").lstrip("+") for part in f"{header}{key[1]}".split(".")
            )
            job.lines.setdefault(name, number)
    return job


def _plain(value: Any, node: yaml.Node) -> Any:
    """Return a value as hydra has it: YAML reads `off` as false, and hydra as the word."""
    if (
        isinstance(value, bool)
        and isinstance(node, yaml.ScalarNode)
        and node.value.lower() not in ("true", "false")
    ):
        return node.value
    return _known(value)


def _known(value: Any) -> Any:
    """Return a value, or UNKNOWN for a text that only hydra can resolve."""
    if isinstance(value, str) and "${" in value:
        return UNKNOWN
    return value


def scripts(text: str) -> Iterator[Job]:
    """Yield a Job for each command in a shell script that starts verl. `text` is the script. A
    variable is replaced by its value if the script has set it before in a plain line NAME=value.
    """
    variables: dict[str, tuple[str, int]] = {}
    lines = text.split("\n")
    n = 0
    while n < len(lines):
        first, words = n, []
        while True:
            code = re.sub(r"(^|\s)#.*$", "", lines[n]).rstrip()
            continued = code.endswith("\\")
            words.append((n + 1, code[:-1] if continued else code))
            n += 1
            if not continued or n >= len(lines):
                break
        joined = " ".join(code for _, code in words)
        if _START.search(joined) and not lines[first].lstrip().startswith("#"):
            yield _job(words, variables)
        else:
            assigned = _ASSIGN.match(joined)
            if assigned:
                variables[assigned[1]] = (assigned[2].strip(), first + 1)


def _words(code: str) -> list[str]:
    try:
        return shlex.split(code)
    except ValueError:
        return code.split()


def _job(words: list[tuple[int, str]], variables: dict[str, tuple[str, int]]) -> Job:
    start = next((line for line, code in words if _START.search(code)), words[0][0])
    job = Job(
        start,
        True,
        environment={
            name: (_resolved(value, variables), line) for name, (value, line) in variables.items()
        },
    )
    for line, code in words:
        for token in _words(code):
            match = _WORD.match(token)
            if match is None:
                continue
            prefix, key, text = match.groups()
            value = _resolved(text, variables)
            if "." in key:
                job.values[key], job.lines[key], job.prefixes[key] = _scalar(value), line, prefix
            elif not prefix:
                job.environment[key] = (value, line)
    return job


def _resolved(value: str, variables: dict[str, tuple[str, int]], depth: int = 0) -> Any:
    """Return a text with plain variables replaced by their values. Return UNKNOWN if only the shell
    or hydra knows something in it.
    """
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]

    def put(match: re.Match[str]) -> str:
        name, fallback = match[1] or match[3], match[2]
        if name in variables and depth < 5:
            fallback = _resolved(variables[name][0], variables, depth + 1)
        if isinstance(fallback, str):
            return fallback
        return "\0"

    text = re.sub(r"\$\{([A-Za-z_]\w*)(?::-([^{}$]*))?\}|\$([A-Za-z_]\w*)", put, value)
    if "\0" in text or "$" in text or "`" in text:
        return UNKNOWN
    return text


def _scalar(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.lower() in ("null", "none"):
        return None
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def goal(job: Job) -> Iterator[Finding]:
    """Yield a finding if the job does not set the number of training steps. For supervised
    fine-tuning (SFT) the number of epochs is enough.
    """
    # An SFT ends with its epochs. RL runs 30 epochs if the number is not set.
    has_epochs = job.sft and job.get("trainer.total_epochs") is not None
    if job.get("trainer.total_training_steps") is None and not has_epochs:
        yield finding(
            "V01",
            job.at("trainer.total_training_steps", "trainer"),
            "trainer.total_training_steps is not set.",
        )


def resume(job: Job) -> Iterator[Finding]:
    """Yield a finding if trainer.resume_mode, which decides whether a start resumes from a
    checkpoint, is not one of verl's modes. Yield one if it is "resume_path" and
    trainer.resume_from_path is not set. Yield nothing if the mode is not set, or if it is only
    known to the shell when the script runs.
    """
    mode = job.get("trainer.resume_mode")
    if "trainer.resume_mode" not in job.values or mode is UNKNOWN:
        return
    if mode not in _MODES:
        shown = "null" if mode is None else mode
        yield finding(
            "V02", job.at("trainer.resume_mode"), f"trainer.resume_mode = {shown} is not a mode."
        )
    elif mode == "resume_path" and job.get("trainer.resume_from_path") in (None, False, ""):
        yield finding(
            "V02",
            job.at("trainer.resume_mode"),
            "resume_mode = resume_path without resume_from_path.",
            "Set trainer.resume_from_path=.../global_step_N.",
        )


def memory(job: Job) -> Iterator[Finding]:
    """Yield a finding for each setting that is known to need more than the memory of one GPU: too
    many samples (rollout.n) for the length of answers, gpu_memory_utilization above 0.65,
    max_num_batched_tokens above 16384. Yield nothing for a job that has several GPUs, or whose
    number of GPUs is only known to the shell when the script runs.
    """
    gpus, nodes = job.number("trainer.n_gpus_per_node"), job.number("trainer.nnodes")
    if job.get("trainer.n_gpus_per_node") is UNKNOWN or (gpus or 1) * (nodes or 1) > 1:
        return
    rollout = "actor_rollout_ref.rollout."
    samples, answer = job.number(rollout + "n") or 0, job.number("data.max_response_length")
    if answer is None:
        answer = job.number(rollout + "response_length") or 0
    if samples > 4 and answer >= 1536:
        yield finding(
            "V03",
            job.at(rollout + "n"),
            f"n = {samples:g} at {answer:g} answer tokens.",
            "Set n to 4 or less, or shorten the answers.",
        )
    elif samples >= 4 and answer > 1536:
        yield finding(
            "V03",
            job.at("data.max_response_length"),
            f"{answer:g} answer tokens at n = {samples:g}.",
            "Set 1536 or less.",
        )
    for key, most in (("gpu_memory_utilization", 0.65), ("max_num_batched_tokens", 16384)):
        value = job.number(rollout + key)
        if value is not None and value > most:
            yield finding(
                "V03", job.at(rollout + key), f"{key} = {value:g}.", f"Set it to {most:g} or less."
            )


def lora(job: Job) -> Iterator[Finding]:
    """Yield a finding for each setting that does not go together with LoRA: a strategy of the actor
    other than fsdp and fsdp2, a rollout engine other than vllm, load_format other than safetensors,
    use_shm not true. Yield nothing if the job trains no LoRA adapter.
    """
    model, rollout = "actor_rollout_ref.model.", "actor_rollout_ref.rollout."
    switches = (model + "lora_rank", model + "lora.rank", model + "lora_adapter_path")
    on = [key for key in switches if job.get(key) not in (None, 0, "", False, UNKNOWN)]
    if not on:
        return
    strategy, name = job.get("actor_rollout_ref.actor.strategy"), job.get(rollout + "name")
    if strategy not in (None, UNKNOWN, "fsdp", "fsdp2"):
        yield finding(
            "V04",
            job.at("actor_rollout_ref.actor.strategy"),
            f"LoRA with actor.strategy = {strategy}.",
        )
    if name not in (None, UNKNOWN, "vllm"):
        yield finding("V04", job.at(rollout + "name"), f"LoRA with rollout.name = {name}.")
    for key, right in ((rollout + "load_format", "safetensors"), (model + "use_shm", True)):
        value = job.get(key)
        if value is not UNKNOWN and value != right:
            said = f"= {str(value).lower()}" if key in job.values else "is not set"
            yield finding(
                "V04",
                job.at(key, on[0]),
                f"LoRA with {key.rsplit('.', 1)[-1]} {said}.",
                f"Set {key}={str(right).lower()}.",
            )


def prefixes(job: Job) -> Iterator[Finding]:
    """Yield a finding for each setting whose key has "adapter" in it and has no + before it in the
    command. verl's own config does not have such keys, and hydra, which reads the command, accepts
    a new key only with a + before it.
    """
    for key, prefix in job.prefixes.items():
        if not prefix and any("adapter" in part for part in key.split(".")):
            yield finding(
                "V05", job.at(key), f"{key} is not in verl's own config.", f"Write +{key}=..."
            )


def saving(job: Job) -> Iterator[Finding]:
    """Yield a finding if the job saves no checkpoints (trainer.save_freq is missing or not above
    0). Yield one if it never deletes old ones, because no limit on their number is set.
    """
    often = "trainer.save_freq"
    kept = "trainer.max_ckpt_to_keep" if job.sft else "trainer.max_actor_ckpt_to_keep"
    if job.get(often) is not UNKNOWN and (job.number(often) or -1) <= 0:
        said = f"= {job.get(often)}" if often in job.values else "is not set (-1)"
        yield finding(
            "V06",
            job.at(often, "trainer"),
            f"trainer.save_freq {said}: no checkpoint is saved.",
            "Set trainer.save_freq above 0.",
        )
    if job.get(kept) is None:
        yield finding(
            "V06",
            job.at(kept, "trainer"),
            f"{kept} is not set: every checkpoint is kept.",
            f"Set {kept}.",
        )


def paths(job: Job) -> Iterator[Finding]:
    """Yield a finding if trainer.default_local_dir is not set or not absolute. Yield one if
    hydra.run.dir is set to a fixed directory, because every attempt then writes into it. Yield one
    if VERL_FILE_LOGGER_PATH, the path of the file logger, is fixed, or is missing in a script that
    uses that logger.
    """
    place = "trainer.default_local_dir"
    directory = job.get(place)
    if directory is None:
        yield finding(
            "V07",
            job.at(place, "trainer"),
            f"{place} is not set: checkpoints go below the directory that it happens to start in.",
        )
    elif isinstance(directory, str) and not directory.startswith("/"):
        yield finding("V07", job.at(place), f"{place} = {directory} is not absolute.")
    record = job.get("hydra.run.dir")
    if isinstance(record, str):
        yield finding(
            "V07",
            job.at("hydra.run.dir"),
            f"hydra.run.dir = {record} is the same for every attempt.",
        )
    loggers = job.get("trainer.logger")
    uses_file = "file" in (
        loggers if isinstance(loggers, list) else re.findall(r"\w+", str(loggers))
    )
    path, line = job.environment.get("VERL_FILE_LOGGER_PATH", (None, job.line))
    if uses_file and job.is_script and path is None:
        yield finding(
            "V07",
            job.at("trainer.logger"),
            "The file logger has no path of its own for this attempt.",
        )
    elif isinstance(path, str):
        yield finding("V07", line, f"VERL_FILE_LOGGER_PATH = {path} is the same for every attempt.")


def engines(job: Job) -> Iterator[Finding]:
    """Yield a finding if the GPUs of the job cannot be divided among rollout engines. One engine
    takes tensor_model_parallel_size GPUs (2 if it is not set), times data and pipeline parallel
    size. Yield nothing for SFT, or if the number of GPUs is not set or is only known to the shell
    when the script runs.
    """
    place = "actor_rollout_ref.rollout.tensor_model_parallel_size"
    gpus, nodes = job.number("trainer.n_gpus_per_node"), job.number("trainer.nnodes")
    if job.sft or not gpus or job.get(place) is UNKNOWN or job.get("trainer.nnodes") is UNKNOWN:
        return
    engine = job.number(place) or 2
    for key in ("data_parallel_size", "pipeline_model_parallel_size"):
        engine *= job.number(f"actor_rollout_ref.rollout.{key}") or 1
    total = gpus * (nodes or 1)
    if total % engine:
        said = "is not set, and verl takes 2" if place not in job.values else f"= {engine:g}"
        yield finding(
            "V08",
            job.at(place, "trainer.n_gpus_per_node"),
            f"tensor_model_parallel_size {said}: {total:g} GPU(s) do not divide by {engine:g}.",
        )


def context(job: Job) -> Iterator[Finding]:
    """Yield a finding if the longest prompt and the longest answer, in tokens, together exceed
    max_model_len. Yield nothing if one of the three is not set.
    """
    limit = job.number("actor_rollout_ref.rollout.max_model_len")
    prompt, answer = job.number("data.max_prompt_length"), job.number("data.max_response_length")
    if limit is not None and prompt is not None and answer is not None and prompt + answer > limit:
        yield finding(
            "R08",
            job.at("data.max_response_length"),
            f"A prompt of {prompt:g} and an answer of {answer:g} tokens do not fit max_model_len "
            f"= {limit:g}.",
            "Lower data.max_response_length, or raise max_model_len.",
        )


def model(job: Job) -> Iterator[Finding]:
    """Yield a finding if the console's registry of models says that training the job's model fails:
    an error if it fails with verl, and a warning if with another trainer. Yield a warning if the
    model's name says that it is a vision-language model. Yield nothing for a model that is given as
    a path.
    """
    place = "actor_rollout_ref.model.path"
    for key in ("model.path", "model.partial_pretrain", place):
        if key in job.values:
            place = key
    name = job.get(place)
    if not isinstance(name, str) or name.startswith(("/", ".", "~")):
        return
    bad = known_bad(name, "verl")
    if bad:
        yield finding(
            "R24",
            job.at(place),
            f"{name} is known to fail: {bad[0]}.",
            level="error" if bad[1] else "warning",
        )
    elif reads_pictures(name):
        yield finding(
            "R24", job.at(place), f"{name} is a vision-language model by its name.", level="warning"
        )


_RULES = (goal, resume, memory, lora, prefixes, saving, paths, engines, context, model)
