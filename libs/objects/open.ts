/** Opens the object store of the configuration. */
import { DirectoryStore } from "./directory-store.ts";
import type { ObjectStore } from "./object-store.ts";
import type { S3Options } from "./s3-store.ts";

interface ObjectStoreOptions {
  directory: string;
  /** In place of the directory. */
  s3: S3Options | undefined;
}

export async function openObjectStore({ directory, s3 }: ObjectStoreOptions): Promise<ObjectStore> {
  if (s3 === undefined) return new DirectoryStore(directory);
  const { openS3Store } = await import("./s3-store.ts");
  return openS3Store(s3);
}
