"""What writes to and reads from the world outside: tables, files, blobs, topics.

Each behaviour opens what it needs for one call and closes it again, so that nothing is held between batches.
"""
