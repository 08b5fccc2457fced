/** A collector of traces that takes everything and keeps nothing, in a process of its own. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const server = createServer((request, response) => {
  request.resume().on("end", () => response.writeHead(200).end());
});
server.listen(0, "127.0.0.1", () => {
  process.send?.({ type: "listening", urls: { api: `http://127.0.0.1:${(server.address() as AddressInfo).port}` } });
});
process.on("SIGTERM", () => process.exit(0));
process.on("disconnect", () => process.exit(0));
