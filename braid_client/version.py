"""The version of the client, which is that of the release that it comes with."""

CLIENT_VERSION = "0.1.0"
"""As `client/pyproject.toml` has it; looking it up among what is installed takes longer than most requests."""
