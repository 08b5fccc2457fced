/** Files through a real gateway, with the official clients of Anthropic and Google. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import Anthropic, { toFile } from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import { startFilesGateway } from "../support/files.ts";
import { until } from "../support/time.ts";

const service = await startFilesGateway();
const directory = await mkdtemp(join(tmpdir(), "sluice-vendors-"));
after(async () => {
  await service[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});
const { url } = service.gateway;
const keys = { own: await service.addAccount("vendors"), other: await service.addAccount("others") };

const anthropicOf = (key: string) => new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const googleOf = (apiKey: string) => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } });

test("Anthropic's client uploads, lists, reads and deletes files", async () => {
  const client = anthropicOf(keys.own);
  const uploaded: string[] = [];
  for (const name of ["a.txt", "b.txt", "c.txt"]) {
    const file = await client.files.upload({ file: await toFile(Buffer.from(name), name, { type: "text/plain" }) });
    assert.match(file.id, /^file_[0-9a-z]{24}$/);
    const { created_at, ...rest } = file;
    assert.ok(!Number.isNaN(Date.parse(created_at)));
    assert.deepEqual(rest, {
      ...{ id: file.id, type: "file", filename: name, mime_type: "text/plain", size_bytes: 5 },
      ...{ downloadable: true, expires_at: null },
    });
    assert.deepEqual(await client.files.retrieveMetadata(file.id), file);
    uploaded.unshift(file.id);
  }
  const listed: string[] = [];
  for await (const { id } of client.files.list({ limit: 2 })) listed.push(id);
  assert.deepEqual(listed, uploaded);
  // As its releases before 1.0 page: https://docs.claude.com/en/api/files-list
  for (const [query, place, hasMore] of [
    [`before_id=${uploaded[2]}&limit=1`, [1], true],
    [`before_id=${uploaded[2]}&limit=2`, [0, 1], false],
    [`before_id=${uploaded[0]}`, [], false],
    [`after_id=${uploaded[0]}&limit=1`, [1], true],
  ] as const) {
    const page = await client.get<{ data: { id: string }[]; first_id: string | null; has_more: boolean }>(
      `/v1/files?${query}`,
    );
    const ids = place.map((at) => uploaded[at]);
    assert.deepEqual([page.data.map(({ id }) => id), page.first_id, page.has_more], [ids, ids[0] ?? null, hasMore]);
  }
  const [first = ""] = uploaded;
  assert.equal(await (await client.files.download(first)).text(), "c.txt");
  const other = anthropicOf(keys.other);
  const missing = (error: unknown) =>
    error instanceof Anthropic.NotFoundError && /not_found_error.*File not found/.test(error.message);
  await assert.rejects(other.files.retrieveMetadata(first), missing);
  await assert.rejects(other.files.download(first), missing);
  await assert.rejects(other.files.delete(first), missing);
  for (const id of uploaded) assert.deepEqual(await client.files.delete(id), { id, type: "file_deleted" });
  await assert.rejects(client.files.retrieveMetadata(first), missing);
});

test("Google's client uploads a file in chunks, lists, downloads and deletes it", async () => {
  const client = googleOf(keys.own);
  const bytes = randomBytes(9 * 2 ** 20);
  const file = await client.files.upload({
    file: new Blob([bytes], { type: "application/pdf" }),
    config: { displayName: "größe", mimeType: "application/pdf" },
  });
  assert.match(file.name ?? "", /^files\/[0-9a-z]{24}$/);
  assert.equal(file.uri, `${url}/v1beta/${file.name}`);
  assert.deepEqual(
    [file.displayName, file.mimeType, file.sizeBytes, file.state],
    ["größe", "application/pdf", String(bytes.length), "ACTIVE"],
  );
  const name = file.name ?? "";
  assert.deepEqual(await client.files.get({ name }), file);
  const second = await client.files.upload({ file: new Blob(["x"]), config: { mimeType: "text/plain" } });
  const listed: (string | undefined)[] = [];
  for await (const each of await client.files.list({ config: { pageSize: 1 } })) listed.push(each.name);
  assert.deepEqual(listed, [second.name, file.name]);
  const downloadPath = join(directory, "download");
  await client.files.download({ file: name, downloadPath });
  assert.ok((await readFile(downloadPath)).equals(bytes));
  const other = googleOf(keys.other);
  await assert.rejects(other.files.get({ name }), /does not exist/);
  await assert.rejects(other.files.delete({ name }), /does not exist/);
  await client.files.delete({ name });
  await assert.rejects(client.files.get({ name }), /NOT_FOUND/);
  await client.files.delete({ name: second.name ?? "" });
});

/** Begins a resumable upload; resolves to its address. */
async function beginUpload(key: string, bytes: number): Promise<string> {
  const response = await fetch(`${url}/upload/v1beta/files`, {
    method: "POST",
    headers: {
      ...{ "x-goog-api-key": key, "content-type": "application/json", "x-goog-upload-protocol": "resumable" },
      ...{ "x-goog-upload-command": "start", "x-goog-upload-header-content-length": String(bytes) },
    },
    body: JSON.stringify({ file: { mime_type: "text/plain" } }),
  });
  await response.arrayBuffer();
  return response.headers.get("x-goog-upload-url") ?? assert.fail(`${response.status}`);
}

