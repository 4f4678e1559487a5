"""The database of the service: its tables, migrations and outages, the lead among managers, and dead letters."""
