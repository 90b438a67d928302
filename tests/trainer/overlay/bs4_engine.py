"""Stands for vLLM behind the trainer's own `inference` command: an API process, and an engine as
its child, under vLLM's titles.

The API process takes requests and orders about weights; the engine makes the tokens: any, with the
log-probability that a model of no opinion gives them. As vLLM's, the API process answers /health
while its engine hangs, and ends with code 0 when its engine is dead.
"""

import json
import math
import multiprocessing
import os
import random
import threading
import time
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import setproctitle

SECONDS = float(os.environ.get("BS4_ENGINE_SECONDS", "0.05"))


def log(text):
    stamp = time.strftime("%m-%d %H:%M:%S")
    print(f"(APIServer pid={os.getpid()}) INFO {stamp} [api_server.py:1] {text}", flush=True)


def engine(orders):
    setproctitle.setproctitle("VLLM::EngineCore")
    chance = random.Random()
    while True:
        number, wanted, vocabulary = orders.recv()
        time.sleep(SECONDS)
        orders.send((number, [chance.randrange(vocabulary) for _ in range(wanted)]))


class Engine:
    def __init__(self, vocabulary):
        self.vocabulary, self.waiting, self.lock = vocabulary, {}, threading.Lock()
        self.done, self.number = 0, 0
        ours, theirs = multiprocessing.Pipe()
        self.orders = ours
        self.process = multiprocessing.get_context("fork").Process(target=engine, args=(theirs,))
        self.process.start()
        theirs.close()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        try:
            while True:
                number, tokens = self.orders.recv()
                with self.lock:
                    self.done += len(tokens)
                    waiting = self.waiting.pop(number)
                waiting.set_result(tokens)
        except (EOFError, ConnectionError):
            log("EngineDeadError: EngineCore encountered an issue. See stack trace (above).")
            os._exit(0)

    def tokens(self, wanted):
        answer = Future()
        with self.lock:
            self.number += 1
            self.waiting[self.number] = answer
            self.orders.send((self.number, wanted, self.vocabulary))
        return answer.result()


def server(config):
    """What the trainer calls with the configuration of its inference."""
    model = getattr(getattr(config, "vllm", None), "model", None) or config.model.name
    shape = json.loads((Path(model) / "config.json").read_text())
    vocabulary, limit = shape["vocab_size"], shape["max_position_embeddings"]
    core = Engine(vocabulary)
    odds = -math.log(vocabulary)

    class Api(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if self.path == "/metrics":
                self.answer(figures(), "text/plain")
            elif self.path in ("/v1/models", "/models"):
                self.answer({"data": [{"id": model, "max_model_len": limit}]})
            elif self.path == "/version":
                self.answer({"version": "0.26.0"})
            else:
                self.answer({}, status=200 if self.path in ("/health", "/ping") else 404)

        def do_POST(self):
            asked = json.loads(
                self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}"
            )
            path = self.path.split("?")[0]
            if path == "/inference/v1/generate":
                self.answer(generated(asked))
            elif path in ("/v1/chat/completions", "/v1/chat/completions/tokens"):
                self.answer(chatted(asked))
            elif path == "/v1/completions":
                core.tokens(asked.get("max_tokens") or 1)
                self.answer({"choices": [{"index": 0, "text": "a", "finish_reason": "length"}]})
            elif path in ("/update_weights", "/reload_weights", "/load_lora_adapter"):
                weights = asked.get("weight_dir") or asked.get("lora_path")
                log(f"Reloading weights from {weights}")
                there = weights is None or any(Path(weights).glob("*.safetensors"))
                self.answer({"status": "ok"}, status=200 if there else 500)
            else:
                self.answer({"status": "ok"})

        def answer(self, body, kind="application/json", status=200):
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, form, *words):
            print(f'INFO:     127.0.0.1 - "{self.requestline}" {words[1]}', flush=True)

    def figures():
        return (
            f'vllm:num_requests_running{{model_name="{model}"}} {float(len(core.waiting))}\n'
            f'vllm:num_requests_waiting{{model_name="{model}"}} 0.0\n'
            f'vllm:generation_tokens_total{{model_name="{model}"}} {float(core.done)}\n'
            f'vllm:kv_cache_usage_perc{{model_name="{model}"}} 0.1\n'
        )

    def entries(tokens):
        return {"content": [{"token": f"token_id:{one}", "logprob": odds} for one in tokens]}

    def generated(asked):
        tokens = core.tokens(asked["sampling_params"].get("max_tokens") or 16)
        choice = {"index": 0, "token_ids": tokens, "logprobs": entries(tokens)}
        return {"request_id": "r", "choices": [{**choice, "finish_reason": "length"}]}

    def chatted(asked):
        tokens = core.tokens(asked.get("max_completion_tokens") or asked.get("max_tokens") or 16)
        said = "".join(chr(97 + one % 26) for one in tokens)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": said},
            "finish_reason": "length",
            "token_ids": tokens,
            "logprobs": entries(tokens),
        }
        prompt = asked.get("tokens") or [1] * 8
        usage = {
            "prompt_tokens": len(prompt),
            "completion_tokens": len(tokens),
            "total_tokens": len(prompt) + len(tokens),
        }
        return {
            "id": "r",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [choice],
            "usage": usage,
            "prompt_token_ids": prompt,
        }

    class Server(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

    host, port = config.server.host or "0.0.0.0", config.server.port
    log(f"Starting vLLM server on http://{host}:{port}")
    Server((host, port), Api).serve_forever()
