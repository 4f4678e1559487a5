"""Pipelines, planned from modules; and the modules and wheels that tenants publish."""
