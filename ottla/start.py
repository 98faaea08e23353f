"""Where the ``ottla`` command begins; importing this module changes what Ctrl-C does, so nothing else imports it.

Importing the rest takes a third of a second. An interrupt during that ends the process at once, as it ends any other
program, and not with a traceback through the import machinery. So does one while Python shuts down.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)


def run() -> None:
    """Run the command line, and exit with its status."""
    from ottla.commands.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main(prog_name="ottla")
    finally:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
