"""Puts a real checkout where a practice pod has its imitation of a trainer.

The pod's project gets a Python environment that has, in this order, our stand-ins, the checkout's
own packages, and what the person's interpreter has installed. The checkout is only read.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

OVERLAY = Path(__file__).with_name("overlay")
TINY_MODEL = Path(__file__).parents[1] / "vllm" / "tiny_model.py"
_ABOUT = (
    "import json, site, sys; print(json.dumps([sys._base_executable, sys.version_info[:3], "
    "site.getsitepackages()]))"
)
#: What the chat of the tiny model looks like.
_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] + ':' + m['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)


def install(project: Path, checkout: Path, python: Path) -> None:
    """Replace `project/.venv` by an environment in which the commands of `checkout` are the real
    ones. `python` is the interpreter that has the packages they need.
    """
    base, version, packages = json.loads(
        subprocess.run([python, "-c", _ABOUT], capture_output=True, text=True, check=True).stdout
    )
    venv = project / ".venv"
    shutil.rmtree(venv, ignore_errors=True)
    (venv / "bin").mkdir(parents=True)
    own = venv / "lib" / f"python{version[0]}.{version[1]}" / "site-packages"
    own.mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text(
        f"home = {Path(base).parent}\ninclude-system-site-packages = false\n"
        f"version = {'.'.join(map(str, version))}\n"
    )
    for name in ("python", "python3"):
        (venv / "bin" / name).symlink_to(base)
    sources = [checkout / "src", *sorted(checkout.glob("packages/*/src"))]
    (own / "trainer.pth").write_text(
        "\n".join(
            [
                str(OVERLAY),
                *map(str, sources),
                *(f"import site; site.addsitedir({one!r})" for one in packages),
                "import bs4_stand_ins",
            ]
        )
        + "\n"
    )
    told = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    commands = {**told["scripts"], "torchrun": "torch.distributed.run:main"}
    if "env-server" in commands:
        commands["vllm-router"] = "bs4_router:main"
    for name, place in commands.items():
        module, function = place.split(":")
        script = venv / "bin" / name
        script.write_text(
            f"#!/bin/sh\n'''exec' \"{venv / 'bin' / 'python3'}\" \"$0\" \"$@\"\n' '''\n"
            f"import sys\nfrom {module} import {function}\n\n"
            f"if __name__ == '__main__':\n    sys.exit({function}())\n"
        )
        script.chmod(0o755)
    info = own / f"prime_rl-{told['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: prime-rl\nVersion: {told['version']}\n"
    )


def make_model(python: Path, directory: Path) -> None:
    """Write a tiny model with random weights and a chat template to `directory`."""
    subprocess.run([python, TINY_MODEL, directory], check=True, capture_output=True, timeout=300)
    (directory / "chat_template.jinja").write_text(_TEMPLATE)
