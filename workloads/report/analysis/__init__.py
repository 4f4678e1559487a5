"""The analysis of results: runs, savings with intervals, the summary, and findings in sentences."""
