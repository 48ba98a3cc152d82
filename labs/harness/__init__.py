"""What runs a program, watches it and judges it. It knows no lab by name.

To follow a run from the command line to the verdict, read in this order: __main__.py (what was asked), run.py (one run
from its plan to its record), container.py and enter.py (under which limits), watcher.py (beside the program),
conductor.py (around the program), findings/ (what the record shows) and verdict.py (against what was expected).
The rest serves these: lab.py (what a lab is), limits.py, engine.py (docker, podman), interrupts.py and entry.py (how a
command begins and ends), probe.py (inside torch's loader), batches.py and raised.py (what a batch and an error hold),
ranks.py (several conductors), proc.py (what Linux tells), history.py (the record), live.py, report.py, words.py and
timeline.py (for the eyes), contents.py (writes down what each sample looks like) and new_lab.py (lays out a new one).
"""
