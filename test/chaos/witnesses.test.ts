import { test } from "node:test";
import { assertWitnessed, orders } from "./witnesses.ts";

for (const order of orders)
  test(`${order.join(", and soon the ")} killed: each answer and all that ran has a record`, () =>
    assertWitnessed(order));
