"""Which command lines show a credential, and which only seem to."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from bs4_agent.runs.membership import AttemptMembers
from bs4_agent.telemetry.processes import Proc, Snapshot
from bs4_common.credentials.exposed import exposures
from bs4_common.credentials.forms import form_of, secret_held
from bs4_common.credentials.loopback import is_loopback
from bs4_common.identity import Identity
from tests.agent.facts import identity

KEY = "kS0dJtX5b3oYw_5cVnq-Yg"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
LOCAL = "http://127.0.0.1:8000"

#: Command line -> the option that is named; "" where the key belongs to none.
SHOWN: dict[str, tuple[Sequence[str], str]] = {
    "a variable": (["env", f"AWS_SECRET_ACCESS_KEY={AWS}", "python3"], "AWS_SECRET_ACCESS_KEY"),
    "a variable with a slash in front": (
        [f"AWS_SECRET_ACCESS_KEY=/{AWS[1:]}"],
        "AWS_SECRET_ACCESS_KEY",
    ),
    "a variable in an option": (["run", f"--env=SERVICE_TOKEN={KEY}"], "SERVICE_TOKEN"),
    "a variable after an option": (["docker", "run", "-e", f"DB_PASSWORD={KEY}"], "DB_PASSWORD"),
    "a local URL that is another's": (
        ["--judge-url=https://x.example", f"--base-url={LOCAL}", f"--api-key={KEY}"],
        "--api-key",
    ),
    "a judge's key beside a local URL": (
        [f"--base-url={LOCAL}", f"--judge-api-key={KEY}"],
        "--judge-api-key",
    ),
    "a judge elsewhere": (
        ["--judge-base-url=https://x.example/v1", f"--judge-api-key={KEY}"],
        "--judge-api-key",
    ),
    "one of a judge's two URLs elsewhere": (
        ["--judge-url=https://x.example", f"--judge-base-url={LOCAL}", f"--judge-api-key={KEY}"],
        "--judge-api-key",
    ),
    "a second key": (
        [f"--base-url={LOCAL}", f"--api-key={KEY}", f"--api-key={KEY[::-1]}"],
        "--api-key",
    ),
    "a second key as a word of its own": (
        [f"--base-url={LOCAL}", "--api-key", KEY, "--api-key", KEY[::-1]],
        "--api-key",
    ),
    "a backslash in the URL": (
        ["--base-url=http://evil.example\\@127.0.0.1/", f"--api-key={KEY}"],
        "--api-key",
    ),
    "a name in front of an at sign": (
        ["--base-url=http://127.0.0.1@evil.example/", f"--api-key={KEY}"],
        "--api-key",
    ),
    "a server for everybody": (
        ["vllm", "serve", "--host", "0.0.0.0", "--api-key", KEY],
        "--api-key",
    ),
    "a named service's key beside a local URL": (
        [f"--base-url={LOCAL}", "--api-key=sk-" + "aB3" * 16],
        "--api-key",
    ),
    "a token": (["push", "--token", "correct-horse"], "--token"),
    "a token with an equals sign": (["push", f"--token={KEY}"], "--token"),
    "a token with one dash": (["push", "-token", KEY], "-token"),
    "base64 with its padding": (["push", "--token", "c2VjcmV0c2VjcmV0cw=="], "--token"),
    "a hub's token": (["push", "--hf-token", KEY], "--hf-token"),
    "a hub's token beside a local host": (
        ["serve", "--host=127.0.0.1", "--hf-token", KEY],
        "--hf-token",
    ),
    "a short password": (["mysql", "--password=hunter2"], "--password"),
    "a password of digits": (["mysql", "--password=19840412"], "--password"),
    "a header in words": (["curl", "Authorization:", "Bearer", KEY], "Authorization"),
    "a header in a word": (["curl", "-H", f"Authorization: Bearer {KEY}"], "Authorization"),
    "a basic header": (["curl", "-H", "Authorization: Basic dXNlcjpwYXNz"], "Authorization"),
    "a header of its own": (["curl", "-H", f"X-Api-Key: {KEY}"], "X-Api-Key"),
    "a URL with a password": (["git", "clone", "https://user:pw12@x.example/r"], ""),
    "a URL with a password and no user": (["--redis=redis://:pw12@10.0.0.1:6379/0"], ""),
    "a URL with a local name as its user": (["https://127.0.0.1:pw12@x.example/"], ""),
    "a URL with a key in its query": ([f"https://x.example/v1?api_key={KEY}"], "api_key"),
    "JSON": (["--client", json.dumps({"api_key": "abcdef"})], "api_key"),
    "JSON without blanks": (['--client={"api_key":"abcdef"}'], "api_key"),
    "JSON in JSON": ([json.dumps({"client": json.dumps({"apiKey": KEY})})], "apiKey"),
    "JSON with the local URL of another": (
        [json.dumps({"judge": {"api_key": KEY}, "base_url": LOCAL})],
        "api_key",
    ),
    "a list of settings": ([f"--kwargs=model=m,api_key={KEY}"], "api_key"),
    "a shell script": (["bash", "-c", "cd /x && DB_PASSWORD=hunter2 python3 a.py"], "DB_PASSWORD"),
    "GitLab": (["push", "glpat-" + "aB3" * 7], ""),
    "Google": (["ask", "AIza" + "aB3_-" * 7], ""),
    "Slack": (["tell", "xoxb-123456789012-aB3aB3aB3"], ""),
    "W&B by its login": (["wandb", "login", "5f" * 20], "login"),
    "OpenRouter": (["ask", "sk-or-v1-" + "5f" * 32], ""),
    "a token in a text": (["--prompt=Use hf_" + "aB3" * 11 + " for it"], "--prompt"),
}

#: What looks like a credential and is none.
SILENT: dict[str, Sequence[str]] = {
    "a path with sk- in it": ["python3", "/data/sk-learn-random-forest-classifier-v2/train.py"],
    "an option with such a path": ["--data=/data/sk-learn-0123456789abcdef0123/rows"],
    "a name with sk- in it": ["--run-name=sk-learn-random-forest-2024-11-03"],
    "a password's file": ["--password=/run/secrets/file"],
    "a key's file": ["--api-key", "/run/secrets/MyService01/ApiKey"],
    "a key's file in the home": ["--hf-token=~/.cache/huggingface/token"],
    "a key's file nearby": ["--api-key=secrets/openai.txt"],
    "a file's option": ["--api-key-file", "/root/.netrc"],
    "a variable's name": ["--api-key", "$OPENAI_API_KEY"],
    "a variable in braces": ["--api-key=${OPENAI_API_KEY}"],
    "a setting's name": ["client.api_key_var=OPENAI_API_KEY"],
    "a column's name": ["data.prompt_key=prompt", "data.reward_fn_key=data_source"],
    "a tokenizer's token": ["--eos-token", "<|im_end|>", "--image-token=image_placeholder"],
    "a number of tokens": ["--max-token", "262144", "--token", "4096"],
    "a switch": ["--api-key", "--verbose", "--use-auth-token", "True"],
    "Ray's own password": ["raylet", "--redis_password=5241590000000000"],
    "no key": ["--base-url=https://x.example/v1", "--model=Qwen/Qwen3-0.6B"],
    "words about keys": ["--prompt=Say what a Bearer token is and why a password: is secret"],
    "a task in JSON": ['--prompt={"task": "log in", "password": "hunter2"}'],
    "a user without a password": ["ssh://git@x.example/repository"],
    "a password in a variable": ["https://user:$PASSWORD@x.example/"],
    "a URL of its own with a password": ["redis://:pw12345@127.0.0.1:6379/0"],
    "a judge of its own": [f"--judge-base-url={LOCAL}", f"--judge-api-key={KEY}"],
    "a judge of its own by another name": [f"--judge-url={LOCAL}", f"--judge-api-key={KEY}"],
    "a URL elsewhere that has its own key's source": [
        f"--base-url={LOCAL}",
        f"--api-key={KEY}",
        "--judge-base-url=https://x.example/v1",
        "--judge-api-key-var=JUDGE_KEY",
    ],
    "a server of its own": ["vllm", "serve", "--host", "127.0.0.1", "--api-key", KEY],
    "the same key twice": [f"--base-url={LOCAL}", f"--api-key={KEY}", f"--api-key={KEY}"],
    "variables of its own": [f"OPENAI_BASE_URL={LOCAL}", f"OPENAI_API_KEY={KEY}"],
    "JSON of its own": [json.dumps({"client": {"base_url": LOCAL, "api_key": KEY}})],
    "a script of its own": ["sh", "-c", f"exec run --base-url={LOCAL} --api-key={KEY}"],
}
PLACEHOLDERS = (
    "EMPTY",
    "none",
    "None",
    "dummy",
    "sk-no-key-required",
    "not-needed",
    "your-api-key",
    "<key>",
    "xxxxxxxx",
    "token-abc123",
)
OWN = (
    "http://127.0.0.1:8000/v1",
    "http://0.0.0.0:8000/v1",
    "0.0.0.0:8000",
    "127.0.0.1:8000",
    "127.0.0.1",
    "http://localhost.:8000/v1",
    "localhost:8000",
    "LOCALHOST:8000",
    "http://[::ffff:127.0.0.1]:8000",
    "::ffff:127.0.0.1",
    "::1",
    "http://[::]:8000",
    "127.9.9.9",
)
ELSEWHERE = (
    "",
    "http://evil.example\\@127.0.0.1/",
    "http://127.0.0.1\\@evil.example/",
    "http://127.0.0.1@evil.example/",
    "http://evil.example@127.0.0.1/",
    "http://evil.example#@127.0.0.1/",
    "http://evil.example/127.0.0.1",
    "http://evil.example?127.0.0.1",
    "https://127.0.0.1.evil.example/v1",
    "http://localhost.evil.example/",
    "http://127.0.0.1:8000:80/",
    "http://127.0.0.1\t.evil.example/",
    "http://127.0.0.1 .evil.example/",
    "http://127。0。0。1/",
    "http://[::ffff:10.0.0.1]/",
    "http:/127.0.0.1/",
    "10.0.0.7:8000",
    "http://[::1",
)


@pytest.mark.parametrize(("words", "option"), SHOWN.values(), ids=SHOWN)
def test_a_credential_is_seen_and_only_its_option_is_named(
    words: Sequence[str], option: str
) -> None:
    found = exposures(["/venv/bin/python3", *words])
    assert [one.option for one in found][:1] == [option]
    told = " ".join(map(str, found))
    for secret in (KEY, KEY[::-1], AWS, "hunter2", "pw12", "abcdef", "aB3"):
        assert secret not in told


@pytest.mark.parametrize("words", SILENT.values(), ids=SILENT)
def test_what_only_seems_to_be_one_is_none(words: Sequence[str]) -> None:
    assert exposures(["/venv/bin/python3", *words]) == []


@pytest.mark.parametrize("value", PLACEHOLDERS)
def test_a_placeholder_is_none(value: str) -> None:
    assert exposures(["--base-url=https://x.example", "--api-key", value]) == []
    assert exposures([f"OPENAI_API_KEY={value}"]) == []


@pytest.mark.parametrize("url", OWN)
def test_a_key_for_ones_own_loopback_is_none(url: str) -> None:
    assert is_loopback(url)
    for ending in ("base-url", "url", "api-base"):
        assert exposures([f"--{ending}={url}", f"--api-key={KEY}"]) == []
        assert exposures(["--api-key", KEY, f"--{ending}", url]) == []


@pytest.mark.parametrize("url", ELSEWHERE)
def test_a_key_for_any_other_place_is_one(url: str) -> None:
    assert not is_loopback(url)
    assert exposures([f"--base-url={url}", f"--api-key={KEY}"])


@pytest.mark.parametrize("text", ["glpat-" + "aB3" * 7, "AIza" + "aB3_-" * 7, "xoxb-1234567890-aB"])
def test_redaction_knows_the_same_forms(text: str) -> None:
    assert form_of(text)
    assert secret_held(f"worker {text}")


def test_a_huge_command_line_costs_little() -> None:
    words = ["a" * 100_000, '{"a": ' * 20_000, "--x=" * 20_000, "eyJ-" * 20_000, "://:" * 20_000]
    began = time.process_time()
    exposures([*words, "bash", "-c", "x='" * 20_000])
    assert time.process_time() - began < 5


def shown_by(members: AttemptMembers) -> list[str]:
    return [str(one) for member in members.members() for one in member.exposed or ()]


def look(root: Identity, *processes: tuple[Identity, tuple[str, ...]]) -> Snapshot:
    """Return a snapshot of `root` and its children."""
    found = {root.pid: Proc(root, 1, "S", "root", ("root",), 0, 0, None, 0.0)}
    for one, words in processes:
        found[one.pid] = Proc(one, root.pid, "S", "python3", words, 0, 0, None, 0.0)
    return Snapshot(found)


def test_a_key_behind_what_is_kept_of_a_command_line_is_seen_and_remembered(tmp_path: Path) -> None:
    root, child = identity(100_000_001), identity(100_000_002)
    members = AttemptMembers(tmp_path, 1, root, lambda cmdline, comm: None, adopted=False)
    words = ("python3", *["word"] * 30, f"--judge-api-key={KEY}")
    members.observe(look(root, (child, words)))
    assert shown_by(members) == ["a secret by its name in --judge-api-key"]
    members.observe(look(root, (child, ("a new title",))))
    assert shown_by(members) == ["a secret by its name in --judge-api-key"]
    members.save(at_once=True)
    assert KEY not in (tmp_path / "members.json").read_text()
    recalled = AttemptMembers(tmp_path, 1, root, lambda cmdline, comm: None, adopted=False)
    assert shown_by(recalled) == ["a secret by its name in --judge-api-key"]


def test_a_loopback_url_behind_what_is_kept_counts(tmp_path: Path) -> None:
    root, child = identity(100_000_001), identity(100_000_002)
    members = AttemptMembers(tmp_path, 1, root, lambda cmdline, comm: None, adopted=False)
    words = ("python3", f"--api-key={KEY}", *["word"] * 30, f"--base-url={LOCAL}")
    members.observe(look(root, (child, words)))
    assert shown_by(members) == []
