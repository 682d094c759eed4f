"""Upgrade a running installation from one version to the next under load, and check that nothing is lost or done twice."""
