"""The command line. One file per noun; `nouns.py` lists them."""

from onceward.cli.entry import main

__all__ = ["main"]
