"""What is particular to prime-rl of 2026-01-07 (a24ec986b)."""
