"""Rules that hold in both generations of prime-rl. Each reads the keys under which that generation
keeps the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bs4_console.configs.catalog import finding
from bs4_console.configs.families import PARSERS, family, known_bad, reads_pictures
from bs4_console.configs.findings import Edit, Finding, Path, dotted
from bs4_console.configs.view import View


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of every rule in this module about the config of a whole training."""
    yield from sequence_length(view)
    yield from answer_length(view)
    yield from batch(view)
    yield from offload(view)
    yield from model(view)
    yield from parser(view)
    yield from environments(view)


def january(view: View) -> bool:
    """Return True if the config is for the generation of January 2026."""
    return view.generation == "prime-rl-2026-01"


def sequence(view: View) -> tuple[float | None, float | None]:
    """Return (trainer's, orchestrator's) sequence length in tokens. None means that it is not
    known.

    In January 2026 the shared value replaces both; in the current generation it fills what is not
    written.
    """
    if january(view) and view.has("seq_len"):
        shared = view.number("seq_len")
        return shared, shared
    places = () if january(view) else ("seq_len",)
    trainer = view.number("trainer.model.seq_len", *places, "trainer.model.seq_len")
    return trainer, view.number("orchestrator.seq_len", *places, "orchestrator.seq_len")


def sequence_length(view: View) -> Iterator[Finding]:
    """Yield findings about seq_len: a shared value that disagrees, or a trainer whose length is
    below the orchestrator's.
    """
    shared, theirs = view.number("seq_len"), ("trainer.model.seq_len", "orchestrator.seq_len")
    if view.has("seq_len"):
        for place in theirs:
            if view.has(place) and view.number(place) != shared:
                verb = "disagrees with"
                if january(view):
                    verb = "is silently replaced by"
                edits = (
                    ()
                    if view.number(theirs[0]) != view.number(theirs[1])
                    else (Edit("remove", ("seq_len",)),)
                )
                yield finding(
                    "R02",
                    view.line("seq_len"),
                    f"{place} = {view.written(place)} {verb} the shared seq_len = {shared:g}.",
                    edits=edits,
                )
                if not january(view):
                    return
                break
        else:
            if january(view):
                message = (
                    "The shared seq_len replaces what either component sets; 2026-01 has it "
                    "under [orchestrator] and [trainer.model]."
                )
                yield finding("R02", view.line("seq_len"), message, level="warning")
    trainer, orchestrator = sequence(view)
    if trainer is not None and orchestrator is not None and trainer < orchestrator:
        own = view.has("trainer.model.seq_len")
        said = f"trainer.model.seq_len is {trainer:g}" + ("" if own else " (the default)")
        edit = Edit("set", ("trainer", "model", "seq_len"), int(orchestrator))
        yield finding(
            "R01",
            view.line(*theirs),
            f"{said}, less than orchestrator.seq_len = {orchestrator:g}.",
            edits=(edit,),
        )


def answer_places(view: View) -> list[tuple[str, Any]]:
    """Return (place, tokens) of every limit on a training answer that is written."""
    place = "orchestrator.train.sampling.max_completion_tokens"
    if january(view):
        place = "orchestrator.sampling.max_tokens"
    if view.has(place) and view.number(place) is not None:
        return [(place, view.number(place))]
    return []


def context(view: View) -> float | None:
    """Return the largest number of tokens that the inference server takes (max_model_len). Return
    None if the file does not say it.
    """
    places = (
        ("inference.model.max_model_len", "max_model_len")
        if january(view)
        else ("inference.vllm.max_model_len",)
    )
    for place in places:
        if view.has(place):
            return view.number(place)
    return None


def answer_length(view: View) -> Iterator[Finding]:
    """Yield findings about answers that do not fit the context or the sequence."""
    limit, prompt = context(view), view.given.prompt_tokens
    _, longest = sequence(view)
    for place, tokens in answer_places(view):
        if limit is not None and tokens + prompt > limit:
            room = max(int(limit) - prompt, 0) // 100 * 100
            message = (
                f"{place} = {tokens:g} and a prompt of about {prompt} do not fit max_model_len = "
                f"{limit:g}."
            )
            # A person has to choose which of the two to change: no fix is certain.
            yield finding(
                "R08",
                view.line(place),
                message,
                f"Lower it to {room}, or raise max_model_len."
                if room >= 256
                else "Raise max_model_len.",
            )
        if longest is not None and tokens > longest:
            yield finding(
                "R29",
                view.line(place),
                f"{place} = {tokens:g} is more than the sequence of {longest:g}.",
            )


def batch(view: View) -> Iterator[Finding]:
    """Yield a finding if the batch size is not a multiple of the group size."""
    group = "orchestrator.group_size"
    if january(view):
        group = "orchestrator.rollouts_per_example"
    if (
        not january(view)
        and view.has("orchestrator.token_batch_size")
        and not view.has("orchestrator.batch_size")
    ):
        return
    size, per = view.number("orchestrator.batch_size"), view.number(group)
    if size is None and not january(view):
        size = 128
    if size is not None and per and size % per:
        yield finding(
            "R16",
            view.line("orchestrator.batch_size", group),
            f"batch_size = {size:g} is not a multiple of {group} = {per:g}.",
        )


