"""Peers in the same chaos."""
