import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { getGlobalDispatcher, setGlobalDispatcher } from "undici";
import { boundFetch, isPublicHost, networksOf, Unreachable } from "#service/public-agent.ts";
import { jsonAnswer, startScriptedUpstream, type UpstreamAnswer } from "../../support/upstream.ts";

test("the built-in fetch reaches no metadata server, also by a redirect, and waits for a bounded time", async () => {
  const before = getGlobalDispatcher();
  await using server = await startScriptedUpstream((response, { path }) => {
    if (path === "/slow") return;
    const to = new URL(path, "http://host").searchParams.get("to");
    return to === null ? jsonAnswer({})(response) : response.writeHead(302, { location: to }).end();
  });
  boundFetch({ timeout: 200, bytesMax: 1_000 });
  try {
    assert.equal((await fetch(server.origin)).status, 200);
    for (const host of ["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "0xa9fea9fe"])
      for (const url of [`http://${host}/`, `${server.origin}/?to=http://${host}/`])
        await assert.rejects(fetch(url), ({ cause }: Error) => cause instanceof Unreachable, url);
    await assert.rejects(fetch(`${server.origin}/slow`), ({ cause }: Error) => /too slow/.test(String(cause)));
  } finally {
    setGlobalDispatcher(before);
  }
});

test("a name of this machine's own is public only where its loopback addresses are allowed", () => {
  for (const host of ["localhost", "a.localhost", "localhost."]) {
    assert.equal(isPublicHost(host, []), false, host);
    assert.equal(isPublicHost(host, networksOf("127.0.0.0/8")), true, host);
    assert.equal(isPublicHost(host, networksOf("::1/128")), true, host);
  }
  for (const host of ["localhost.example.com", "mylocalhost"]) assert.equal(isPublicHost(host, []), true, host);
});

test("the built-in fetch breaks off answers that are too large, too slow or encoded", async () => {
  const before = getGlobalDispatcher();
  const chunk = Buffer.alloc(100, " ");
  const answers: Record<string, [answer: UpstreamAnswer, reason: RegExp]> = {
    "/announced": [
      (response) => response.writeHead(200, { "content-length": 1_001 }).write(Buffer.alloc(1_001)),
      /bytes/,
    ],
    "/endless": [
      (response) => {
        const more = () => {
          while (!response.destroyed && response.write(chunk));
        };
        response.on("drain", more);
        more();
      },
      /more than 1000 bytes/,
    ],
    "/dripping": [
      (response) => {
        const timer = setInterval(() => response.write(" "), 20);
        response.once("close", () => clearInterval(timer));
      },
      /too slow/,
    ],
    "/silent": [(response) => response.writeHead(200).write("{"), /too slow/],
    "/headless": [() => undefined, /too slow/],
    "/bomb": [
      (response) => response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(Buffer.alloc(100_000))),
      /encoded/,
    ],
    "/failing": [(response) => response.writeHead(500).end(Buffer.alloc(1_001)), /bytes/],
  };
  await using server = await startScriptedUpstream((response, request) => {
    const [answer] = answers[request.path] ?? [jsonAnswer({ text: "x".repeat(900) })];
    return answer(response, request);
  });
  boundFetch({ timeout: 500, bytesMax: 1_000 });
  try {
    assert.equal((await (await fetch(`${server.origin}/small`)).text()).length, 911);
    assert.equal(server.last().headers["accept-encoding"], "identity");
    for (const [path, [, reason]] of Object.entries(answers))
      await assert.rejects(
        fetch(server.origin + path).then((response) => response.arrayBuffer()),
        (error: Error) => reason.test(`${error} ${error.cause}`),
        path,
      );
    assert.equal((await (await fetch(`${server.origin}/small`)).text()).length, 911);
  } finally {
    setGlobalDispatcher(before);
  }
});
