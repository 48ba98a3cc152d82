"""What the site is made with.

record.py runs the labs and keeps what they printed (docs/recorded/, in the repository); fragments.py writes what
follows from the catalog, the programs and those recordings (docs/fragments/, made anew at every build); pictures/
draws runs; __main__.py builds the site. Pages include recordings and fragments; nothing is copied by hand.
"""
