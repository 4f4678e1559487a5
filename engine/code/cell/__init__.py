"""What runs in the processes of published code: calls of its functions, and the walls around them.

The modules here import the standard library and msgspec, and for batches Arrow, so that a process is small and starts
fast. The worker imports the calls too, for code that an operator vouches for.
"""
