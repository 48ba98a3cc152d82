"""What runs a program, watches it and judges it. It knows no lab by name.

To follow a run from the command line to the verdict, read in this order: __main__.py (what to run), container.py and
enter.py (under which limits), watcher.py (beside the program), conductor.py (around the program), findings.py (what
the record shows), verdict.py (against what was expected). The rest is for the eyes: live.py, report.py, timeline.py.
"""
