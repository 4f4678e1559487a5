"""The use cases of the service, a module for each family; `manager/service.py` puts them together."""
