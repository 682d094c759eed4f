"""The version of this distribution, as installed or as it stands in a checkout."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("onceward")
except PackageNotFoundError:
    VERSION = "0+unknown"
