"""The config of one component: its own keys, its own lines, the rules that look at one side, and
nothing about the other.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from bs4_console.configs.findings import Finding
from bs4_console.configs.fix import fix
from bs4_console.configs.lint import lint
from bs4_console.errors import UsageError
from tests.console.configs.bases import BASES

OLD, NEW = "prime-rl-2026-01", "prime-rl"

ORCHESTRATOR = {
    OLD: (
        '[model]\nname = "Qwen/Qwen3-8B"\n\n[sampling]\nmax_tokens = 1024\n\n[[env]]\nid = '
        '"owner/some-env"\n'
    ),
    NEW: (
        '[model]\nname = "Qwen/Qwen3-8B"\n\n[[train.source]]\nname = "a"\n\n'
        '[train.source.env.taskset]\nid = "a"\n'
    ),
}
SFT = {
    OLD: (
        'max_steps = 10\n[model]\nname = "Qwen/Qwen3-8B"\n[data]\ntype = "sft"\nname = '
        '"some/data"\nbatch_size = 8\n'
    ),
    NEW: (
        'max_steps = 10\n[model]\nname = "Qwen/Qwen3-8B"\n[data]\ntype = "sft"\nname = '
        '"some/data"\nbatch_size = 8\n'
    ),
}
EVAL = {
    OLD: '[model]\nname = "Qwen/Qwen3-8B"\n[[env]]\nid = "owner/some-env"\n',
    NEW: '[[eval.source]]\nname = "a"\n[eval.source.env.taskset]\nid = "a"\n',
}
WHOLE = [
    ("orchestrator", ORCHESTRATOR),
    (
        "trainer",
        {
            OLD: "[model]\nseq_len = 2048\n[optim]\nlr = 1e-5\n",
            NEW: "[model]\nseq_len = 2048\n[optim]\nlr = 1e-5\n",
        },
    ),
    (
        "inference",
        {
            OLD: "[model]\nenforce_eager = true\n[server]\nport = 8000\n",
            NEW: "[vllm]\nmax_model_len = 4096\n[server]\nport = 8000\n",
        },
    ),
    ("sft", SFT),
    ("eval", EVAL),
]


def linted(directory: Path, trainer: str, component: str, text: str) -> list[Finding]:
    file = directory / f"{component}.toml"
    file.write_text(text)
    return lint(file, trainer, None, component)


def errors(directory: Path, trainer: str, component: str, text: str) -> list[tuple[str, int]]:
    return [
        (item.id, item.line)
        for item in linted(directory, trainer, component, text)
        if item.level == "error"
    ]


@pytest.mark.parametrize("trainer", [OLD, NEW])
@pytest.mark.parametrize(("component", "texts"), WHOLE)
def test_a_good_one_passes_and_is_no_config_of_the_whole(
    tmp_path: Path, trainer: str, component: str, texts: dict[str, str]
) -> None:
    assert errors(tmp_path, trainer, component, texts[trainer]) == []
    assert errors(tmp_path, trainer, "rl", texts[trainer]) != []


@pytest.mark.parametrize("trainer", [OLD, NEW])
@pytest.mark.parametrize(("component", "texts"), WHOLE)
def test_an_unknown_key_is_refused_on_its_line(
    tmp_path: Path, trainer: str, component: str, texts: dict[str, str]
) -> None:
    text = f"no_such_key = 1\n{texts[trainer]}"
    (item,) = [item for item in linted(tmp_path, trainer, component, text) if item.level == "error"]
    assert (item.line, item.message) == (1, "no_such_key is not a key of this trainer.")


@pytest.mark.parametrize(
    ("trainer", "component", "change", "expected"),
    [
        (OLD, "orchestrator", ("max_tokens = 1024", "max_tokens = 1024\ntop_p = 0.9"), ("R05", 6)),
        (
            OLD,
            "orchestrator",
            ("[[env]]", "batch_size = 10\nrollouts_per_example = 4\n[[env]]"),
            ("schema", 7),
        ),
        (
            OLD,
            "orchestrator",
            ("[model]", "batch_size = 10\nrollouts_per_example = 4\n[model]"),
            ("R16", 1),
        ),
        (
            OLD,
            "orchestrator",
            ('[[env]]\nid = "owner/some-env"', '[env]\nid = "owner/some-env"'),
            ("R12", 7),
        ),
        (NEW, "orchestrator", ("[model]", "rollouts_per_example = 4\n[model]"), ("P06", 1)),
        (NEW, "orchestrator", ('id = "a"', ""), ("schema", 4)),
        (
            OLD,
            "trainer",
            ("seq_len = 2048", "seq_len = 2048\nfsdp_cpu_offload = true\n[model.lora]\nrank = 8"),
            ("R10", 3),
        ),
        (OLD, "trainer", ("[model]", "[model.experimental.lora]\nrank = 8\n[model]"), ("R03", 1)),
        (NEW, "trainer", ("[optim]", '[scheduler]\ntype = "cosine"\n[optim]'), ("schema", 4)),
        (
            NEW,
            "inference",
            ("max_model_len = 4096", "max_model_len = 4096\nmax_lora_rank = 1024"),
            ("schema", 3),
        ),
        (OLD, "sft", ("batch_size = 8", "batch_size = 8\nmicro_batch_size = 3"), ("schema", 7)),
        (NEW, "sft", ("batch_size = 8", "batch_size = 8\nmicro_batch_size = 3"), ("schema", 7)),
        (NEW, "sft", ("max_steps = 10", 'max_steps = 10\ntrace_path = "x"'), ("schema", 2)),
        (OLD, "eval", ("[model]", "eval_base = false\n[model]"), ("schema", 1)),
        (OLD, "eval", ("[model]", 'resume_path = "x"\n[model]'), ("schema", 1)),
        (
            NEW,
            "eval",
            ('id = "a"', 'id = "a"\n[eval.concurrency]\nmax_inflight = 2\ninitial_inflight = 4'),
            ("schema", 7),
        ),
    ],
)
def test_rules_of_one_side(
    tmp_path: Path, trainer: str, component: str, change: tuple[str, str], expected: tuple[str, int]
) -> None:
    text = dict(WHOLE)[component][trainer]
    assert change[0] in text
    assert expected in errors(tmp_path, trainer, component, text.replace(*change, 1))


def test_what_has_to_agree_between_the_sides_is_not_asked_of_one(tmp_path: Path) -> None:
    """orchestrator.seq_len above the trainer's default, checkpoints on one side, no adapter's
    name.
    """
    text = ORCHESTRATOR[OLD].replace("[model]", "seq_len = 8192\n[ckpt]\ninterval = 5\n[model]", 1)
    assert linted(tmp_path, OLD, "orchestrator", text) == []


def test_edits_stay_in_the_file(tmp_path: Path) -> None:
    (item,) = linted(
        tmp_path,
        OLD,
        "orchestrator",
        ORCHESTRATOR[OLD].replace("max_tokens = 1024", "max_tokens = 1024\ntop_p = 0.9"),
    )
    assert [edit.path for edit in item.edits] == [("sampling", "top_p")]
    found = linted(
        tmp_path, OLD, "trainer", '[model]\nseq_len = 2048\n[lora]\nname = "x"\nlora_name = "y"\n'
    )
    assert all(not edit.to or edit.to[0] != "orchestrator" for item in found for edit in item.edits)


@pytest.mark.parametrize(
    ("component", "text", "after"),
    [
        (
            "orchestrator",
            ORCHESTRATOR[OLD].replace("max_tokens = 1024", "max_tokens = 1024 # long\ntop_p = 0.9"),
            "max_tokens = 1024 # long\n",
        ),
        (
            "trainer",
            (
                "# mine\n[model]\nseq_len = 2048\n[model.experimental.lora]\nrank = 8\n[optim]\n"
                "lr = 1e-5\n"
            ),
            "[model.lora]\nrank = 8\n",
        ),
        (
            "inference",
            "[model]\nenforce_eager = true\nmax_num_seqs = 5\n",
            "[model]\nenforce_eager = true\n",
        ),
    ],
)
def test_a_part_is_fixed_by_its_own_schema(
    tmp_path: Path, component: str, text: str, after: str
) -> None:
    """As a config of the whole it would be refused from its first line on, and what is wrong with
    it would stay.
    """
    file = tmp_path / f"{component}.toml"
    file.write_text(text)
    fixed = fix(file, OLD, component=component)
    assert after in fixed.after
    assert [item.id for item in fixed.left if item.level == "error"] == []
    assert fixed.made
    assert fixed.after.startswith(text[:6])
    assert [item.id for item in fix(file, OLD).left if item.level == "error"] != []


@pytest.mark.parametrize("trainer", [OLD, NEW])
@pytest.mark.parametrize("component", ["trainer", "orchestrator", "inference"])
def test_a_part_of_a_good_config_is_a_good_config_of_the_part(
    tmp_path: Path, trainer: str, component: str
) -> None:
    import tomlkit

    part = tomllib.loads(BASES[trainer])[component]
    assert errors(tmp_path, trainer, component, tomlkit.dumps(part)) == []


def test_verl_has_no_parts(tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("python3 -m verl.trainer.main_ppo\n")
    with pytest.raises(UsageError, match="--component"):
        lint(tmp_path / "x.sh", "verl", None, "trainer")
