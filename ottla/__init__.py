"""What people import and type: the trio clients, the command line, the testing fixtures."""
