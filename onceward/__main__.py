"""`python -m onceward` and the `onceward` script."""

from onceward.cli.entry import run_command_line
from onceward.runtime import FEATURES


def main() -> None:
    run_command_line(FEATURES)


if __name__ == "__main__":
    main()
