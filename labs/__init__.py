"""One broken program per module, the table of them (catalog.py), and what runs and judges them (harness/)."""
