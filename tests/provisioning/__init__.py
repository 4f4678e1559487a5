"""What alternates and machines are worth, the algorithms that choose them, and the simulator they are tried on."""
