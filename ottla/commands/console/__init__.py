"""``ottla console-producer`` and ``ottla console-consumer``: lines in and out of topics."""
