"""`onceward doctor`: find what is wrong with an installation and say what to do.

Internal: `onceward doctor` runs it.
"""
