#!/usr/bin/env bash
# Kafka's kafka-producer-perf-test.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/producer-perf-test" "$@"