const sendTo = async (address: string, command: string, offset: number, body?: string) => {
  const response = await fetch(address, {
    method: "POST",
    headers: {
      ...{ "content-type": "application/json", "x-goog-upload-command": command },
      "x-goog-upload-offset": String(offset),
    },
    ...(body !== undefined && { body }),
  });
  const answer = (await response.json()) as { file?: { name: string; sizeBytes: string } };
  return {
    status: response.status,
    state: response.headers.get("x-goog-upload-status"),
    received: response.headers.get("x-goog-upload-size-received"),
    file: answer.file,
  };
};

test("of parts that arrive at the same time for the same bytes one is stored", async () => {
  const stored = (await service.objects()).length;
  const address = await beginUpload(keys.own, 6);
  const slow = new TransformStream<Uint8Array, Uint8Array>();
  const writer = slow.writable.getWriter();
  const first = fetch(address, {
    ...{ method: "POST", body: slow.readable, duplex: "half" },
    headers: { "x-goog-upload-command": "upload", "x-goog-upload-offset": "0" },
  } as RequestInit);
  await writer.write(Buffer.from("ab"));
  await until("the first part arrives", async () => (await service.objects()).length > stored);
  assert.equal((await sendTo(address, "upload", 0, "abc")).received, "3");
  await writer.write(Buffer.from("c"));
  await writer.close();
  const refused = await first;
  assert.equal(refused.status, 400);
  assert.match(await refused.text(), /The next bytes are those from 3 on/);
  assert.equal((await sendTo(address, "upload, finalize", 3, "def")).file?.sizeBytes, "6");
});

test("an upload goes on without a key, as Google's Python client sends it, and where it stopped", async () => {
  const address = await beginUpload(keys.own, 6);
  assert.deepEqual(await sendTo(address, "upload", 0, "abc"), {
    ...{ status: 200, state: "active", received: "3", file: undefined },
  });
  // The answer was lost.
  assert.equal((await sendTo(address, "upload", 0, "abc")).received, "3");
  assert.equal((await sendTo(address, "query", 0)).received, "3");
  assert.equal((await sendTo(address, "upload", 5, "f")).status, 400);
  const { state, file } = await sendTo(address, "upload, finalize", 3, "def");
  assert.equal(state, "final");
  assert.equal(file?.sizeBytes, "6");
  const content = await fetch(`${url}/v1beta/${file?.name}:download?alt=media&key=${keys.own}`);
  assert.equal(await content.text(), "abcdef");
  assert.equal((await sendTo(address, "upload", 6, "g")).status, 404);
});

/** As `GoogleAIFileManager` of Google's older library for JavaScript sends a file. */
const relatedOf = (metadata: string, ...files: string[]) =>
  `${[
    `--b\r\nContent-Type: application/json; charset=utf-8\r\n\r\n${metadata}`,
    ...files.map((text) => `Content-Type: application/pdf\r\n\r\n${text}`),
  ].join("\r\n--b\r\n")}\r\n--b--`;

test("a file that comes with its metadata, or as it is, is uploaded in one request", async () => {
  const upload = async (query: string, headers: Record<string, string>, body: string) => {
    const response = await fetch(`${url}/upload/v1beta/files${query}`, {
      ...{ method: "POST", body, headers: { "x-goog-api-key": keys.own, ...headers } },
    });
    const { file, error } = (await response.json()) as {
      file?: { name: string; displayName: string; mimeType: string; sizeBytes: string; expirationTime: string };
      error?: { message: string };
    };
    return { status: response.status, file, message: error?.message };
  };
  const related = { "content-type": "multipart/related; boundary=b" };
  const multipart = { ...related, "x-goog-upload-protocol": "multipart" };
  const bytes = "a\r\n--c\r\nb";
  const named = '{"file":{"mimeType":"text/plain","displayName":"größe"}}';
  for (const [query, headers, body, name, type] of [
    ["", multipart, relatedOf(named, bytes), "größe", "text/plain"],
    ["", multipart, relatedOf('{"file":{"display_name":"a"}}', bytes), "a", "application/pdf"],
    ["?uploadType=multipart", related, relatedOf("{}", bytes), "file", "application/pdf"],
    ["?uploadType=media", { "content-type": "text/x-script" }, bytes, "file", "text/x-script"],
    ["", { "x-goog-upload-protocol": "raw", "x-goog-upload-file-name": "n" }, bytes, "n", "text/plain;charset=UTF-8"],
  ] as const) {
    const { status, file } = await upload(query, headers, body);
    assert.deepEqual([status, file?.displayName, file?.mimeType], [200, name, type]);
    assert.equal(file?.sizeBytes, String(bytes.length));
    const content = await fetch(`${url}/v1beta/${file.name}:download?alt=media&key=${keys.own}`);
    assert.equal(await content.text(), bytes);
    assert.ok(Math.abs(Date.parse(file.expirationTime) - Date.now() - 48 * 3_600_000) < 60_000);
  }
  const stored = (await service.objects()).length;
  for (const [query, headers, body, message] of [
    ["", multipart, relatedOf(named), /no file/],
    ["", multipart, relatedOf(named, bytes, bytes), /twice/],
    ["", multipart, relatedOf('{"file":{"name":"files/x"}}', bytes), /name cannot be chosen/],
    ["", multipart, relatedOf(`{"file":{"displayName":"${"a".repeat(9_000)}"}}`, bytes), /'metadata' is too long/],
    ["", multipart, relatedOf(named, bytes).slice(0, -4), /not a whole form/],
    ["", multipart, relatedOf(named, bytes).slice(0, relatedOf(named).length + 8), /not a whole form/],
    ["?uploadType=resumable", { "content-type": "application/json" }, "{}", /does not exist/],
  ] as const) {
    const refused = await upload(query, headers, body);
    assert.ok(refused.status >= 400 && refused.status < 500, `${message}: ${refused.status}`);
    assert.match(refused.message ?? "", message);
  }
  assert.equal((await service.objects()).length, stored);
});

