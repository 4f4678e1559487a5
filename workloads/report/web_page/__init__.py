"""The HTML page of a report: its sections, and the tags they are made of. Pure."""
