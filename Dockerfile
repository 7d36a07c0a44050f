# One image per program: docker build --target
# sluice|ingest-worker|query-worker|llm-gateway|gpu-segmenter|source-worker|gpu-segmenter-cuda .
# Each has what it is made of in /usr/share/sluice/sbom.json (CycloneDX).

FROM node:22.12.0-bookworm-slim AS web
WORKDIR /src
COPY web web
COPY tools/web tools/web
RUN tools/web build

FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
COPY --from=web /src/web/dist web/dist
ARG VERSION=dev
RUN make build VERSION="$VERSION" && tools/sbom

# The ONNX Runtime library, out of the npm package that carries it.
FROM node:22.12.0-bookworm-slim AS onnxruntime
WORKDIR /onnxruntime
RUN npm install --ignore-scripts --no-save onnxruntime-node@1.30.0 \
	&& mkdir /lib-sluice \
	&& cp "node_modules/onnxruntime-node/bin/napi-v6/linux/$(node -p process.arch)/libonnxruntime.so.1" /lib-sluice/

FROM debian:12.11-slim AS base
RUN apt-get update \
	&& apt-get install -y --no-install-recommends ca-certificates libstdc++6 \
	&& rm -rf /var/lib/apt/lists/* \
	&& useradd --system --uid 10001 --create-home sluice
COPY deploy/healthcheck.sh /usr/local/bin/healthcheck
USER sluice
WORKDIR /home/sluice

FROM base AS sluice
COPY --from=build /src/bin/sluice /usr/local/bin/sluice
COPY --from=build /src/bin/sluice.cdx.json /usr/share/sluice/sbom.json
ARG VERSION=dev
LABEL org.opencontainers.image.title="sluice" \
	org.opencontainers.image.description="The API server of Sluice, and its command line" \
	org.opencontainers.image.version="$VERSION" \
	org.opencontainers.image.licenses="Apache-2.0"
EXPOSE 7700
ENTRYPOINT ["sluice"]
CMD ["serve"]

FROM base AS ingest-worker
# Scanned pages in other languages need the packages of those.
USER root
RUN apt-get update \
	&& apt-get install -y --no-install-recommends tesseract-ocr tesseract-ocr-eng tesseract-ocr-deu tesseract-ocr-osd \
	&& rm -rf /var/lib/apt/lists/*
USER sluice
COPY --from=build /src/bin/ingest-worker /usr/local/bin/ingest-worker
COPY --from=build /src/bin/ingest-worker.cdx.json /usr/share/sluice/sbom.json
ARG VERSION=dev
LABEL org.opencontainers.image.title="ingest-worker" \
	org.opencontainers.image.description="Parses documents, and keeps their index" \
	org.opencontainers.image.version="$VERSION" \
	org.opencontainers.image.licenses="Apache-2.0"
EXPOSE 8081
ENTRYPOINT ["ingest-worker"]

FROM base AS query-worker
COPY --from=build /src/bin/query-worker /usr/local/bin/query-worker
COPY --from=build /src/bin/query-worker.cdx.json /usr/share/sluice/sbom.json
ARG VERSION=dev
LABEL org.opencontainers.image.title="query-worker" \
	org.opencontainers.image.description="Searches, and answers questions" \
	org.opencontainers.image.version="$VERSION" \
	org.opencontainers.image.licenses="Apache-2.0"
EXPOSE 8081
ENTRYPOINT ["query-worker"]

FROM base AS llm-gateway
COPY --from=build /src/bin/llm-gateway /usr/local/bin/llm-gateway
COPY --from=build /src/bin/llm-gateway.cdx.json /usr/share/sluice/sbom.json
ARG VERSION=dev
LABEL org.opencontainers.image.title="llm-gateway" \
	org.opencontainers.image.description="Asks language models, within budgets" \
	org.opencontainers.image.version="$VERSION" \
	org.opencontainers.image.licenses="Apache-2.0"
EXPOSE 8081
ENTRYPOINT ["llm-gateway"]

FROM base AS gpu-segmenter
COPY --from=onnxruntime /lib-sluice /usr/lib/sluice
COPY models /usr/share/sluice/models
COPY --from=build /src/bin/gpu-segmenter /usr/local/bin/gpu-segmenter
COPY --from=build /src/bin/gpu-segmenter.cdx.json /usr/share/sluice/sbom.json
ARG VERSION=dev
LABEL org.opencontainers.image.title="gpu-segmenter" \
	org.opencontainers.image.description="Runs the models of Sluice on CPUs" \
	org.opencontainers.image.version="$VERSION" \
	org.opencontainers.image.licenses="Apache-2.0"
ENV SLUICE_ONNXRUNTIME_LIB=/usr/lib/sluice/libonnxruntime.so.1 ORT_DISABLE_TELEMETRY=1
EXPOSE 8081
ENTRYPOINT ["gpu-segmenter"]

# source-worker is built by itself: it takes minutes, and its libraries are no other program's. It
# stands here because Docker's classic builder runs every stage above the one that it is asked for.
FROM build AS build-source-worker
ARG VERSION=dev
RUN make source-worker VERSION="$VERSION" && tools/sbom

FROM base AS source-worker
COPY --from=build-source-worker /src/bin/source-worker /usr/local/bin/source-worker
COPY --from=build-source-worker /src/bin/source-worker.cdx.json /usr/share/sluice/sbom.json
ARG VERSION=dev
LABEL org.opencontainers.image.title="source-worker" \
	org.opencontainers.image.description="Keeps collections in step with file services, web sites, mailboxes and repositories" \
	org.opencontainers.image.version="$VERSION" \
	org.opencontainers.image.licenses="Apache-2.0"
EXPOSE 8081
ENTRYPOINT ["source-worker"]

# ONNX Runtime with the CUDA provider, which the package's own script fetches.
# It stands last for the same reason.
FROM node:22.12.0-bookworm-slim AS onnxruntime-cuda
WORKDIR /onnxruntime
RUN npm install --no-save --onnxruntime-node-install=cuda12 onnxruntime-node@1.30.0 \
	&& mkdir /lib-sluice \
	&& cp node_modules/onnxruntime-node/bin/napi-v6/linux/x64/libonnxruntime*.so* /lib-sluice/

FROM nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04 AS gpu-segmenter-cuda
RUN useradd --system --uid 10001 --create-home sluice
COPY deploy/healthcheck.sh /usr/local/bin/healthcheck
COPY --from=onnxruntime-cuda /lib-sluice /usr/lib/sluice
COPY models /usr/share/sluice/models
COPY --from=build /src/bin/gpu-segmenter /usr/local/bin/gpu-segmenter
COPY --from=build /src/bin/gpu-segmenter.cdx.json /usr/share/sluice/sbom.json
ARG VERSION=dev
LABEL org.opencontainers.image.title="gpu-segmenter-cuda" \
	org.opencontainers.image.description="Runs the models of Sluice on NVIDIA GPUs" \
	org.opencontainers.image.version="$VERSION" \
	org.opencontainers.image.licenses="Apache-2.0"
# The CUDA provider looks for its sibling beside itself.
ENV SLUICE_ONNXRUNTIME_LIB=/usr/lib/sluice/libonnxruntime.so.1 LD_LIBRARY_PATH=/usr/lib/sluice:/usr/local/cuda/lib64 \
	ORT_DISABLE_TELEMETRY=1
USER sluice
WORKDIR /home/sluice
EXPOSE 8081
ENTRYPOINT ["gpu-segmenter"]
