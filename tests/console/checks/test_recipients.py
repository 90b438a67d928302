"""notify.toml: private or refused, and nothing of what it holds is ever said."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.checks.recipients import Channel, channels
from bs4_console.checks.verdict import CRITICAL, OK, UNKNOWN, WARNING
from bs4_console.errors import UsageError
from bs4_console.secret import Secret

TOKEN = "s3cr3t-T0ken"  # noqa: S105 (what must not be shown)
URL = f"https://hooks.example.com/{TOKEN}"


def written(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "notify.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_without_the_file_there_is_nobody(tmp_path: Path) -> None:
    assert channels(tmp_path / "notify.toml") == ()


def test_values_from_the_file_and_from_the_environment(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f'[[notify]]\nkind = "webhook"\nname = "team"\nurl = "{URL}"\n'
        '[[notify]]\nkind = "ntfy"\nurl_env = "TOPIC"\ntoken_env = "TOK"\nmin = "CRITICAL"\n'
        '[[notify]]\nkind = "healthchecks"\nurl = "https://hc-ping.com/x"\nfail = true\n',
    )
    team, ntfy, ping = channels(path, {"TOPIC": "https://ntfy.sh/t", "TOK": TOKEN})
    assert (team.name, team.url.reveal(), team.token, team.least) == ("team", URL, None, WARNING)
    assert (ntfy.name, ntfy.url.reveal(), ntfy.least) == ("ntfy", "https://ntfy.sh/t", CRITICAL)
    assert ntfy.token is not None
    assert ntfy.token.reveal() == TOKEN
    assert ping.fail
    assert TOKEN not in repr((team, ntfy, ping))
    assert TOKEN not in str(team.url) + f"{team.url}"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UsageError, match=r"can be read by others.*chmod 600"):
        channels(written(tmp_path, f'[[notify]]\nkind = "webhook"\nurl = "{URL}"\n', mode))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'[[notify]\nurl = "{URL}"', "is not valid TOML"),
        (f'url = "{TOKEN}" x', "is not valid TOML"),
        ('[notify]\nkind = "webhook"', r"something else than \[\[notify\]\]"),
        ("[other]", r"something else than \[\[notify\]\]"),
        (f'[[notify]]\nurl = "{URL}"', "no `kind` that is known"),
        (f'[[notify]]\nkind = "{TOKEN}"\nurl = "{URL}"', "no `kind` that is known"),
        ('[[notify]]\nkind = "webhook"', "has no address"),
        (f'[[notify]]\nkind = "webhook"\nurl = "ftp://x/{TOKEN}"', "no http"),
        (f'[[notify]]\nkind = "webhook"\nurl = "http:///{TOKEN}"', "no http"),
        (f'[[notify]]\nkind = "webhook"\nurl = "{URL}\\nX"', "no plain text"),
        ('[[notify]]\nkind = "webhook"\nurl = 7', "no plain text"),
        (f'[[notify]]\nkind = "webhook"\nurl = "{URL}"\nurl_env = "X"', "has both"),
        ('[[notify]]\nkind = "webhook"\nurl_env = "UNSET"', "not set"),
        (f'[[notify]]\nkind = "webhook"\nurl = "{URL}"\nmin = "{TOKEN}"', "wrong type"),
        (f'[[notify]]\nkind = "webhook"\nurl = "{URL}"\nfail = "yes"', "wrong type"),
        (f'[[notify]]\nkind = "webhook"\nurl = "{URL}"\nurll = 1', "'urll' that means nothing"),
        (f'[[notify]]\nkind = "webhook"\nurl = "{URL}"\n' * 2, "two channels named webhook"),
    ],
)
def test_what_is_wrong_is_said_and_no_value_with_it(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        channels(written(tmp_path, text), {})
    assert TOKEN not in str(raised.value)
    assert str(raised.value).endswith((".", "`"))


def test_who_wants_what() -> None:
    least_critical = Channel("ntfy", "n", Secret("x"), least=CRITICAL)
    assert least_critical.wants(CRITICAL, OK)
    assert least_critical.wants(OK, CRITICAL)
    assert not least_critical.wants(WARNING, OK)
    assert not least_critical.wants(OK, UNKNOWN)
    assert not Channel("healthchecks", "h", Secret("x")).wants(CRITICAL, OK)
