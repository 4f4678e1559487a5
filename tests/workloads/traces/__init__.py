"""TODO one sentence that says what is in this room."""
