"""The fault of a program: what cannot be built, at which step, and what to do about it."""


class BuildError(ValueError):
    """A step of a program that cannot be built. Names the step and the remedy."""

    def __init__(self, step: str, message: str, remedy: str) -> None:
        super().__init__(f"{step}: {message}; {remedy}")
        self.step = step
        self.message = message
        self.remedy = remedy
