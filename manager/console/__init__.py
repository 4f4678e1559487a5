"""The console: a page for browsers that shows the answers of REST; `manager.rest.app` serves it.

It is plain JavaScript modules, without libraries and without a build step.
"""
