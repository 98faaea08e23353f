# Spark with Ottla's pipeline: the master, the workers, and where jobs are submitted from, all of one image.
#
#   docker build --file deploy/spark.Dockerfile --tag ottla-spark .
#
# BASE is any image with Python 3.11 or later and its venv module, JAVA_IMAGE any of its kind of Linux that has a Java 17
# runtime in /opt/java/openjdk, as Eclipse's have. Wheels in deploy/wheelhouse-spark are taken before PyPI's and jars there
# before Maven Central's; with PIP_NO_INDEX=1 no other wheels are: `deploy/local-images --spark` fills it where a build has
# no network.

ARG BASE=python:3.12-slim
ARG JAVA_IMAGE=eclipse-temurin:17-jre

FROM ${JAVA_IMAGE} AS java

FROM ${BASE} AS build
ARG PIP_NO_INDEX=0
WORKDIR /src
# The pattern matches nothing where there is no wheelhouse, which is the usual case.
COPY pyproject.toml README.md deploy/wheelhouse-spar[k] ./wheelhouse/
# What .dockerignore lets through: the sources of the wheel.
COPY . ./
RUN python3 -m venv /opt/ottla \
 && /opt/ottla/bin/pip wheel --quiet --no-cache-dir --disable-pip-version-check --find-links wheelhouse \
        --no-deps --wheel-dir dist . \
 && /opt/ottla/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --find-links wheelhouse \
        "$(echo dist/*.whl)[pipeline]" \
 && mkdir --parents jars && find wheelhouse -name '*.jar' -exec mv {} jars \;

FROM ${BASE}
RUN echo 'spark:x:10002:10002:Spark:/home/spark:/usr/sbin/nologin' >> /etc/passwd \
 && echo 'spark:x:10002:' >> /etc/group \
 && mkdir -p /data /home/spark/.ivy2.5.2 \
 && chown -R 10002:10002 /data /home/spark
COPY --from=java /opt/java /opt/java
COPY --from=build /opt/ottla /opt/ottla
COPY --from=build --chown=10002:10002 /src/jars /home/spark/.ivy2.5.2/jars
ENV JAVA_HOME=/opt/java/openjdk PATH=/opt/ottla/bin:/opt/java/openjdk/bin:$PATH \
    PYSPARK_PYTHON=/opt/ottla/bin/python PYTHONUNBUFFERED=1 \
    SPARK_DAEMON_MEMORY=256m
USER 10002:10002
# What is not there yet is fetched now, so that no job needs a network: the connector, Delta Lake's jars and Avro's.
RUN HOME=/home/spark /opt/ottla/bin/python -m ottla.pipeline.fetch_jars
WORKDIR /data
# Tables, checkpoints and results, which driver and workers share.
VOLUME /data
CMD ["ottla", "pipeline", "--help"]
