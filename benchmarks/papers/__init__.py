"""The papers' experiments: their tables and figures as data, and pages that show them beside what benchmarks measured.

`python -m benchmarks.papers 003` runs the benchmarks of a paper, and writes its page into `docs/evidence`.
"""
