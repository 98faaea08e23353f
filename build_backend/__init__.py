"""The build of the distribution: the repository's packages become one package, `ottla`. Not installed."""
