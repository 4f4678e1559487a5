"""Forms: modules and pipelines as they are written in JSON."""
