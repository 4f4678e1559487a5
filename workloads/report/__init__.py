"""The report on what sharing saves: one page with the paper's figures and tables.

Begin with `report_writer.write_report`. `analysis` reads and evaluates results, `drawings` has the figures, `web_page`
the page.
"""
