"""Dynamic documents: their form, their checks, and the plain documents that they resolve to."""