test("a file with its metadata may arrive slowly, and a part may lack the end of its header", async () => {
  for (const [pieces, status] of [
    [[relatedOf("{}", "hello"), "\r\n"], 200],
    [[relatedOf("{}", "hello").slice(0, -2), "--", "\r\n", "an epilogue"], 200],
    [[relatedOf("{}", "hello").slice(0, -4), "\r\n--b", "--"], 200],
    [[relatedOf("{}"), "\r\n", "--b--"], 400],
    [["--b\r\nContent-Type: a/b", "\r\n--b--", "\r\n"], 400],
  ] as const) {
    const body = new ReadableStream({
      async start(controller) {
        for (const piece of pieces) {
          controller.enqueue(Buffer.from(piece));
          await delay(20);
        }
        controller.close();
      },
    });
    const headers = { "x-goog-api-key": keys.own, "content-type": "multipart/related; boundary=b" };
    const options = { method: "POST", body, headers, duplex: "half", signal: AbortSignal.timeout(10_000) };
    const response = await fetch(`${url}/upload/v1beta/files`, options as RequestInit);
    assert.equal(response.status, status, pieces.join("|"));
    await response.arrayBuffer();
  }
});

test("the address of an upload is good for this upload only, and for nobody without it", async () => {
  const address = new URL(await beginUpload(keys.own, 3));
  const ticket = address.searchParams.get("ticket") ?? "";
  for (const [path, status] of [
    ["/v1beta/files", 403],
    ["/v1/models", 401],
    ["/v1/files", 401],
  ] as const) {
    const response = await fetch(`${url}${path}?ticket=${ticket}`);
    await response.arrayBuffer();
    assert.equal(response.status, status, path);
  }
  const other = new URL(await beginUpload(keys.own, 3));
  const upload = other.searchParams.get("upload_id") ?? "";
  other.searchParams.set("ticket", ticket);
  assert.equal((await sendTo(String(other), "upload", 0, "abc")).status, 403, "another upload of the key");
  const begins = await sendTo(String(address), "start", 0, JSON.stringify({ file: { sizeBytes: 3 } }));
  assert.equal(begins.status, 400, "a new upload");
  for (const name of ["upload_id", "upload%5Fid"])
    assert.equal((await sendTo(`${address}&${name}=${upload}`, "upload", 0, "abc")).status, 403, name);
  const [hash, end, mac] = ticket.split(".");
  for (const wrong of [
    "",
    `${hash}.${Number(end) + 1}.${mac}`,
    `${"0".repeat(64)}.${end}.${mac}`,
    `${hash}.${end}.x`,
  ]) {
    address.searchParams.set("ticket", wrong);
    assert.equal((await sendTo(String(address), "upload", 0, "abc")).status, 403, wrong);
  }
});

test("an upload has as many bytes as it announced", async () => {
  for (const [announced, body] of [
    [0, "a"],
    [3, "abcd"],
    [3, "ab"],
  ] as const) {
    const address = await beginUpload(keys.own, announced);
    const { status, file } = await sendTo(address, "upload, finalize", 0, body);
    assert.equal(status, body.length > announced ? 413 : 400, `${announced} ${body}`);
    assert.equal(file, undefined);
  }
  const address = await beginUpload(keys.own, 3);
  assert.equal((await sendTo(address, "upload", 0, "ab")).status, 200);
  assert.equal((await sendTo(address, "upload", 2, "cd")).status, 200);
  assert.equal((await sendTo(address, "finalize", 4)).status, 400);
});
