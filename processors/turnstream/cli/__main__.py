"""``python -m turnstream.cli``: the same as the ``turnstream`` command."""

from turnstream.cli import main

if __name__ == "__main__":
    main()
