"""Jobs: which plans they get and when, what runs in them, and where."""
