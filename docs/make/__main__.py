"""Build the site: python -m docs.make [serve | arguments for mkdocs build]"""

import os
import subprocess
import sys

from docs.make import claims, fragments, workshop
from labs.harness.limits import ROOT

QUIET = {"NO_MKDOCS_2_WARNING": "1"}  # the theme's advertisement of what comes after MkDocs


def mkdocs(*arguments: str) -> int:
    fragments.write()
    workshop.write()
    claims.write()
    command = [sys.executable, "-m", "mkdocs", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **QUIET}).returncode


def main(arguments: list[str]) -> int:
    try:
        if arguments[:1] == ["serve"]:
            return mkdocs("serve", *arguments[1:])
        return mkdocs("build", "--strict", *arguments)  # not --quiet: it silences the warnings that strict counts
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
