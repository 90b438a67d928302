"""Simulated GPUs: NVML's C ABI over files (`nvml.c`), and who may change them (`board.Board`).

A pod's GPUs are the directory `<pod>/gpu`: `driver`, `devices/N` and `holders/`. `library.build`
compiles the driver to `<pod>/lib/libnvidia-ml.so.1`; without a compiler `recorder` keeps
`<pod>/gpu/recorded.json` up to date instead.
"""
