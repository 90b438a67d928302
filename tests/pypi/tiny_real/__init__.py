"""Six sums as tasks of verifiers, of two archetypes."""

from tiny_real.taskset import TinyTaskset

__all__ = ["TinyTaskset"]
