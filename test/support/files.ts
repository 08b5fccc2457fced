/** A gateway with control, whose callers have files. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startControl, type TestControl } from "./control.ts";
import { type Gateway, type GatewayOptions, startGateway } from "./gateway.ts";

export interface FilesGateway extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly control: TestControl;
  /** The directory of the object store. */
  readonly directory: string;
  /** A key of a new account, in the group `default` unless told otherwise. */
  addAccount(id: string, group?: string): Promise<string>;
  /** The names of all objects. */
  objects(): Promise<string[]>;
}

/** `control` is for control alone; `withBatches` lets it send lines of batches to the ingress. */
export async function startFilesGateway(
  options: GatewayOptions & {
    control?: Record<string, string> | Promise<Record<string, string>>;
    withBatches?: boolean;
  } = {},
): Promise<FilesGateway> {
  await using opened = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "sluice-files-"));
  opened.defer(() => rm(directory, { recursive: true, force: true }));
  const address = `unix:${join(directory, "control.sock")}`;
  const INTERNAL_SECRET = "the secret of ingress and control in tests";
  const gateway = opened.use(
    await startGateway({
      ...options,
      environment: { INTERNAL_SECRET, CONTROL_INTERNAL_URL: address, ...options.environment },
    }),
  );
  const objects = join(directory, "objects");
  const control = opened.use(
    await startControl({
      REDIS_URL: gateway.redis.url,
      SLUICE_CATALOGUE: gateway.catalogueFile,
      SIMULATOR_URL: gateway.simulatorUrl,
      GATEWAY_URL: gateway.url,
      INTERNAL_SECRET,
      CONTROL_INTERNAL_ADDRESS: address,
      FILES_DIRECTORY: objects,
      ...(options.withBatches && { INGRESS_URL: gateway.url }),
      ...(await options.control),
    }),
  );
  const resources = opened.move();
  return {
    gateway,
    control,
    directory: objects,
    async addAccount(id, group = "default") {
      await control.call("POST", "/accounts", { id, name: id });
      const response = await control.call("POST", "/keys", { account: id, name: "test", group });
      const { key } = (await response.json()) as { key: string };
      return key;
    },
    async objects() {
      const entries = await readdir(objects, { recursive: true, withFileTypes: true }).catch(() => []);
      return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}
