"""Sources: registered, shown, opened to others and revoked; and the events that callers send to them."""
