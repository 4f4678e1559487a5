"""What `make release` makes: distributions that are whole and work where nothing else of the repository is."""
