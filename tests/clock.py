"""The machine's clock, set while processes run, as they see it who reckon when a process began."""

import sys

import psutil
import pytest


def set_clock(patch: pytest.MonkeyPatch, *, by: float) -> None:
    """From now on the moment of the boot seems to have been so many seconds later."""
    if sys.platform != "linux":
        pytest.skip("only Linux reckons from the moment of the boot")
    booted = psutil.boot_time() + by
    patch.setattr("psutil._pslinux.boot_time", lambda: booted)
