"""The routes of REST, a router for each family of use cases."""
