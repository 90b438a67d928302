"""Rules that hold in both generations of prime-rl. Each reads the keys under which that generation
keeps the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bs4_console.configs.catalog import all_of, finding, refuse_if
from bs4_console.configs.families import PARSERS, family, known_bad, reads_pictures
from bs4_console.configs.findings import Edit, Finding, Path, dotted, path_of
from bs4_console.configs.view import USUAL_PROMPT, Table, View

#: The highest rank of an adapter that vLLM serves.
RANKS = 512


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of the rules that hold for both versions of prime-rl (January 2026 and the
    current one), about the config of a whole training.
    """
    return all_of(_RULES, view)


def january(view: View) -> bool:
    """Return True if the config is for prime-rl of January 2026, and False if it is for the current
    prime-rl.
    """
    return view.generation == "prime-rl-2026-01"


def key_of(view: View, january_key: str, current_key: str) -> str:
    """Return `january_key` if the config is for prime-rl of January 2026, and `current_key` if it
    is for the current prime-rl.
    """
    if january(view):
        return january_key
    return current_key


def sequence(view: View) -> tuple[float | None, float | None]:
    """Return the sequence lengths of the trainer and of the orchestrator, in tokens. None means
    that a length is not known.

    In prime-rl of January 2026 the shared value `seq_len` replaces both. In the current prime-rl it
    is used where the trainer or the orchestrator sets none.
    """
    if january(view) and view.has("seq_len"):
        shared = view.number("seq_len")
        return shared, shared
    places = () if january(view) else ("seq_len",)
    trainer = view.number("trainer.model.seq_len", *places, "trainer.model.seq_len")
    return trainer, view.number("orchestrator.seq_len", *places, "orchestrator.seq_len")


def sequence_length(view: View) -> Iterator[Finding]:
    """Yield a finding if the shared seq_len differs from a seq_len that the trainer or the
    orchestrator sets itself. In a config for prime-rl of January 2026, yield a warning if the
    shared one is set and does not differ, because it replaces the others. Also yield one if the
    trainer's sequence length is below the orchestrator's.
    """
    disagrees = False
    if view.has("seq_len"):
        found = list(_shared_length(view))
        yield from found
        disagrees = bool(found) and not january(view)
    trainer, orchestrator = sequence(view)
    if disagrees or trainer is None or orchestrator is None:
        return
    if trainer < orchestrator:
        place = "trainer.model.seq_len"
        said = f"{place} is {trainer:g}" + ("" if view.has(place) else " (the default)")
        yield finding(
            "R01",
            view.line(place, "orchestrator.seq_len"),
            f"{said}, less than orchestrator.seq_len = {orchestrator:g}.",
            edits=(Edit("set", path_of(place), int(orchestrator)),),
        )


def _shared_length(view: View) -> Iterator[Finding]:
    """Yield a finding if the shared seq_len disagrees with a component's, or if it is set in
    January 2026 at all.
    """
    shared, theirs = view.number("seq_len"), ("trainer.model.seq_len", "orchestrator.seq_len")
    for place in theirs:
        if view.has(place) and view.number(place) != shared:
            verb = "is silently replaced by" if january(view) else "disagrees with"
            are_equal = view.number(theirs[0]) == view.number(theirs[1])
            yield finding(
                "R02",
                view.line("seq_len"),
                f"{place} = {view.written(place)} {verb} the shared seq_len = {shared:g}.",
                edits=(Edit("remove", ("seq_len",)),) if are_equal else (),
            )
            return
    if january(view):
        yield finding(
            "R02",
            view.line("seq_len"),
            "The shared seq_len replaces what either component sets; 2026-01 has it under "
            "[orchestrator] and [trainer.model].",
            level="warning",
        )


def answer_places(view: View) -> list[tuple[str, Any]]:
    """Return (dotted key, tokens) for each limit on the length of training answers that the config
    sets. Return an empty list if it sets none.
    """
    place = key_of(
        view,
        "orchestrator.sampling.max_tokens",
        "orchestrator.train.sampling.max_completion_tokens",
    )
    if view.has(place) and view.number(place) is not None:
        return [(place, view.number(place))]
    return []


def context(view: View) -> tuple[str, float | None]:
    """Return (name, tokens) of the limit on prompt and answer together in the inference server:
    max_model_len, or else the context of the model, which counts where that is not set. `tokens` is
    None if neither the config nor `view.given.context` says it.
    """
    place = "inference.vllm.max_model_len"
    if january(view):
        place = view.first("inference.model.max_model_len", "max_model_len")
    if view.has(place):
        return "max_model_len", view.number(place)
    return "the model's context", view.given.context


