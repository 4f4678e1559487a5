"""The database of the service: its tables, how they change from version to version, and who may write when."""
