"""``python -m ottla``: the `ottla` command."""

from ottla.commands.main import main

if __name__ == "__main__":
    main(prog_name="ottla")
