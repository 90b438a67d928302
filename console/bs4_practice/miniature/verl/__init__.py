"""A miniature verl (0.6): the driver, Ray's daemons and actors as processes of their own, the
console's and the file logger's lines, the checkpoints and the tracker. Titles, process groups and
who ends with whom are as measured with ray 2.60.

* `driver.py`: what a person starts. Its output is its own words and, prefixed and a little late,
  those of the actors' files.
* `raylet.py`: ends when the driver ends, and the actors with it; its dashboard and runtime-env
  agents stay. `memory.py`: ends the youngest worker when the memory of its control group runs out.
* `runner.py`: the task runner, which trains; `worker.py`: one process for each GPU, which holds the
  memory and does the work.
* `merger.py`: puts the ranks' slices of a step together into a directory of safetensors files.
"""
