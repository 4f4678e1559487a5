"""The console: a page for browsers that shows the answers of REST; `manager.rest.console_files` serves it.

It is plain JavaScript modules, without libraries and without a build step.
"""
