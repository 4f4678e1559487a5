"""The console: a page for browsers that shows the answers of REST; `manager.rest.app` serves it.

It is plain JavaScript modules without a build step. Of libraries it has CodeMirror, for the document in the composer,
and uPlot, for charts; `make console` bundles them into `vendor/`, in the versions of a lock.
"""
