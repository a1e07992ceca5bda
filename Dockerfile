# The service, and the pooler of compose.yaml. docs/deploy.md says how they are used.
FROM node:24-trixie-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# The image has Node already: the packages that bring one for each platform are left out below.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN node bin/build.js \
  && npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund \
  # What a start compiles, because the root file system is read-only later.
  && NODE_COMPILE_CACHE=/app/.cache/node node dist/app/main.js check

FROM node:24-trixie-slim AS service
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/.cache ./.cache
COPY --from=build /app/dist ./dist
RUN install --directory --owner=node --group=node --mode=0700 /data
USER node
VOLUME /data
ENV NODE_ENV=production \
  NODE_COMPILE_CACHE=/app/.cache/node \
  HOST=0.0.0.0 \
  ADMIN_PORT=9464 \
  DATA_DIR=/data
EXPOSE 3000
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.ADMIN_PORT + '/readyz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "--max-semi-space-size=16", "dist/app/main.js"]
CMD ["serve"]

FROM debian:trixie-slim AS pooler
RUN apt-get update \
  && apt-get install -y --no-install-recommends pgbouncer postgresql-client \
  && rm -rf /var/lib/apt/lists/*
COPY deploy/pgbouncer.ini /etc/pgbouncer/pgbouncer.ini
COPY deploy/pooler.sh /usr/local/bin/pooler
USER postgres
EXPOSE 6432
HEALTHCHECK --interval=5s --timeout=3s CMD ["pg_isready", "--host=127.0.0.1", "--port=6432", "--quiet"]
ENTRYPOINT ["sh", "/usr/local/bin/pooler"]
