"""A miniature prime-rl in both generations: 2026-01 (a24ec986b) and current (559b44772,
2026-08-21).

Stand-alone: standard library and setproctitle. `install.install()` makes a pod's training
environment with the real commands (`uv run rl @ cfg.toml`, `uv run inference @ ...`); `main` is
behind all of them. `v2026_01/` and `current/` hold what differs between the generations, `vllm/`
the inference server, the rest is shared. Start reading at `v2026_01/launcher.py`.

Environment: BS4_MINIATURE_GENERATION (2026-01 | current), BS4_MINIATURE_STEP_SECONDS (1.0),
BS4_MINIATURE_ENGINE_SECONDS (0.5), BS4_MINIATURE_PACE (1.0), BS4_MINIATURE_CHECKPOINT_BYTES
(65536), BS4_MINIATURE_GPUS (directory of simulated GPUs), BS4_DEV.
"""
