"""Guards: conditions over metrics, the clock and domain events, evaluated look by look; and their faults."""
