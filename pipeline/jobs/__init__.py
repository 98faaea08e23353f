"""The jobs: each a configuration, a check before it starts, what it runs, and a main program for spark-submit."""
