# The developer's whole interface: `make up` runs the cluster, `make test` tests it, `make check` holds the house rules.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
KAFKA_LIBS := .cache/kafka-libs

.PHONY: install up test check bench clean

install: $(INSTALLED) $(KAFKA_LIBS)/.fetched

up: $(INSTALLED)
	$(BIN)/ottla up $(UP_FLAGS)

# As root or with sudo on Debian it installs what the tests need first, and says what; it names what it cannot run.
test: $(INSTALLED)
	$(BIN)/python -m pytest --install-needs $(PYTEST_FLAGS)

check: $(INSTALLED)
	scripts/check

bench: install
	$(BIN)/python -m bench $(BENCH_FLAGS)

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[zookeeper,pipeline,test,check]'
	touch $@

# Apache Kafka's own tools and clients, from Maven Central: what the compat tests and the benchmarks compare with.
# Without Maven the cluster still runs; `make test` names the tests that need the jars and are not run.
$(KAFKA_LIBS)/.fetched: tests/kafka/pom.xml tests/kafka/old-clients.xml tests/kafka/old-consumer.xml
	mkdir -p $(KAFKA_LIBS)
	if command -v mvn >/dev/null; then \
	  mvn --quiet --batch-mode --file tests/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(KAFKA_LIBS) && \
	  mvn --quiet --batch-mode --file tests/kafka/old-clients.xml dependency:copy -DoutputDirectory=$(CURDIR)/$(KAFKA_LIBS)/old && \
	  mvn --quiet --batch-mode --file tests/kafka/old-consumer.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(KAFKA_LIBS)/old-consumer && \
	  touch $@; \
	else echo "Maven is not installed: Apache Kafka's jars for the compat tests were not fetched (apt install maven)" >&2; fi

clean:
	rm -rf .venv .cache build *.egg-info
