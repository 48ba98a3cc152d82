"""What the site is made with.

record.py runs the labs and keeps what they printed (docs/recorded/, in the repository), record_workshop.py does so with
the exercise loop; fragments.py writes what follows from the catalog, the programs and those recordings
(docs/fragments/, made anew at every build), workshop.py and agenda.py the same for docs/workshop/; pictures/ draws
runs; tab_labels.py is a Markdown extension; __main__.py builds the site. Pages include recordings and fragments;
nothing is copied by hand.
"""
