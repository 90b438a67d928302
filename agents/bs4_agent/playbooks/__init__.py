"""Playbooks: the compiled files, the plans made from them, and the steps that carry a plan out."""
