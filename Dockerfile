# Tidemill with Java, Delta's jars and the start-up archive; needs no network when it runs.
#   docker build -t tidemill .
#   docker run --rm --entrypoint python tidemill /opt/tidemill/examples/demo.py     the demo
#   docker run --rm -v "$PWD:/project" tidemill run                                 the project in the current folder
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

ENV TIDEMILL_HOME=/opt/tidemill/home
WORKDIR /opt/tidemill
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir . && tidemill setup && chmod -R a+rwX "$TIDEMILL_HOME"
COPY examples examples

WORKDIR /project
ENTRYPOINT ["tidemill"]
CMD ["--help"]
