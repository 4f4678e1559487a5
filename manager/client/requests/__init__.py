"""Requests of the service: a module for each kind of resource, a pure function for each REST route."""
