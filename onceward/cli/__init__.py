"""The frame of the command line: entry, rendering, exit codes. The commands belong to the features."""
