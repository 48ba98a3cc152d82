"""Fixes for the lab sql."""

from tests.fixes.fix import Fix

RETURN_LABELLED = "return DataLoader(LabelledImages(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
CONNECT = '        self.database = sqlite3.connect(folder / "images.db")\n'
LAZY = """\
    @property
    def database(self):
        if not hasattr(self, "_connection"):
            self._connection = sqlite3.connect(self.folder / "images.db")
        return self._connection

    def describe"""

WRONG = [
    Fix(
        "sql",
        "a connection when it is first needed, which is in __len__, in the main process",
        ((CONNECT, ""), ("    def describe", LAZY)),
        ("raised", "unpicklable"),
    ),
    Fix(
        "sql",
        "back to fork",
        ((RETURN_LABELLED, f'{RETURN_LABELLED[:-1]}, multiprocessing_context="fork")'),),
        ("other-workers",),
    ),
    Fix(
        "sql",
        "other labels",
        (
            ("torch.tensor(label)", "torch.tensor(label + 3)"),
            (CONNECT, ""),
            ("self.database.execute", 'sqlite3.connect(self.folder / "images.db").execute'),
        ),
        ("wrong-content",),
    ),
    Fix("sql", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("other-workers",)),
    Fix(
        "sql",
        "a connection that threads may share",
        ((CONNECT, CONNECT.replace('"images.db")', '"images.db", check_same_thread=False)')),),
        ("unpicklable",),
    ),
]

RIGHT = [
    Fix(
        "sql",
        "a connection for each worker, made when it is first needed",
        (
            (CONNECT, ""),
            (
                "    def describe",
                LAZY,
            ),
            ('return int(self.database.execute("select count(*) from images").fetchone()[0])', "return IMAGES"),
        ),
    ),
    Fix(
        "sql",
        "a new connection for each question",
        (
            (CONNECT, ""),
            ("self.database.execute", 'sqlite3.connect(self.folder / "images.db").execute'),
        ),
    ),
]
