"""A cluster that fails on purpose: Patroni, Onceward nodes, a proxy between them, load, faults, and a checker."""
