"""The commands `payments` and `payments accounts`."""
