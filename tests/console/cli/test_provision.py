"""`provision` as a person and a script use it: real processes, the practice cloud over HTTP,
practice pods behind it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pty
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_console.cli import provision
from bs4_console.errors import UsageError
from bs4_console.providers.base import label_of
from bs4_console.provision.book import Book
from bs4_console.provision.rent import Provisioner
from bs4_practice import cloud as clouds
from bs4_practice.cloud import Cloud

from .conftest import Console
from .planted import plant, rent

H100 = ("--gpu", "H100", "--count", "2")


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with clouds.running(boot_s=0.02) as running:
        yield running


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    path = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def equipped(console: Console, cloud: Cloud, *names: str) -> Console:
    console.extra = {f"BS4_{name.upper()}_URL": cloud.url(name) for name in names}
    for name in names:
        done = console("provision", "key", name, stdin=f"{cloud.KEY}\n".encode())
        assert done.code == 0, done
        assert cloud.KEY not in done.out + done.err
        assert stat.S_IMODE((console.config / "keys" / name).stat().st_mode) == 0o600
    return console


@pytest.mark.long
@pytest.mark.beside
def test_search_compares_whole_prices_of_all_who_have_a_key(console: Console, cloud: Cloud) -> None:
    equipped(console, cloud, "vast", "runpod", "prime")
    found = console("provision", "search", *H100, "--max-price", "5", "--json").json
    assert (found["offers"][0]["provider"], found["offers"][0]["id"]) == ("vast", "503")
    assert [offer["price"] for offer in found["offers"]] == sorted(
        offer["price"] for offer in found["offers"]
    )
    assert found["dearer"] == 2
    text = console("provision", "search", *H100)
    assert text.code == 0
    assert "traffic costs" in text.out
    cloud.fault("prime", "offers", "401", times=9)
    done = console("provision", "search", *H100, "--provider", "prime", "--json")
    assert (done.code, done.json["offers"]) == (3, [])
    assert "key is not accepted" in done.json["failures"]["prime"]
    nothing = console("provision", "search", *H100, "--max-price", "1", "--provider", "vast")
    assert nothing.code == 1
    assert "the cheapest is $3.96 at vast" in nothing.out


@pytest.mark.long
@pytest.mark.beside
def test_without_a_key_it_says_how_to_store_one_and_a_key_that_others_can_read_is_refused(
    console: Console, cloud: Cloud
) -> None:
    assert "provision key" in console("provision", "search", *H100).sentence
    assert console("provision", "search", *H100, "--provider", "vast").code == 2
    equipped(console, cloud, "vast")
    (console.config / "keys" / "vast").chmod(0o644)
    assert "chmod 600" in console("provision", "search", *H100).sentence
    assert console("provision", "key", "verda", stdin=b"only-one-line\n").code == 2
    foreign = console.root / "home" / ".config" / "vastai"
    foreign.mkdir(parents=True)
    (console.config / "keys" / "vast").unlink()
    (foreign / "vast_api_key").touch(0o600)
    (foreign / "vast_api_key").write_text(cloud.KEY)
    assert console("provision", "search", *H100, "--json").code == 0


def test_what_every_account_has_left(console: Console, cloud: Cloud) -> None:
    equipped(console, cloud, "vast", "lambda")
    cloud.market.credit["vast"] = 0.0
    done = console("provision", "balance", "--json")
    assert (done.code, done.json["short"], done.json["failures"]) == (1, ["vast"], {})
    vast, lambdas = done.json["accounts"]
    assert (vast["provider"], vast["credit"], vast["hours"]) == ("vast", 0.0, 0.0)
    assert (lambdas["credit"], lambdas["hours"]) == (None, None)
    cloud.market.credit["vast"] = 80.0
    text = console("provision", "balance")
    assert text.code == 0
    assert "vast: $80.00 left, and no machine costs anything now" in text.out
    assert "lambda: its API has no balance" in text.out
    cloud.fault("vast", "balance", "403", times=9)
    assert console("provision", "balance", "--provider", "vast").code == 3


def test_a_gpu_by_the_word_that_people_use(console: Console, cloud: Cloud) -> None:
    equipped(console, cloud, "vast")
    search = ("provision", "search", "--provider", "vast", "--count", "2")
    named = console(*search, "--gpu", "RTX-4090", "--json").json["offers"]
    assert named
    for word in ("4090", "RTX 4090", "rtx4090"):
        assert console(*search, "--gpu", word, "--json").json["offers"] == named
    unknown = console(*search, "--gpu", "H10O")
    assert unknown.code == 1
    assert "Did you mean 'H100'?" in unknown.out


def test_all_that_a_run_has_cost_counts_for_the_spend_cap(
    console: Console, cloud: Cloud, identity: Path
) -> None:
    """On a machine of others, and on one that was rented for it and that it never used."""
    equipped(console, cloud, "vast")
    book, began = console.data / "provision.ndjson", time.time() - 300 * 3600.0
    rent("idle", began, began + 100 * 3600.0, 5.0, "vast", run="demo", path=book)
    pods = console.data / "pods"
    plant(pods / "mine", time.time() - 200 * 3600.0, 100, 10.0)
    plant(pods / "gift", time.time() - 50 * 3600.0, 10, None)
    create = ("provision", "create", *H100, "--run", "demo", "--identity", str(identity))
    done = console(*create, "--max-price", "6", "--max-spend", "1550", "--plan")
    assert done.code == 4
    assert "demo has cost $1500." in done.sentence
    done = console(*create, "--max-price", "6", "--max-spend", "2000", "--plan")
    assert "has cost on gift is not counted, because no price is known" in done.out


@pytest.mark.long
@pytest.mark.beside
def test_nothing_is_rented_without_the_plans_hash(
    console: Console, cloud: Cloud, identity: Path
) -> None:
    equipped(console, cloud, "vast")
    create = ("provision", "create", *H100, "--run", "qwen", "--identity", str(identity))
    assert "price cap" in console(*create).sentence
    done = console(*create, "--max-price", "6")
    assert done.code == 4
    assert "--plan" in done.err
    plan = console(*create, "--max-price", "6", "--plan", "--json").json
    assert plan["planned"] == pytest.approx(24 * max(offer["price"] for offer in plan["offers"]))
    assert console(*create, "--max-price", "6", "--max-spend", "50").code == 4
    assert (
        console(
            "--read-only",
            "provision",
            "create",
            "--plan",
            plan["plan_hash"],
            "--identity",
            str(identity),
        ).code
        == 4
    )
    assert (
        console(
            "provision", "create", "--plan", "0123456789abcdef", "--identity", str(identity)
        ).code
        == 4
    )
    assert console(*create, "--max-price", "6", "--yes").code == 2
    assert not cloud.sent("vast", "create")
    made = console(
        "provision",
        "create",
        "--plan",
        plan["plan_hash"][:16],
        "--identity",
        str(identity),
        "--no-wait",
        "--json",
    )
    assert made.code == 0, made
    assert made.json["machine"]["label"].startswith("bs4-qwen-")
    again = console(
        "provision",
        "create",
        "--plan",
        plan["plan_hash"][:16],
        "--identity",
        str(identity),
        "--no-wait",
    )
    assert again.code == 4
    assert len(cloud.sent("vast", "create")) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ("--hours", "-24"),
        ("--hours", "0"),
        ("--hours", "nan"),
        ("--hours", "inf"),
        ("--max-spend", "nan"),
    ],
)
async def test_no_number_of_hours_passes_the_spend_cap(wrong: tuple[str, str]) -> None:
    """Of -24 hours every plan would be under every cap. Nobody is asked for offers."""
    parser = argparse.ArgumentParser()
    provision.configure(parser)
    options = parser.parse_args(
        ["create", *H100, "--run", "qwen", "--max-price", "6", "--max-spend", "1", *wrong]
    )
    with pytest.raises(UsageError) as caught:
        await provision._planned(options, Provisioner([], Book(), "tester"))
    assert wrong[0] in caught.value.next_step


@pytest.mark.long
@pytest.mark.beside
def test_a_create_in_doubt_says_what_may_exist_and_list_shows_it(
    console: Console, cloud: Cloud, identity: Path
) -> None:
    equipped(console, cloud, "runpod")
    create = (
        "provision",
        "create",
        *H100,
        "--run",
        "qwen",
        "--identity",
        str(identity),
        "--max-price",
        "6",
    )
    plan = console(*create, "--plan", "--json").json["plan_hash"]
    cloud.fault("runpod", "create", "drop-after")
    cloud.fault("runpod", "list", "403", times=99)
    done = console("provision", "create", "--plan", plan, "--identity", str(identity))
    assert done.code == 3
    assert "may exist" in done.err
    listed = console("provision", "list", "--json")
    assert (listed.code, [entry["run"] for entry in listed.json["in_doubt"]]) == (3, ["qwen"])
    assert "403" in listed.json["failures"]["runpod"]
    cloud.heal()
    (machine,) = console("provision", "list", "--json").json["machines"]
    assert (machine["run"], machine["orphan"]) == ("qwen", False)
    assert console(*create).code == 4


@pytest.mark.long
@pytest.mark.beside
def test_one_machine_is_ended_by_its_exact_name_and_only_when_it_is_typed(
    console: Console, cloud: Cloud
) -> None:
    equipped(console, cloud, "vast")
    stray = cloud.market.rent(
        cloud.market.for_sale("vast")[0], label_of("a", "01KAPRACTCE0000000000000BB")
    )
    other = cloud.market.rent(
        cloud.market.for_sale("vast")[0], label_of("a-v2", "01KAPRACTCE0000000000000CC")
    )
    orphans = console("provision", "list", "--orphans", "--json")
    assert orphans.code == 1
    assert {machine["id"] for machine in orphans.json["machines"]} == {stray.id, other.id}
    # the beginning of a label is no name
    assert console("provision", "terminate", "bs4-a").code == 2
    assert console("provision", "terminate", str(stray.label)).code == 4
    assert console("provision", "terminate", str(stray.label), "--confirm", "bs4-a").code == 4
    assert len(cloud.market.living()) == 2
    done = console(
        "provision", "terminate", f"vast:{stray.id}", "--confirm", str(stray.label), "--json"
    )
    assert done.code == 0, done
    assert [machine.id for machine in cloud.market.living()] == [other.id]
    label = str(other.label)
    done = console("provision", "terminate", f"vast:{other.id}", "--confirm", label)
    assert "No pod of the inventory was on it. Keys that were brought to it are" in done.out


def test_the_key_is_in_no_argument_list_and_no_output(console: Console, cloud: Cloud) -> None:
    equipped(console, cloud, "vast")
    cloud.fault("vast", "offers", "slow", seconds=1.5)
    process = console.start("provision", "search", *H100)
    seen = ""
    while process.poll() is None:
        try:
            seen += Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()
            seen += Path(f"/proc/{process.pid}/environ").read_bytes().decode()
        except (FileNotFoundError, ProcessLookupError):
            break
        time.sleep(0.05)
    out, err = process.communicate()
    assert "provision" in seen
    assert cloud.KEY not in seen + out.decode() + err.decode()


@pytest.mark.long
@pytest.mark.beside
def test_from_a_plan_to_a_pod_that_answers(console: Console, identity: Path) -> None:
    """Vast tells the host key over its API: nobody is asked. Prime tells none: a person's word is
    needed; without it nothing is sent.
    """
    with (
        tempfile.TemporaryDirectory(prefix="bs4-") as short,
        clouds.running(metal=clouds.PracticePods(Path(short)), boot_s=0.02) as cloud,
    ):
        equipped(console, cloud, "vast", "prime")
        create = (
            "provision",
            "create",
            *H100,
            "--identity",
            str(identity),
            "--max-price",
            "6",
            "--json",
        )
        one = (*create, "--run", "one", "--pod", "uno", "--provider", "vast", "--plan")
        plan = console(*one).json["plan_hash"]
        done = console("provision", "create", "--plan", plan, "--json")
        assert done.code == 0, done
        assert (done.json["pod"], done.json["trusted"]) == ("uno", True)
        tested = console("pods", "test", "uno", "--json")
        assert tested.json["reachable"], tested
        pod = console("pods", "show", "uno", "--json").json
        assert (pod["provider"], pod["instance"], pod["price"]) == (
            "vast",
            done.json["machine"]["id"],
            pytest.approx(3.96),
        )

        plan = console(*create, "--run", "two", "--provider", "prime", "--plan").json["plan_hash"]
        done = console("provision", "create", "--plan", plan, "--identity", str(identity), "--json")
        assert done.code == 4, done
        assert (done.json["pod"], done.json["trusted"]) == ("two", False)
        fingerprint = done.err.partition("--fingerprint ")[2].split()[0].rstrip("`")
        assert console("pods", "test", "two", "--fingerprint", fingerprint, "--json").json[
            "reachable"
        ]

        (label,) = [
            m["label"]
            for m in console("provision", "list", "--json").json["machines"]
            if m["pod"] == "two"
        ]
        done = console("provision", "terminate", "two", "--confirm", label)
        assert done.code == 0
        assert "The pod two has left the inventory, with its host key. What this" in done.out
        assert [pod["name"] for pod in console("pods", "list", "--json").json["pods"]] == ["uno"]
        assert [machine.provider for machine in cloud.market.living()] == ["vast"]


async def test_on_a_terminal_it_is_asked_for(
    console: Console, cloud: Cloud, identity: Path
) -> None:
    equipped(console, cloud, "vast")
    ours, theirs = pty.openpty()
    words = (
        "provision",
        "create",
        *H100,
        "--run",
        "qwen",
        "--identity",
        str(identity),
        "--max-price",
        "6",
        "--no-wait",
    )
    process = console.start(*words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = ""
    while "Type yes" not in said:
        said += (await asyncio.to_thread(os.read, ours, 4096)).decode()
    assert "for up to $6.00 an hour" in said
    os.write(ours, b"no\n")
    assert await asyncio.to_thread(process.wait, 60) == 4
    os.close(ours)
    assert not cloud.sent("vast", "create")


def test_the_practice_clouds_run_as_a_program(console: Console, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "bs4_practice.cloud", "--root", str(tmp_path), "--no-pods"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        console.extra = {**said["environment"], "LAMBDA_API_KEY": said["key"]}
        found = console("provision", "search", *H100, "--json").json
        assert [offer["provider"] for offer in found["offers"]] == ["lambda"]
    finally:
        process.communicate(b"", 60)
    assert process.returncode == 0
