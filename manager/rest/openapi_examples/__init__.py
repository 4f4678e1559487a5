"""Examples of requests, answers and problems for the OpenAPI description."""
