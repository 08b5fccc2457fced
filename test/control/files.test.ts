/** Files through a real gateway, with OpenAI's official client. */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import OpenAI, { toFile } from "openai";
import { startFilesGateway } from "../support/files.ts";
import { until } from "../support/time.ts";

const mebibyte = 1 << 20;
const service = await startFilesGateway({
  control: {
    FILE_BYTES_MAX: String(12 * mebibyte),
    ACCOUNT_FILE_BYTES_MAX: String(40 * mebibyte),
    ACCOUNT_FILES_MAX: "8",
  },
});
after(() => service[Symbol.asyncDispose]());
const { gateway } = service;

let accounts = 0;
const newKey = () => service.addAccount(`files-${++accounts}`);
const clientOf = (key: string) => gateway.client({ key });
const newClient = async () => clientOf(await newKey());
const textOf = async (client: OpenAI, id: string) => (await client.files.content(id)).text();
const refusal = (status: number, message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof OpenAI.APIError);
  assert.equal(error.status, status);
  assert.match(error.message, message);
  return true;
};

test("a file is uploaded, listed, read and deleted", async () => {
  const client = await newClient();
  const before = Math.floor(Date.now() / 1_000);
  const file = await client.files.create({
    file: await toFile(Buffer.from('{"custom_id":"a"}\n'), "größe ✓.jsonl"),
    purpose: "batch",
    expires_after: { anchor: "created_at", seconds: 3_600 },
  });
  assert.match(file.id, /^file-[0-9a-z]{24}$/);
  assert.ok(file.created_at >= before);
  const { created_at } = file;
  assert.deepEqual(file, {
    id: file.id,
    object: "file",
    bytes: 18,
    created_at,
    expires_at: created_at + 3_600,
    filename: "größe ✓.jsonl",
    purpose: "batch",
    status: "processed",
  });
  assert.deepEqual(await client.files.retrieve(file.id), file);
  assert.deepEqual((await client.files.list()).data, [file]);
  const content = await client.files.content(file.id);
  assert.equal(await content.text(), '{"custom_id":"a"}\n');
  assert.equal(content.headers.get("content-type"), "application/octet-stream");
  assert.equal((await client.files.waitForProcessing(file.id)).status, "processed");
  assert.deepEqual(await client.files.delete(file.id), { id: file.id, object: "file", deleted: true });
  await assert.rejects(client.files.retrieve(file.id), refusal(404, /No such File object: file-/));
  await assert.rejects(client.files.delete(file.id), refusal(404, /No such File object/));
  await assert.rejects(client.files.content(file.id), refusal(404, /No such File object/));
  assert.deepEqual((await client.files.list()).data, []);
});

test("files of every size around the chunks of the store come back unchanged, sealed meanwhile", async () => {
  const client = await newClient();
  const chunk = 1 << 16;
  for (const size of [0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk, 3 * mebibyte + 17]) {
    const bytes = randomBytes(size);
    const present = new Set(await service.objects());
    const file = await client.files.create({ file: await toFile(bytes, "x"), purpose: "user_data" });
    assert.equal(file.bytes, size);
    const read = Buffer.from(await (await client.files.content(file.id)).arrayBuffer());
    assert.ok(read.equals(bytes), `${size} bytes`);
    const [name] = (await service.objects()).filter((each) => !present.has(each));
    assert.ok(name !== undefined);
    const sealed = await readFile(join(service.directory, name.slice(0, 2), name));
    assert.ok(sealed.length > size);
    assert.ok(size < 16 || !sealed.includes(bytes.subarray(0, 16)));
    await client.files.delete(file.id);
    assert.ok(!(await service.objects()).includes(name));
  }
});

test("a stream without a length is stored as it arrives", async () => {
  const client = await newClient();
  const digest = createHash("sha256");
  const source = Readable.from(
    (function* () {
      for (let count = 0; count < 100; count++) {
        const bytes = randomBytes(100_003);
        digest.update(bytes);
        yield bytes;
      }
    })(),
  );
  const file = await client.files.create({
    file: Object.assign(source, { path: "rec.log" }) as never,
    purpose: "evals",
  });
  assert.equal(file.bytes, 10_000_300);
  assert.equal(file.filename, "rec.log");
  const read = createHash("sha256");
  for await (const bytes of (await client.files.content(file.id)).body as never as AsyncIterable<Uint8Array>)
    read.update(bytes);
  assert.equal(read.digest("hex"), digest.digest("hex"));
});

