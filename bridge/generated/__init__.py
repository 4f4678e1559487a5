"""Sources that make their own events: at a rate, on a timer, or from a file."""