def offload(view: View) -> Iterator[Finding]:
    """Yield a finding if fsdp_cpu_offload is on together with LoRA."""
    place = "trainer.model.fsdp_cpu_offload"
    if view.written(place) is True and isinstance(view.written("trainer.model.lora"), dict):
        yield finding(
            "R10",
            view.line(place),
            "fsdp_cpu_offload does not go with LoRA.",
            edits=(Edit("remove", tuple(place.split("."))),),
        )


def models(view: View) -> Iterator[tuple[str, str]]:
    """Yield (place, model name) for each key that names the model."""
    inference = "inference.vllm.model"
    if january(view):
        inference = "inference.model.name"
    for place in ("model.name", "trainer.model.name", "orchestrator.model.name", inference):
        if isinstance(view.written(place), str):
            yield place, view.written(place)


def model(view: View) -> Iterator[Finding]:
    """Yield findings about model names: models that are known to fail, vision-language models, and
    names with white space.
    """
    seen = set()
    for place, name in models(view):
        if name in seen:
            continue
        seen.add(name)
        bad = known_bad(name, view.generation)
        if bad:
            reason, here = bad
            yield finding(
                "R24",
                view.line(place),
                f"{name} cannot be trained: {reason}.",
                level="error" if here else "warning",
            )
        elif reads_pictures(name) and not any(
            view.has(f"{table}model.vlm") for table in ("", "trainer.")
        ):
            message = f"{name} is a vision-language model by its name."
            yield finding(
                "R24", view.line(place), message, level="error" if january(view) else "warning"
            )
        elif not name.strip() or name != name.strip() or any(letter.isspace() for letter in name):
            yield finding("R24", view.line(place), f'"{name}" is not a model\'s name.')


def parser(view: View) -> Iterator[Finding]:
    """Yield findings about the tool call parser: one that does not fit the model's family, or tool
    choice that is not on.
    """
    table = "inference.vllm"
    if january(view):
        table = "inference.model"
    place, choice = f"{table}.tool_call_parser", f"{table}.enable_auto_tool_choice"
    name = next((name for _, name in models(view)), "")
    known = PARSERS.get(family(name), ())
    on = view.written(choice) is True
    said = view.written(place)
    if said is not None:
        used = said
    elif january(view) and on:
        used = "hermes"
    else:
        used = None
    if known and isinstance(used, str) and used != "auto" and used not in known:
        edit = Edit("set", tuple(place.split(".")), known[0])
        yield finding(
            "R21",
            view.line(place, choice),
            f"{name} speaks {known[0]}, not {used}.",
            f'Set tool_call_parser = "{known[0]}".',
            (edit,),
        )
    if view.written(choice) is False or (
        january(view) and not on and (said is not None or _uses_tools(view))
    ):
        edit = Edit("set", tuple(choice.split(".")), True)
        message = "enable_auto_tool_choice is not on: the server answers tool calls as text."
        yield finding(
            "R21",
            view.line(choice, place, table),
            message,
            "Set enable_auto_tool_choice = true.",
            (edit,),
        )


def _uses_tools(view: View) -> bool:
    """Return True if an inference server is started and an environment is known to work by tool
    calls.
    """
    return view.has("inference") and any(
        "beautiful-soup" in str(entry.get("id", "")) for entry in view.tables("orchestrator.env")
    )


def environment_args(view: View) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield (path, arguments) for every training and evaluation environment."""
    if january(view):
        for place in ("orchestrator.env", "orchestrator.eval.env"):
            for n, entry in enumerate(view.tables(place)):
                if isinstance(entry.get("args"), dict):
                    yield (*place.split("."), n, "args"), entry["args"]
        return
    for place in ("orchestrator.train.source", "orchestrator.eval.source"):
        for n, entry in enumerate(view.tables(place)):
            env = entry.get("env")
            taskset = None
            if isinstance(env, dict):
                taskset = env.get("taskset")
            if isinstance(taskset, dict):
                yield (*place.split("."), n, "env", "taskset"), taskset
                for inner in ("args", "task"):
                    if isinstance(taskset.get(inner), dict):
                        yield (*place.split("."), n, "env", "taskset", inner), taskset[inner]


def environments(view: View) -> Iterator[Finding]:
    """Yield findings about the arguments of environments: network access, slow tool calls, and
    arguments without effect.
    """
    for path, args in environment_args(view):
        if args.get("network_access") is True:
            where = (*path, "network_access")
            message = f"{dotted(where)} lets the network into the rewards."
            yield finding("R33", view.at(where), message)
        if not january(view):
            continue
        if "executor_backend" in args and args["executor_backend"] != "local":
            where = (*path, "executor_backend")
            message = (
                f'{dotted(where)} = "{args["executor_backend"]}" takes about 1.5 s for a tool call.'
            )
            yield finding("R23", view.at(where), message)
        ignored = [key for key in args if key.startswith("curriculum_")]
        for key in ignored:
            yield finding(
                "R32",
                view.at((*path, key)),
                f"{dotted((*path, key))} has no effect.",
                edits=(Edit("remove", (*path, key)),),
            )
