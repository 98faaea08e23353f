"""``python -m ottla``: the `ottla` command."""

from ottla.start import run

if __name__ == "__main__":
    run()