test("lists have pages, an order and a filter", async () => {
  const client = await newClient();
  const ids: string[] = [];
  for (let count = 0; count < 5; count++) {
    const purpose = count % 2 === 0 ? "batch" : "user_data";
    ids.push((await client.files.create({ file: await toFile(Buffer.from("x"), "x"), purpose })).id);
  }
  const listed = async (query: OpenAI.FileListParams) => {
    const all: string[] = [];
    for await (const { id } of client.files.list(query)) all.push(id);
    return all;
  };
  assert.deepEqual(await listed({}), ids.toReversed());
  assert.deepEqual(await listed({ order: "asc", limit: 2 }), ids);
  assert.deepEqual(await listed({ limit: 1 }), ids.toReversed());
  assert.deepEqual(await listed({ purpose: "user_data" }), [ids[3], ids[1]]);
  const page = await client.files.list({ order: "asc", limit: 2, after: ids[1] as string });
  assert.deepEqual(
    page.data.map(({ id }) => id),
    [ids[2], ids[3]],
  );
  assert.equal(page.has_more, true);
  for (const query of [{ limit: 0 }, { limit: 10_001 }, { order: "up" as never }])
    await assert.rejects(client.files.list(query), refusal(400, /must be/));
  await assert.rejects(client.files.list({ after: "file-none" }), refusal(404, /No such File object/));
});

test("a file of another account does not exist", async () => {
  const [own, other] = [await newClient(), await newClient()];
  const { id } = await own.files.create({ file: await toFile(Buffer.from("mine"), "x"), purpose: "user_data" });
  await assert.rejects(other.files.retrieve(id), refusal(404, /No such File object/));
  await assert.rejects(other.files.content(id), refusal(404, /No such File object/));
  await assert.rejects(other.files.delete(id), refusal(404, /No such File object/));
  await assert.rejects(other.files.list({ after: id }), refusal(404, /No such File object/));
  assert.deepEqual((await other.files.list()).data, []);
  assert.equal(await textOf(own, id), "mine");
});

test("another key of the account has its files", async () => {
  const key = await newKey();
  const { id } = await clientOf(key).files.create({ file: await toFile(Buffer.from("x"), "x"), purpose: "user_data" });
  const response = await service.control.call("POST", "/keys", {
    account: `files-${accounts}`,
    name: "second",
    group: "default",
  });
  const second = (await response.json()) as { key: string };
  assert.equal(await textOf(clientOf(second.key), id), "x");
});

