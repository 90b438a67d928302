"""What is particular to prime-rl of 2026-08-21 (559b44772)."""
