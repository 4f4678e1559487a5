"""Tenants: keys and sessions, quotas, secrets, and what each may do on the broker."""
