"""Write down what every sample looks like, from the control runs: python -m labs.harness.contents

To be run when a lab's data changes. A fix is judged by this, so a learner's file cannot bring data of its own.
"""

import json
import sys

from labs.catalog import LABS
from labs.harness import container
from labs.harness.lab import CONTENTS
from labs.harness.run import Request, once


def main() -> None:
    CONTENTS.unlink(missing_ok=True)  # the old one is not to be judged by
    contents = {}
    for lab in LABS.values():
        request = Request(lab, "control")
        verdict, _ = once(request, container.choose(None, request.limits))
        if {finding.id for finding in verdict.findings} - {"wrong-content"}:
            sys.exit(f"the control of {lab.name} is not healthy: {verdict.findings}")
        contents[lab.name] = {
            # Of a random content only the shape and the kind of number are known beforehand.
            str(sample.id): [
                f"{text.rpartition('/')[0]}/" if lab.random_content else text for text in sample.signatures
            ]
            for sample in verdict.history.by_epoch[0]
        }
    CONTENTS.write_text(json.dumps(contents, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
