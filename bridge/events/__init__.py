"""Events as JSON, as Arrow columns, and in the messages that callers send and tenants receive."""
