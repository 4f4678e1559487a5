"""The report on what sharing saves: one page with the paper's figures and tables.

Begin with `web_page.write_report`. `runs` reads results, `summary` and `findings` evaluate them, `drawings` has the
figures, `web_page` the page.
"""
