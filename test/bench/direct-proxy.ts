/**
 * The reference: the cheapest realistic proxy, Fastify and undici in one process, without a queue
 * and without reading the content. `UPSTREAM_URL` is its upstream.
 */
import { fastify } from "fastify";
import { Pool } from "undici";

const bodyBytesMax = 64 << 20;
const connectionsMax = 20_000;
/** Hop-by-hop headers (RFC 9110, 7.6.1), and those that the pool sets itself. */
const hopHeaders = new Set(["connection", "keep-alive", "transfer-encoding", "upgrade", "host", "expect"]);

const pool = new Pool(process.env.UPSTREAM_URL as string, {
  connections: connectionsMax,
  pipelining: 1,
  headersTimeout: 0,
  bodyTimeout: 0,
});
const server = fastify({ bodyLimit: bodyBytesMax, keepAliveTimeout: 120_000 });
server.removeAllContentTypeParsers();
server.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));

server.post("/v1/*", (request, reply) => {
  const { raw } = reply;
  const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !hopHeaders.has(name)));
  reply.hijack();
  let controller: Parameters<NonNullable<Parameters<Pool["dispatch"]>[1]["onResponseStart"]>>[0] | undefined;
  raw.on("drain", () => controller?.resume());
  raw.on("close", () => {
    if (!raw.writableFinished) controller?.abort(new Error("the caller left"));
  });
  pool.dispatch(
    { method: "POST", path: request.url, headers, body: request.body as Buffer },
    {
      onRequestStart(started) {
        controller = started;
        if (raw.destroyed) started.abort(new Error("the caller left"));
      },
      onResponseStart(started, status, answered) {
        controller = started;
        raw.writeHead(
          status,
          Object.fromEntries(Object.entries(answered).filter(([name]) => !hopHeaders.has(name))) as Record<
            string,
            string
          >,
        );
      },
      onResponseData(started, chunk) {
        if (!raw.write(chunk)) started.pause();
      },
      onResponseEnd() {
        raw.end();
      },
      onResponseError() {
        if (!raw.headersSent) raw.writeHead(502).end();
        else raw.destroy();
      },
    },
  );
});

const url = await server.listen({ host: "127.0.0.1", port: 0, backlog: 4_096 });
process.send?.({ type: "listening", urls: { api: url } });
process.on("SIGTERM", () => process.exit(0));
process.on("disconnect", () => process.exit(0));
