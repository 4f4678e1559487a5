"""The analysis of results: runs, savings, findings and the summary."""
