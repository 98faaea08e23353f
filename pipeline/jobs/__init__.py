"""The jobs: each has a configuration, a check before it starts, a run function, and a main program for spark-submit."""
