"""Use cases of what is planned: pipelines, their plans, and the modules that they are made of."""
