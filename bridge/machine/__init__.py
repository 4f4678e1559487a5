"""Files, locks, clocks and processes of the machine that Braid runs on."""
