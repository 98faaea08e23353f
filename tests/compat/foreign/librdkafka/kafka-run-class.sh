#!/usr/bin/env bash
# Run a Java class with the libraries beside this script.
exec java -cp "${CLASSPATH:-.}:$(dirname "$0")/../libs/*" "$@"
