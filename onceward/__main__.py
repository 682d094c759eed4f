"""`python -m onceward` is `onceward`."""

from onceward.cli import main

if __name__ == "__main__":
    main()
