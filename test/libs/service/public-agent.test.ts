import assert from "node:assert/strict";
import { test } from "node:test";
import { getGlobalDispatcher, setGlobalDispatcher } from "undici";
import { boundFetch, Unreachable } from "#service/public-agent.ts";
import { jsonAnswer, startScriptedUpstream } from "../../support/upstream.ts";

test("the built-in fetch reaches no metadata server, also by a redirect, and waits for a bounded time", async () => {
  const before = getGlobalDispatcher();
  await using server = await startScriptedUpstream((response, { path }) => {
    if (path === "/slow") return;
    const to = new URL(path, "http://host").searchParams.get("to");
    return to === null ? jsonAnswer({})(response) : response.writeHead(302, { location: to }).end();
  });
  boundFetch(200);
  try {
    assert.equal((await fetch(server.origin)).status, 200);
    for (const host of ["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "0xa9fea9fe"])
      for (const url of [`http://${host}/`, `${server.origin}/?to=http://${host}/`])
        await assert.rejects(fetch(url), ({ cause }: Error) => cause instanceof Unreachable, url);
    await assert.rejects(fetch(`${server.origin}/slow`), ({ cause }: Error) => /Timeout/.test(String(cause)));
  } finally {
    setGlobalDispatcher(before);
  }
});
