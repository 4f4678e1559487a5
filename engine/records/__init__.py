"""The files of a job: its folder, the records of its batches, and the states made from them."""
