#!/usr/bin/env bash
# Kafka's kafka-consumer-perf-test.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/consumer-perf-test" "$@"
