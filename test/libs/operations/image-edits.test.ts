import assert from "node:assert/strict";
import { test } from "node:test";
import type { PreparationTask } from "#operations/exchange.ts";
import { imageEditExchange } from "#operations/images/exchange.ts";
import { imageEdit } from "#operations/images/operation.ts";
import { formOf } from "#wire/form.ts";

const png = "iVBORw0KGgo=";
const data = `data:image/png;base64,${png}`;
const remote = "https://example.com/a.png";

/** The request to an upstream with this name of the model, which gets the data of addresses. */
async function requestFor(model: string, body: Buffer, contentType: string) {
  const task = { framing: "whole", body, contentType, spoken: "openai-images", target: { model }, createdAt: 0 };
  const prepared = await imageEditExchange.prepare(task as unknown as PreparationTask, async (addresses) =>
    addresses.map(() => ({ kind: "data", mimeType: "image/png", data: png })),
  );
  return prepared.kind === "call" ? prepared.request : assert.fail(prepared.kind);
}
const jsonFor = (model: string, edit: object) =>
  requestFor(model, Buffer.from(JSON.stringify({ model: "m", prompt: "a hat", ...edit })), "application/json");

const edits: [name: string, edit: Record<string, unknown>, images: number][] = [
  ["OpenAI's", { images: [{ image_url: data }] }, 1],
  ["OpenAI's, of two", { images: [{ image_url: data }, { image_url: data }], mask: { image_url: data } }, 2],
  // https://docs.x.ai/developers/model-capabilities/images/editing
  ["xAI's", { image: { url: data, type: "image_url" } }, 1],
  ["xAI's, of two", { images: [{ url: data, type: "image_url" }, { url: data }], mask: { url: data } }, 2],
  // https://github.com/basketikun/chatgpt2api/pull/146
  ["a text", { image: data }, 1],
  ["texts", { image: [data, data], mask: data }, 2],
  ["chat's parts", { images: [{ type: "image_url", image_url: { url: data } }] }, 1],
  ["one without a list", { images: { image_url: data }, image: null }, 1],
];

test("an edit that is JSON may name its images in the form of any vendor", async () => {
  for (const [name, edit, count] of edits) {
    const values = await imageEdit.formValuesOf?.(imageEdit.formOfJson?.(edit) ?? assert.fail());
    assert.deepEqual(values?.image, Array(count).fill("image/png"), name);
    assert.equal(values?.mask, edit.mask === undefined ? undefined : "image/png", name);
    const { headers, body } = await jsonFor("theirs", edit);
    const form = await formOf(body, headers?.["content-type"] ?? "");
    assert.deepEqual(
      [form.getAll("image[]").length, form.has("image"), form.has("mask")],
      [count, false, edit.mask !== undefined],
      name,
    );
  }
});

test("images at addresses reach the upstream in OpenAI's form", async () => {
  for (const edit of [{ images: [{ image_url: remote }] }, { image: { url: remote } }, { image: remote }]) {
    const { body } = await jsonFor("theirs", edit);
    assert.deepEqual(JSON.parse(body.toString()), {
      model: "theirs",
      prompt: "a hat",
      images: [{ image_url: data }],
    });
  }
});

test("xAI's models get JSON in their form, whatever the caller sends", async () => {
  const reference = { type: "image_url", url: data };
  const wanted = { model: "grok-imagine-image", prompt: "a hat" };
  for (const [name, edit, count] of edits) {
    const { path, headers, body } = await jsonFor("grok-imagine-image", { ...edit, n: 2, aspect_ratio: "1:1" });
    assert.deepEqual([path, headers], ["/images/edits", undefined], name);
    assert.deepEqual(
      JSON.parse(body.toString()),
      {
        ...wanted,
        ...{ n: 2, aspect_ratio: "1:1" },
        ...(count === 1 ? { image: reference } : { images: [reference, reference] }),
        ...(edit.mask !== undefined && { mask: reference }),
      },
      name,
    );
  }
  const form = new FormData();
  for (const [field, value] of Object.entries({ model: "m", prompt: "a hat" })) form.set(field, value);
  form.set("image", new File([Buffer.from(png, "base64")], "a.png"));
  const response = new Response(form);
  const bytes = Buffer.from(await response.arrayBuffer());
  const sent = await requestFor("xai/grok-imagine-image", bytes, response.headers.get("content-type") ?? "");
  assert.deepEqual(JSON.parse(sent.body.toString()), {
    ...wanted,
    model: "xai/grok-imagine-image",
    image: reference,
  });
  const fetched = await jsonFor("grok-imagine-image", { image: { url: remote } });
  assert.deepEqual(JSON.parse(fetched.body.toString()).image, reference);
  const masked = { image: { url: data }, mask: { url: remote } };
  await assert.rejects(jsonFor("grok-imagine-image", masked), /mask must be a data URL/);
});
