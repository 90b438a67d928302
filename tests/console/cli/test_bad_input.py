"""What goes wrong before anything works: one clear sentence, what to do next, the documented code,
and nothing half-done.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tests.console.cli.conftest import Console, Practice
from tests.support import keys
from tests.support.pod import NotHere, TestPod
from tests.support.pods import Pods

pytestmark = [pytest.mark.long, pytest.mark.beside]

NOTHING_TOUCHED = "find . -mindepth 1 | sort"


def listing(pod: TestPod) -> bytes:
    return pod.run(["sh", "-c", NOTHING_TOUCHED]).stdout


def known(console: Console, pod: TestPod, key: Path | None = None) -> None:
    console.add("pod", pod.address, pod.port, pod.user, key or pod.key, pod.host_key)


def refused(console: Console, *words: str, code: int = 3) -> str:
    done = console(*words)
    assert done.code == code, done
    assert done.out == ""
    return done.sentence


def test_nobody_answers(console: Console, pods: Pods) -> None:
    """A machine that takes connections and says nothing: what a pod behind a dead link, or under a
    swap storm, looks like.
    """
    pods(0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        console.add("mute", "127.0.0.1", silent.getsockname()[1], "root", pods.key)
        done = console("check", "--timeout", "1.5")
        assert done.code == 3
        assert done.out.startswith(
            "UNKNOWN - mute: mute did not answer within 2 s. Check that the pod runs"
        )


def test_a_pod_whose_cable_is_cut(console: Console, pod: TestPod) -> None:
    known(console, pod)
    try:
        pod.cut()
    except NotHere as reason:
        pytest.skip(str(reason))
    for words in (
        ("deploy",),
        ("logs",),
        ("launch", "x.toml", "--run", "r", "--trainer", "prime-rl"),
    ):
        sentence = refused(console, *words, "--pod", "pod")
        assert re.search(r"did not answer within|no way to", sentence)
        assert "Check" in sentence


def test_a_port_that_refuses(console: Console, pods: Pods) -> None:
    console.add("shut", "127.0.0.1", 1, "root", pods.key)
    assert "refuses connections. Check the port" in refused(console, "deploy", "--pod", "shut")
    added = console("pods", "add", "new", "127.0.0.1:1", "--identity", str(pods.key))
    assert added.code == 3
    assert "new is in the inventory; `bs4-console pods test new` tries again." in added.sentence


def test_a_name_without_an_address(console: Console, pods: Pods) -> None:
    console.add("odd", "no-such-host.invalid", 22, "root", pods.key)
    assert "No address is known" in refused(console, "deploy", "--pod", "odd")


def test_a_wrong_key_and_a_missing_one(console: Console, pod: TestPod, tmp_path: Path) -> None:
    before = listing(pod)
    known(console, pod, keys.private_key(tmp_path / "stranger"))
    sentence = refused(console, "deploy", "--pod", "pod")
    assert f"refused user {pod.user}" in sentence
    assert "authorized_keys" in sentence
    console.add("other", pod.address, pod.port, pod.user, tmp_path / "none")
    assert "none" in refused(console, "deploy", "--pod", "other")
    assert listing(pod) == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"python": ""}, "has no python3"),
        ({"python": "3.8"}, "3.8"),
        ({"home_size": "256k"}, "256 KiB free"),
        ({"read_only_home": True}, "home"),
    ],
    ids=["no python", "Python 3.8", "a full disk", "a home that cannot be written"],
)
def test_a_pod_that_cannot_have_the_agent(
    console: Console, pods: Pods, options: dict[str, object], says: str
) -> None:
    (pod,) = pods(1, **options)
    try:
        known(console, pod)
        before = listing(pod)
        assert says in refused(console, "deploy", "--pod", "pod")
        assert listing(pod) == before
        unknown = console("check")
        assert unknown.code == 3
        assert unknown.out.startswith("UNKNOWN - pod: No agent runs on pod pod.")
        assert "bs4-console deploy --pod pod" in unknown.out
        assert listing(pod) == before
    finally:
        pod.close()


def test_a_noexec_home_is_fine_and_without_a_driver_check_warns(
    console: Console, pods: Pods
) -> None:
    """The interpreter is called, not the file. No GPU is a warning, since a run there cannot
    train.
    """
    (pod,) = pods(1, **({"noexec_home": True} if pods.kind == "namespaced" else {}))
    try:
        known(console, pod)
        assert console("deploy", "--pod", "pod").code == 0
        done = console("check", "--pod", "pod")
        if "gpu0_" in done.out:
            pytest.skip("this machine has GPUs")
        assert done.code == 1
        assert done.out.startswith("WARNING - pod: no GPU is visible")
        assert console("logs", "--pod", "pod").code == 2
    finally:
        pod.close()


def test_an_inventory_that_is_not_toml(console: Console) -> None:
    console.config.mkdir()
    (console.config / "pods.toml").write_text('[pods.a]\nhost = "x\n')
    for words in (
        ("pods", "list"),
        ("deploy", "--pod", "a"),
        ("pods", "add", "b", "host", "--no-connect"),
    ):
        sentence = refused(console, *words, code=2)
        assert "pods.toml is not valid TOML" in sentence
        assert "Correct that line" in sentence
    assert (console.config / "pods.toml").read_text() == '[pods.a]\nhost = "x\n'


def test_a_pod_that_is_not_known_names_the_nearest(console: Console, pods: Pods) -> None:
    console.add("h100-a", "192.0.2.1", 22, "root", pods.key)
    assert "Did you mean 'h100-a'?" in refused(console, "deploy", "--pod", "h100a", code=2)


def test_an_unknown_playbook_and_an_unknown_stream(trained: Practice) -> None:
    for words in (("playbook", "show", "nope"), ("playbook", "plan", "nope", "--pod", "pod-a")):
        sentence = trained(*words)
        assert sentence.code == 2
        assert "There is no playbook 'nope'. " in sentence.sentence
        assert "`bs4-console playbook list` shows all." in sentence.sentence
    assert trained("logs", "demo", "--pod", "pod-a", "--source", "nope").code == 2


def test_an_unknown_command_and_a_data_directory_that_is_a_file(
    console: Console, tmp_path: Path, pods: Pods
) -> None:
    said = refused(console, "chek", code=2)
    assert "bs4-console has no command 'chek'. Close to it: check. `bs4-console --help`" in said
    assert "Close to it: launch." in refused(console, "resume", code=2)
    assert "runs has no verb 'lst'. Close to it: list." in refused(console, "runs", "lst", code=2)
    assert "has no command 'qqqq'. `bs4-console --help`" in refused(console, "qqqq", code=2)
    assert "Close to it: envs splits." in refused(console, "datasets", code=2)
    assert "Close to it: lint." in refused(console, "config", "check", code=2)
    assert "Close to it: compare." in refused(console, "runs", "diff", code=2)
    assert f"{tmp_path} cannot be used: Is a directory. Name a file in it." in refused(
        console, "runs", "bench", str(tmp_path), f"100={tmp_path}", code=3
    )
    (tmp_path / "data").write_text("")
    console.extra["BS4_DATA_DIR"] = str(tmp_path / "data")
    console.config.mkdir()
    (console.config / "pods.toml").write_text(
        f'[pods.a]\nhost = "127.0.0.1"\nport = 1\nidentity_file = "{pods.key}"\n'
    )
    done = console("deploy", "--pod", "a")
    assert done.code == 3
    assert "Traceback" not in done.err


def test_the_screen_needs_a_terminal(console: Console) -> None:
    assert "needs a terminal" in refused(console, code=2)
