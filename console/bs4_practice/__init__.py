"""Pods to practise on: embedded SSH servers, simulated GPUs and a miniature prime-rl that fails the
way the real one fails.

What is learned on a practice pod counts only if the pod is honest, so these rules hold and are
tested:

* `miniature/` is several real processes with prime-rl's argv, titles, log grammar, directories and
  hand-offs. It implements the trainers' algorithms, not their failures: no failure id occurs in it,
  and it imports neither `bs4_agent` nor any other part of `bs4_console` (the log grammar would
  otherwise be checked against itself). Only the standard library and setproctitle.
* `faults` acts from outside and only with what a real machine has: signals, files, processes,
  ports. Nothing ever prints a line in a trainer's name.
* `gpus/` simulates NVML behind its own C ABI. Memory exists only while the process that holds it
  lives; there is no other way to free it than to end the holder.
* `witness` says what really happened (finished steps, lost files). It imports no product code and
  not the miniature either.
* Where a number was measured on the real programs it stands beside the code that uses it.
  BS4_MINIATURE_STEP_SECONDS, BS4_MINIATURE_ENGINE_SECONDS and BS4_MINIATURE_PACE (a factor on every
  wait that the real programs spell in seconds) change how long things take and nothing else.

`pod.start()` gives a whole pod: its own home, PATH, SSH server, GPUs and process subtree.
"""
