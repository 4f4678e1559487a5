"""Tests of tenants, keys, quotas, secrets and the broker's access lists."""
