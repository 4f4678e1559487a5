"""The figures of a report, drawn with matplotlib, and their files."""