test("a faulty upload is refused, and nothing is left of it", async () => {
  const key = await newKey();
  const present = await service.objects();
  const post = async (body: FormData | string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${gateway.url}/v1/files`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, ...headers },
      body,
    });
    return { status: response.status, body: (await response.json()) as { error: Record<string, unknown> } };
  };
  const formOf = (fields: Record<string, string | Blob>) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.set(name, value);
    return form;
  };
  const file = new Blob(["x"]);
  const twice = (name: string, value: string | Blob) => {
    const form = formOf({ purpose: "batch", file });
    form.append(name, value as Blob);
    return form;
  };
  const multipart = { "content-type": "multipart/form-data; boundary=b" };
  const cases: [body: FormData | string, status: number, param: string | null, headers?: Record<string, string>][] = [
    [formOf({ purpose: "batch" }), 400, "file"],
    [formOf({ file }), 400, "purpose"],
    [formOf({ file, purpose: "batch_output" }), 400, "purpose"],
    [
      formOf({ purpose: "batch", file, "expires_after[anchor]": "now", "expires_after[seconds]": "3600" }),
      400,
      "expires_after",
    ],
    [formOf({ purpose: "batch", file, "expires_after[anchor]": "created_at" }), 400, "expires_after"],
    [
      formOf({ purpose: "batch", file, "expires_after[anchor]": "created_at", "expires_after[seconds]": "3599" }),
      400,
      "expires_after",
    ],
    [formOf({ purpose: "x".repeat(10_000), file }), 400, null],
    [twice("purpose", "user_data"), 400, null],
    [twice("file", file), 400, null],
    [formOf({ purpose: "batch", file: new Blob([randomBytes(13 * mebibyte)]) }), 413, null],
    ["{}", 400, null, { "content-type": "application/json" }],
    ["x", 400, null, { "content-type": "multipart/form-data" }],
    ["", 400, null, multipart],
    ['--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nabc', 400, null, multipart],
    ["x", 415, null, { ...multipart, "content-encoding": "gzip" }],
  ];
  for (const [body, status, param, headers] of cases) {
    const answer = await post(body, headers);
    assert.equal(answer.status, status, JSON.stringify(answer.body));
    assert.equal(answer.body.error.type, "invalid_request_error");
    assert.equal(answer.body.error.param, param, JSON.stringify(answer.body));
  }
  assert.deepEqual(await service.objects(), present);
  assert.deepEqual((await clientOf(key).files.list()).data, []);
});

test("a file that is too large is refused while it arrives", async () => {
  const key = await newKey();
  const [head, bytes] = [
    '--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n',
    randomBytes(1 << 16),
  ];
  const endless = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(Buffer.from(head)),
    pull: (controller) => controller.enqueue(bytes),
  });
  const { hostname, port } = new URL(gateway.url);
  const request = httpRequest({
    ...{ hostname, port, path: "/v1/files", method: "POST" },
    headers: { authorization: `Bearer ${key}`, "content-type": "multipart/form-data; boundary=b" },
  });
  const sending = Readable.fromWeb(endless as never).pipe(request.on("error", () => {}));
  const [response] = (await once(request, "response")) as [IncomingMessage];
  assert.equal(response.statusCode, 413);
  sending.destroy();
  await until("nothing is left", async () => (await clientOf(key).files.list()).data.length === 0);
});

test("a file may take longer than another request", async () => {
  const { urls } = await gateway.addIngress({ REQUEST_TIMEOUT_MS: "1000" });
  const key = await newKey();
  const { hostname, port } = new URL(urls.api as string);
  const send = async (path: string, type: string, chunks: string[]) => {
    const request = httpRequest({
      ...{ hostname, port, path, method: "POST" },
      headers: { authorization: `Bearer ${key}`, "content-type": type },
    });
    request.on("error", () => {});
    const answer = once(request, "response") as Promise<[IncomingMessage]>;
    for (const chunk of chunks) {
      request.write(chunk);
      await Promise.race([answer, delay(800)]);
    }
    request.end();
    const [response] = await answer;
    response.resume();
    return response.statusCode;
  };
  const field = (name: string, value: string) => `--b\r\nContent-Disposition: form-data; ${name}\r\n\r\n${value}\r\n`;
  const form = [field('name="file"; filename="x"', "abc"), field('name="purpose"', "user_data"), "--b--", "\r\n"];
  const [file, chat] = await Promise.all([
    send("/v1/files", "multipart/form-data; boundary=b", form),
    send("/v1/chat/completions", "application/json", ['{"model":', '"x",', '"messages":', "[]", "}"]),
  ]);
  assert.deepEqual([file, chat], [200, 408]);
});

test("an account stores so many bytes and files, and no more", async () => {
  const client = await newClient();
  const upload = async (bytes: number) =>
    client.files.create({ file: await toFile(Buffer.alloc(bytes), "x"), purpose: "user_data" });
  const first = await upload(11 * mebibyte);
  await upload(11 * mebibyte);
  await upload(11 * mebibyte);
  await assert.rejects(upload(11 * mebibyte), refusal(400, /may have 41943040 bytes of files/));
  await client.files.delete(first.id);
  await upload(11 * mebibyte);
  for (let count = 3; count < 8; count++) await upload(1);
  await assert.rejects(upload(1), refusal(400, /has 8 files/));
});

test("an upload that its caller breaks off leaves nothing", async () => {
  const key = await newKey();
  const present = await service.objects();
  const { promise: isRead, resolve } = Promise.withResolvers<void>();
  const leaving = new AbortController();
  const source = new ReadableStream<Uint8Array>({
    async pull(controller) {
      controller.enqueue(Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'));
      controller.enqueue(randomBytes(1 << 18));
      resolve();
      await new Promise((settle) => leaving.signal.addEventListener("abort", settle));
    },
  });
  const sent = fetch(`${gateway.url}/v1/files`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "multipart/form-data; boundary=b" },
    body: source,
    duplex: "half",
    signal: leaving.signal,
  } as RequestInit);
  await isRead;
  await until("a part of the file is stored", async () => (await service.objects()).length > present.length);
  leaving.abort();
  await assert.rejects(sent);
  await until("it is removed", async () => (await service.objects()).length === present.length);
});

test("a file arrives in parts, in the order of its completion", async () => {
  const client = await newClient();
  const bytes = randomBytes(3 * 70_001);
  const upload = await client.uploads.create({
    bytes: bytes.length,
    filename: "large.jsonl",
    mime_type: "application/jsonl",
    purpose: "batch",
    expires_after: { anchor: "created_at", seconds: 3_600 },
  });
  assert.match(upload.id, /^upload_[0-9a-z]{24}$/);
  assert.equal(upload.status, "pending");
  assert.equal(upload.expires_at, upload.created_at + 3_600);
  const parts: string[] = [];
  for (const place of [2, 0, 1]) {
    const data = await toFile(bytes.subarray(place * 70_001, (place + 1) * 70_001), "p");
    const part = await client.uploads.parts.create(upload.id, { data });
    assert.equal(part.upload_id, upload.id);
    parts[place] = part.id;
  }
  await client.uploads.parts.create(upload.id, { data: await toFile(Buffer.from("left out"), "p") });
  const md5 = createHash("md5").update(bytes).digest("hex");
  const completed = await client.uploads.complete(upload.id, { part_ids: parts, md5 });
  assert.equal(completed.status, "completed");
  const { file } = completed;
  assert.ok(file);
  assert.equal(file.bytes, bytes.length);
  assert.equal(file.filename, "large.jsonl");
  assert.equal(file.expires_at, file.created_at + 3_600);
  assert.deepEqual((await client.files.list()).data, [file]);
  assert.ok(Buffer.from(await (await client.files.content(file.id)).arrayBuffer()).equals(bytes));
  assert.equal((await service.objects()).length >= 3, true);
  await assert.rejects(client.uploads.cancel(upload.id), refusal(404, /it is over/));
  const present = (await service.objects()).length;
  await client.files.delete(file.id);
  assert.equal((await service.objects()).length, present - 3);
});

test("a faulty upload in parts is refused", async () => {
  const client = await newClient();
  const other = await newClient();
  const create = (more: object = {}) =>
    client.uploads.create({ bytes: 3, filename: "x", mime_type: "text/plain", purpose: "user_data", ...more });
  const cases: [more: object, status: number, message: RegExp][] = [
    [{ bytes: -1 }, 400, /'bytes'/],
    [{ bytes: 1.5 }, 400, /'bytes'/],
    [{ bytes: 9 * 2 ** 30 }, 413, /larger than/],
    [{ bytes: 2 ** 30 }, 400, /may have 41943040 bytes/],
    [{ filename: "" }, 400, /'filename'/],
    [{ mime_type: 5 }, 400, /'mime_type'/],
    [{ purpose: "batch_output" }, 400, /'purpose'/],
    [{ expires_after: { anchor: "now", seconds: 3_600 } }, 400, /anchor/],
    [{ expires_after: { anchor: "created_at", seconds: 3 } }, 400, /seconds/],
  ];
  for (const [more, status, message] of cases) await assert.rejects(create(more), refusal(status, message));
  const upload = await create();
  const add = async (from: OpenAI, text: string) =>
    from.uploads.parts.create(upload.id, { data: await toFile(Buffer.from(text), "p") });
  await assert.rejects(add(other, "abc"), refusal(404, /No such Upload/));
  const { id } = await add(client, "abc");
  const complete = (part_ids: string[], md5?: string) =>
    client.uploads.complete(upload.id, { part_ids, ...(md5 && { md5 }) });
  await assert.rejects(complete([id, id]), refusal(400, /each once/));
  await assert.rejects(complete(["part_none"]), refusal(400, /each once/));
  await assert.rejects(complete([]), refusal(400, /0 bytes; the upload announced 3/));
  await assert.rejects(complete([id], "0".repeat(32)), refusal(400, /MD5/));
  await assert.rejects(other.uploads.complete(upload.id, { part_ids: [id] }), refusal(404, /No such Upload/));
  await assert.rejects(other.uploads.cancel(upload.id), refusal(404, /No such Upload/));
  assert.equal((await client.uploads.cancel(upload.id)).status, "cancelled");
  await assert.rejects(complete([id]), refusal(404, /No such Upload/));
  assert.deepEqual((await client.files.list()).data, []);
});
