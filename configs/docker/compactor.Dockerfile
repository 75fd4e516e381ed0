# The compactor in a container:
#   docker build -f configs/docker/compactor.Dockerfile -t blockstore-compactor .
#   docker run -e AWS_ACCESS_KEY_ID -e AWS_SECRET_ACCESS_KEY -p 8081:8081 --stop-timeout 60 blockstore-compactor s3://bucket/lake --wait
FROM python:3.11-slim

WORKDIR /src
COPY pyproject.toml README.md CHANGELOG.md LICENSE pyspark_blockstore.py ./
COPY blockstore blockstore
COPY compactor compactor
COPY reader reader
COPY spark spark
RUN python -m venv /opt/blockstore
RUN /opt/blockstore/bin/pip install --no-cache-dir ".[s3,compactor]"
RUN useradd --system --create-home --home-dir /var/lib/blockstore blockstore
RUN mkdir -p /var/lib/blockstore/work /var/lib/blockstore/cache && chown -R blockstore /var/lib/blockstore

COPY configs/compactor.toml /etc/blockstore/compactor.toml
ENV PATH=/opt/blockstore/bin:$PATH \
    BLOCKSTORE_HTTP_LISTEN=0.0.0.0:8081 \
    BLOCKSTORE_COMPACTOR_WORK_DIR=/var/lib/blockstore/work \
    BLOCKSTORE_LOOPS_CACHE=/var/lib/blockstore/cache
USER blockstore
VOLUME /var/lib/blockstore
EXPOSE 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=60s CMD ["/opt/blockstore/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8081/-/healthy', timeout=5)"]
ENTRYPOINT ["blockstore", "compact", "--config", "/etc/blockstore/compactor.toml"]
CMD ["--help"]
