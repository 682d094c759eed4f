"""Senders without signatures."""
