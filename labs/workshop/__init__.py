"""The exercise loop around the judge: a learner's copies, what they are told, and what an instructor is.

__main__.py (the command), exercises.py (the copies and their states), progress.py (what is kept), feedback.py (what a
learner is told after a check), watch.py (judges on every save), mystery.py (a failure without its name), reports.py
(the states of many learners), ready.py (can this machine run every lab).
"""
