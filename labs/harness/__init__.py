"""What runs a program, watches it and judges it. It knows no lab by name.

To follow a run from the command line to the verdict, read in this order: __main__.py (what was asked), run.py (one run
from its plan to its record), container.py and enter.py (under which limits), watcher.py (beside the program),
conductor.py (around the program), findings/ (what the record shows) and verdict.py (against what was expected).
The rest serves these: lab.py (what a lab is), limits.py, engine.py (docker, podman), interrupts.py, entry.py (how a
command begins and ends), proc.py (what Linux tells), history.py (the record),
live.py, report.py and timeline.py (for the eyes), contents.py (writes down what each sample looks like).

Around it, for a workshop: workshop.py (the command), exercises.py (the learner's copies), progress.py (what is kept of
them), feedback.py (what a learner is told), watch.py, mystery.py, reports.py (for the instructor), and ready.py.
"""
