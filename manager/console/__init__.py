"""The console: a page for browsers that asks REST and shows what it answers; `manager.rest.console_files` serves it.

It is modules of JavaScript as they stand, without a library and without a build.
"""
