"""What callers send to REST, and the answers that they get; REST, the clients and the command line share it."""
