"""Benchmarks: each case and its baseline, measured in turns in one run on one machine."""
