"""The application that is submitted to have its jars resolved."""
