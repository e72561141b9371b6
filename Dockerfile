# syntax=docker/dockerfile:1

FROM python:3.11-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/turnstream
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY schemas schemas
COPY topics topics
COPY processors processors
RUN /opt/turnstream/bin/pip install -c constraints.txt '.[rocksdb,mcp,a2a]' \
    && /opt/turnstream/bin/pip uninstall --yes pip setuptools

FROM python:3.11-slim
LABEL org.opencontainers.image.title="turnstream" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/turnstream/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /opt/turnstream /opt/turnstream
# A number, not a name: Kubernetes' runAsNonRoot cannot check a name.
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["turnstream"]
CMD ["--help"]
