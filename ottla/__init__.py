"""What users import and run: the clients, the command line, the testing fixtures."""
