"""Recipes out of the known stacks: which versions, which variables, and that no secret is ever in
one.
"""

from __future__ import annotations

import json

import pytest

from bs4_agent.setup.recipe import read
from bs4_console.errors import UsageError
from bs4_console.pods.state import ActionView
from bs4_console.setup import recipe as setup
from bs4_console.setup.credentials import VARIABLES, Credentials, collect
from bs4_console.setup.credentials import read as read_lines
from bs4_console.setup.recipe import Recipe

TRAINERS = ("prime-rl-2026-01", "prime-rl")


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_stack_is_a_recipe_that_the_agent_takes(trainer: str) -> None:
    body = Recipe(trainer=trainer, environments=("owner/some-env",)).body(Credentials())
    recipe = read(body)
    assert recipe.trainer == trainer
    assert recipe.repository.startswith("https://github.com/")
    assert len(recipe.revision) >= 9
    assert "--locked" in recipe.sync
    assert recipe.as_dict()["environments"] == ["owner/some-env"]


def test_what_is_given_goes_before_what_the_stack_says() -> None:
    archive = {"url": "https://example.org/uv.whl", "sha256": "a" * 64}
    body = Recipe(
        trainer="prime-rl",
        directory="there",
        repository="https://example.org/r",
        revision="feed1234",
        environments=(),
        uv=f"https://example.org/uv.whl#sha256={'a' * 64}",
        nofile=8192,
    ).body(Credentials())
    wanted = {
        "directory": "there",
        "repository": "https://example.org/r",
        "revision": "feed1234",
        "uv_archives": {"x86_64": archive, "aarch64": archive},
    }
    assert {key: body[key] for key in wanted} == wanted
    assert body["nofile"] == 8192


@pytest.mark.parametrize("trainer", TRAINERS)
def test_uv_is_pinned_by_hash_and_is_no_script(trainer: str) -> None:
    archives = read(Recipe(trainer=trainer).body(Credentials())).uv_archives
    assert sorted(archives) == ["aarch64", "x86_64"]
    for archive in archives.values():
        assert archive.url.endswith(".whl")


@pytest.mark.parametrize("address", ["https://example.org/uv.whl", "https://e.org/uv#sha256=12"])
def test_an_address_without_its_hash_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="hash"):
        Recipe(trainer="prime-rl", uv=address).body(Credentials())


def test_an_unknown_trainer_is_no_recipe() -> None:
    with pytest.raises(UsageError, match="prime-rl-2026-01"):
        Recipe(trainer="verl").body(Credentials())


@pytest.mark.parametrize(
    ("vllm", "names"),
    [
        ("0.10.2", ["VLLM_USE_V1", "VLLM_WORKER_MULTIPROC_METHOD"]),
        (
            "0.11.0",
            ["VLLM_WORKER_MULTIPROC_METHOD"],
        ),  # no V0 engine any more: it refuses to start with VLLM_USE_V1=0
        ("0.12.0", ["VLLM_WORKER_MULTIPROC_METHOD"]),
        ("0.26.0+cu129", ["VLLM_WORKER_MULTIPROC_METHOD"]),
    ],
)
def test_a_variable_is_set_only_where_it_exists(vllm: str, names: list[str]) -> None:
    assert sorted(setup.variables(vllm)) == names
    assert sorted([*setup.variables(vllm), *setup.left_out(vllm)]) == [
        "VLLM_USE_V1",
        "VLLM_WORKER_MULTIPROC_METHOD",
    ]
    assert not any(setup.variables(vllm).get("VLLM_USE_V1") == "1" for _ in names)


def test_only_the_same_recipe_is_the_set_up_that_runs() -> None:
    recipe, given = (
        Recipe(trainer="prime-rl", environments=("a/b",)),
        Credentials({"wandb": {"key": "abcd"}}),
    )
    running = read(recipe.body(given)).as_dict()
    action = ActionView(
        key="K",
        kind="setup",
        who="t",
        run="",
        state="running",
        accepted_t=0.0,
        updated_t=0.0,
        body={"plan": {"recipe": running}},
    )
    assert setup.same(action, recipe, given)
    assert not setup.same(action, recipe, Credentials())
    assert not setup.same(action, Recipe(trainer="prime-rl", environments=("a/c",)), given)
    assert not setup.same(
        action, Recipe(trainer="prime-rl", directory="rl", environments=("a/b",)), given
    )


LINES = """
# a comment
export WANDB_API_KEY="abc=def/1"
OTHER=whatever
HF_TOKEN='hf_x'
B2_APPLICATION_KEY_ID=id12
B2_APPLICATION_KEY=key\\"+/
"""


def test_lines_of_an_env_file_become_credentials_that_show_only_their_names() -> None:
    found = read_lines(LINES.splitlines())
    assert found.names == ["b2", "huggingface", "wandb"]
    assert json.loads(found.payload())["wandb"] == {"key": "abc=def/1"}
    assert json.loads(found.payload())["b2"] == {"key_id": "id12", "key": 'key\\"+/'}
    assert (
        "abc" not in f"{found} {found!r} {vars(Recipe(trainer='prime-rl'))} "
        f"{Recipe(trainer='prime-rl').body(found)}"
    )
    assert (Credentials().payload(), bool(Credentials())) == (b"", False)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "none of the names"),
        ("OTHER=secret-word", "none of the names"),
        ("secret-word", "Line 1"),
        ("B2_APPLICATION_KEY=secret-word", "B2_APPLICATION_KEY_ID"),
        ("WANDB_API_KEY=secret word", "WANDB_API_KEY"),
        ("WANDB_API_KEY=\u00e9secret", "WANDB_API_KEY"),
    ],
)
def test_what_is_wrong_is_said_without_the_value(text: str, word: str) -> None:
    with pytest.raises(UsageError, match=word) as refused:
        read_lines(text.splitlines())
    assert "secret" not in str(refused.value)


def test_every_variable_belongs_to_a_credential_of_the_agent() -> None:
    from bs4_agent.setup.credentials import NAMES

    assert {
        name: {field for owner, field in VARIABLES.values() if owner == name} for name in NAMES
    } == {name: set(fields) for name, fields in NAMES.items()}
    assert collect({"WANDB_API_KEY": "", "HF_TOKEN": "hf_x"}).names == ["huggingface"]
