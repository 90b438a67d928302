"""Servers that stand for the world outside a practice pod: a model hub that asks for a token,
refuses, or throttles.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from bs4_practice import faults
from bs4_practice.stage import Stage
from bs4_practice.workspace import MODEL

TOKEN = "hf_practice"  # noqa: S105 (what the practice hub takes; no secret of anybody)
_HUB = """
import http.server, json, sys
port, without, known = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        model = "/".join(self.path.split("/")[1:3])
        allowed = self.headers.get("Authorization") == "Bearer TOKEN"
        status = 404 if model != known else 200 if allowed else without
        body = b""
        if status == 200:
            config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
            body = json.dumps(config).encode()
        self.send_response(status)
        if status == 401:
            self.send_header("X-Error-Message", "Invalid credentials in Authorization header")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Hub).serve_forever()
""".replace("TOKEN", TOKEN)


async def start_hub(stage: Stage, without_token: int) -> None:
    """Start the pod's model hub, and return when it listens. Programs on the pod reach it instead
    of Hugging Face. It answers requests that carry the practice token (see `leave_token`), and all
    others with the HTTP status `without_token`. Raises TimeoutError if it does not listen within 20
    seconds.
    """
    port = stage.pod.workspace.hub_port
    await stage.pod.spawn(
        ["python3", "-c", _HUB, str(port), str(without_token), MODEL], cwd=stage.pod.home
    )
    await faults.until(lambda: faults.listens(port), 20, f"the practice hub on port {port}")


def forget_model(stage: Stage) -> None:
    """Delete the pod's cache of downloaded models, so that a run has to download its model."""
    shutil.rmtree(_cache(stage))


def leave_token(stage: Stage) -> None:
    """Save the practice token, which the pod's model hub accepts, in the pod's home directory, as
    `hf auth login` does: in a file of mode 0600.
    """
    path = stage.pod.home / ".cache" / "huggingface" / "token"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(TOKEN)


def _cache(stage: Stage) -> Path:
    return stage.pod.home / ".cache" / "huggingface" / "hub"
