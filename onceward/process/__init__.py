"""One process of Onceward, with all roles or with some of them.

Internal: `onceward up` runs it.
"""
