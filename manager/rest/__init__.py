"""REST over HTTP: problems, dependencies of routes, streams, the OpenAPI description, and the app."""