def answer_length(view: View) -> Iterator[Finding]:
    """Yield a finding for each limit on the length of training answers that is too high. All
    lengths are in tokens. The length of a prompt is `view.given.prompt_tokens`, which the person
    who checks the config states, or else the usual one, USUAL_PROMPT.

    A limit is too high if answer and prompt together are more than the inference server accepts, or
    if the answer alone is more than the orchestrator's sequence length. If it is not known how many
    tokens the server accepts, but the length of a prompt was stated, answer and prompt together are
    compared with the sequence length.
    """
    (name, limit), given = context(view), view.given.prompt_tokens
    prompt = USUAL_PROMPT if given is None else given
    _, longest = sequence(view)
    for place, tokens in answer_places(view):
        if limit is not None and tokens + prompt > limit:
            room = max(int(limit) - prompt, 0) // 100 * 100
            # A person has to choose which of the two to change: no fix is certain.
            yield finding(
                "R08",
                view.line(place),
                f"{place} = {tokens:g} and a prompt of about {prompt} do not fit {name} = "
                f"{limit:g}.",
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
        elif longest is not None and limit is None and given and tokens + given > longest:
            yield finding(
                "R29",
                view.line(place),
                f"{place} = {tokens:g} and a prompt of {given} are more than the sequence "
                f"of {longest:g}, and max_model_len, which would say so, is not set.",
                "Lower max_tokens or raise seq_len, and set max_model_len to seq_len at most.",
            )


def batch(view: View) -> Iterator[Finding]:
    """Yield a finding if the orchestrator's batch size is not a multiple of its group size, which
    is the number of rollouts of one prompt.
    """
    place = "orchestrator.batch_size"
    group = key_of(view, "orchestrator.rollouts_per_example", "orchestrator.group_size")
    counts_tokens = not january(view) and view.has("orchestrator.token_batch_size")
    if counts_tokens and not view.has(place):
        return
    size, per = view.number(place), view.number(group)
    if size is None and not january(view):
        size = 128
    if size is not None and per and size % per:
        yield finding(
            "R16",
            view.line(place, group),
            f"batch_size = {size:g} is not a multiple of {group} = {per:g}.",
        )


def offload(view: View) -> Iterator[Finding]:
    """Yield a finding if fsdp_cpu_offload (weights are kept in CPU memory) is on and a LoRA adapter
    is trained.
    """
    place = "trainer.model.fsdp_cpu_offload"
    if view.written(place) is True and view.is_table("trainer.model.lora"):
        yield finding(
            "R10",
            view.line(place),
            "fsdp_cpu_offload does not go with LoRA.",
            edits=(Edit("remove", path_of(place)),),
        )


def models(view: View) -> Iterator[tuple[str, str]]:
    """Yield (dotted key, model name) for each key of the config whose value is a model's name."""
    inference = key_of(view, "inference.model.name", "inference.vllm.model")
    for place in ("model.name", "trainer.model.name", "orchestrator.model.name", inference):
        if isinstance(view.written(place), str):
            yield place, view.written(place)


def first_model(view: View, otherwise: str) -> str:
    """Return the first name of a model that the config has, or `otherwise` if it has none."""
    return next((name for _, name in models(view)), otherwise)


def blocked_model(place: str, name: str, view: View) -> Iterator[Finding]:
    """Yield a finding if the console's registry of models (configs/models.toml) says that training
    the model `name` has failed. `place` is the dotted key of the config `view` on whose line the
    finding is.
    """
    bad = known_bad(name, view.generation)
    if bad is not None:
        yield finding(
            "R24",
            view.line(place),
            f"{name} cannot be trained: {bad[0]}.",
            level="error" if bad[1] else "warning",
        )


def model(view: View) -> Iterator[Finding]:
    """Yield a finding for each model name in the config if the console's registry of models says
    that training this model has failed, if it is the name of a vision-language model and there is
    no table [vlm], or if the name has white space in it.
    """
    names: dict[str, str] = {}
    for place, name in models(view):
        names.setdefault(name, place)
    for name, place in names.items():
        blocked = list(blocked_model(place, name, view))
        if blocked:
            yield from blocked
        elif reads_pictures(name) and not (view.has("model.vlm") or view.has("trainer.model.vlm")):
            yield finding(
                "R24",
                view.line(place),
                f"{name} is a vision-language model by its name.",
                level="error" if january(view) else "warning",
            )
        elif name.split() != [name]:
            yield finding("R24", view.line(place), f'"{name}" is not a model\'s name.')


def parser(view: View) -> Iterator[Finding]:
    """Yield a finding if the inference server's parser for tool calls is made for another family of
    models than that of the config's model. Also yield one if the server would answer tool calls as
    plain text. That is so if enable_auto_tool_choice is false, or if it is not set in a config for
    prime-rl of January 2026 that uses tools.
    """
    table = key_of(view, "inference.model", "inference.vllm")
    place, choice = f"{table}.tool_call_parser", f"{table}.enable_auto_tool_choice"
    name = first_model(view, "")
    known = PARSERS.get(family(name), ())
    on = view.written(choice) is True
    said = view.written(place)
    used = said
    if said is None and january(view) and on:
        used = "hermes"
    if known and isinstance(used, str) and used not in ("auto", *known):
        yield finding(
            "R21",
            view.line(place, choice),
            f"{name} speaks {known[0]}, not {used}.",
            f'Set tool_call_parser = "{known[0]}".',
            (Edit("set", path_of(place), known[0]),),
        )
    wants_tools = january(view) and (said is not None or _uses_tools(view))
    if view.written(choice) is False or (wants_tools and not on):
        yield finding(
            "R21",
            view.line(choice, place, table),
            "enable_auto_tool_choice is not on: the server answers tool calls as text.",
            "Set enable_auto_tool_choice = true.",
            (Edit("set", path_of(choice), True),),
        )


def _uses_tools(view: View) -> bool:
    """Return True if an inference server is started and an environment is known to work by tool
    calls.
    """
    return view.has("inference") and any(
        "beautiful-soup" in str(entry.get("id", "")) for entry in view.tables("orchestrator.env")
    )


def environment_args(view: View) -> Iterator[tuple[Path, Table]]:
    """Yield two things for every training and evaluation environment in the config: the path in the
    config at which its arguments are, and the arguments by their names.
    """
    if january(view):
        for place in ("orchestrator.env", "orchestrator.eval.env"):
            for n, entry in enumerate(view.tables(place)):
                if isinstance(entry.get("args"), dict):
                    yield (*path_of(place), n, "args"), entry.table("args")
        return
    for place in ("orchestrator.train.source", "orchestrator.eval.source"):
        for n, entry in enumerate(view.tables(place)):
            if isinstance(entry.table("env").get("taskset"), dict):
                taskset = entry.table("env").table("taskset")
                path = (*path_of(place), n, "env", "taskset")
                yield path, taskset
                for inner in ("args", "task"):
                    if isinstance(taskset.get(inner), dict):
                        yield (*path, inner), taskset.table(inner)


def environments(view: View) -> Iterator[Finding]:
    """Yield a finding for each argument of a training or evaluation environment that allows network
    access, which may distort the rewards. In a config for prime-rl of January 2026, also yield one
    for each argument that makes tool calls slow, and one for each `curriculum_...` argument, which
    has no effect.
    """
    for path, args in environment_args(view):
        if args.get("network_access") is True:
            where = (*path, "network_access")
            yield finding(
                "R33", view.at(where), f"{dotted(where)} lets the network into the rewards."
            )
        if not january(view):
            continue
        backend = args.get("executor_backend", "local")
        if backend != "local":
            where = (*path, "executor_backend")
            yield finding(
                "R23",
                view.at(where),
                f'{dotted(where)} = "{backend}" takes about 1.5 s for a tool call.',
            )
        for key in args:
            if key.startswith("curriculum_"):
                where = (*path, key)
                yield finding(
                    "R32",
                    view.at(where),
                    f"{dotted(where)} has no effect.",
                    edits=(Edit("remove", where),),
                )


def served_rank(view: View, place: str, fix: str) -> Iterator[Finding]:
    """Yield a finding if the LoRA rank at `place`, a dotted key, is higher than vLLM can serve.
    `fix` is the sentence in the finding that says what to do.
    """
    return refuse_if(
        (view.number(place) or 0) > RANKS,
        view,
        place,
        f"vLLM serves adapters up to rank {RANKS}.",
        fix,
    )


def remote_code(view: View, model: str) -> Iterator[Finding]:
    """Yield a finding if trust_remote_code is set with a model implementation other than hf or
    auto. `model` is the prefix of the model's keys, such as "trainer.model.".
    """
    is_trusted = view.written(model + "trust_remote_code") is True
    return refuse_if(
        is_trusted and view.get(model + "impl") not in ("hf", "auto"),
        view,
        model + "trust_remote_code",
        "trust_remote_code needs impl hf or auto.",
        "Remove one of the two.",
    )


def muon_offload(view: View, top: str) -> Iterator[Finding]:
    """Yield a finding if the Muon optimizer is used although fsdp_cpu_offload (weights are kept in
    CPU memory) is on. `top` is the prefix of the trainer's keys: "trainer.", or "" for sft.
    """
    is_muon = view.table(top + "optim").get("type") == "muon"
    return refuse_if(
        is_muon and view.written(top + "model.fsdp_cpu_offload") is True,
        view,
        top + "model.fsdp_cpu_offload",
        "Muon does not go with fsdp_cpu_offload.",
        "Remove one of the two.",
    )


def parallel_attention(view: View, model: str) -> Iterator[Finding]:
    """Yield a finding if context parallelism is used without flash attention. `model` is the prefix
    of the model's keys, such as "trainer.model.".
    """
    is_parallel = (view.number(model + "cp") or 1) > 1
    return refuse_if(
        is_parallel and view.get(model + "attn") == "sdpa",
        view,
        model + "attn",
        "Context parallelism needs flash attention.",
        'Set attn = "flash_attention_2".',
    )


_RULES = (sequence_length, answer_length, batch, offload, model, parser, environments)
