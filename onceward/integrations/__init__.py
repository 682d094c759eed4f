"""The services that Onceward works with, one folder each. Internal itself: import a service from its own package.

Nothing in the engine imports this package by name. A folder declares in its `integration.py` what it contributes
(`onceward.integration.Integration`).
"""
