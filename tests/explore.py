"""Every test that hypothesis draws for, over and over with other examples, until one fails or somebody ends it.

    python -m tests.explore [--seed N] [arguments for pytest]

Each round has a seed, which is printed and repeats it. With a seed there is one round.
"""

import argparse
import os
import secrets
import subprocess
import sys
from itertools import count

# With mosquitto or Spark beside them an example takes seconds.
_DRAWN = ["-m", "hypothesis and not spark and not mosquitto", "--hypothesis-profile=explore"]


def main() -> None:
    """Explore, round after round."""
    parser = argparse.ArgumentParser(prog="make explore", description="Search with other examples each time.")
    parser.add_argument("--seed", type=int, help="repeat the round that had this seed")
    arguments, more = parser.parse_known_args()
    for number in count(1):
        seed = secrets.randbelow(2**32) if arguments.seed is None else arguments.seed
        repeat = f"make explore SEED={seed}"
        _say(f"Round {number}; to repeat it: {repeat}")
        try:
            code = _round(seed, more)
        except KeyboardInterrupt:
            _say(f"Ended in round {number}; to repeat it: {repeat}")
            sys.exit(130)
        if code or arguments.seed is not None:
            _say(f"Round {number} {'failed' if code else 'found nothing'}; to repeat it: {repeat}")
            sys.exit(code)


def _round(seed: int, more: list[str]) -> int:
    words = [sys.executable, "-m", "pytest", "-q", "-n", "auto", *_DRAWN, f"--hypothesis-seed={seed}", *more]
    # The order of sets is drawn with it.
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    with subprocess.Popen(words, env=environment) as running:  # noqa: S603 - our own tests
        try:
            return running.wait()
        except KeyboardInterrupt:
            # It got the signal as well, and tells what it found so far.
            running.wait()
            raise


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what the command is for


if __name__ == "__main__":
    main()
