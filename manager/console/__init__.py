"""The console: a page for browsers that shows the answers of REST; `manager.rest.app` serves it.

It is plain JavaScript modules without a build step. The one library is CodeMirror, for the document in the composer;
`make console` bundles it into `vendor/`, in the versions of a lock.
"""
