"""Measurements next to what a user would do instead, taken in turns in one run on one machine."""
