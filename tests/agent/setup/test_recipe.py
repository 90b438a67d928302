"""Recipes: what is taken, and that nothing of one can become an option, a secret in a process list,
or somebody else's path.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_agent.setup.recipe import environment, read
from bs4_common.errors import BadRequest
from tests.agent.setup.places import RECIPE


def test_a_recipe_comes_back_as_it_went(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    recipe = read({**RECIPE, "environments": ["owner/some-env@0.2.0"], "secrets": ["b2"]})
    assert recipe.directory == tmp_path / "prime-rl"
    assert read(recipe.as_dict()) == recipe
    (found,) = recipe.environments
    assert (found.package, found.module, found.version, found.from_hub) == (
        "some-env",
        "some_env",
        "0.2.0",
        True,
    )


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("trainer", "verl", "trainer"),
        ("revision", "--upload-pack=x", "revision"),
        ("revision", "", "revision"),
        ("repository", "-x", "address"),
        ("repository", "https://someone:word@example.org/x", "password"),
        ("uv_archives", {"x86_64": {"url": "", "sha256": "0" * 64}}, "address"),
        ("uv_archives", {"x86_64": {"url": "https://example.org/x"}}, "SHA-256"),
        ("uv_archives", {"--x": {"url": "https://example.org/x", "sha256": "0" * 64}}, "machine"),
        ("directory", "-rf", "directory"),
        ("directory", "a\nb", "directory"),
        ("variables", {"PATH WITH": "x"}, "variable"),
        ("variables", {"SOME": "a\nb=c"}, "value of SOME"),
        ("variables", {"WANDB_API_KEY": "x"}, "secret"),
        ("secrets", ["aws"], "credential"),
        ("nofile", "many", "limit"),
        ("nofile", 10, "limit"),
        ("environments", ["--index-url"], "environment"),
        ("environments", ["/no/such/directory"], "environment"),
    ],
)
def test_what_cannot_be_is_named(field: str, value: object, word: str) -> None:
    with pytest.raises(BadRequest, match=word):
        read({**RECIPE, field: value})


def test_an_environment_on_the_pod_says_its_own_name(tmp_path: Path) -> None:
    wheel = environment(str(tmp_path / "my_env-1.2.0-py3-none-any.whl"))
    assert (wheel.package, wheel.module, wheel.version, wheel.from_hub) == (
        "my-env",
        "my_env",
        "1.2.0",
        False,
    )
    tree = tmp_path / "tree"
    tree.mkdir()
    with pytest.raises(BadRequest, match="pyproject"):
        environment(str(tree))
    (tree / "pyproject.toml").write_text('[project]\nname = "other-env"\n')
    assert environment(str(tree)).module == "other_env"
