"""A process that posts one batch to a webhook and ends only if it is not killed; for a test that kills it.

python -m tests.tasks.dying_poster ROOT URL
"""

import json
import sys
from pathlib import Path

from dags import Kind
from tests.tasks.worksite import Worksite

if __name__ == "__main__":
    site = Worksite(Path(sys.argv[1]), "webhook", {"n": Kind.INTEGER}, url=sys.argv[2])
    sys.stdout.write(json.dumps(site.run([{"n": n} for n in range(4)])))
