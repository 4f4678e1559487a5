"""The report: what sharing saves, as one page that a reader of the paper recognises.

Begin with `writing.write_report`. Results are read by `runs`, reckoned with by `savings` and `summary`, put into
sentences by `findings`, drawn by `figures`, and set by `page`.
"""
