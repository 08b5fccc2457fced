/** Opens the files of accounts as the configuration says. */
import { resolve } from "node:path";
import type { ObjectStore } from "#objects/object-store.ts";
import { openObjectStore } from "#objects/open.ts";
import type { ControlConfig } from "../config.ts";
import { FileStore, type FileStoreOptions } from "./file-store.ts";

type FilesOptions = Omit<FileStoreOptions, "objects" | "config"> & { config: ControlConfig };

export async function openFiles(options: FilesOptions): Promise<{ files: FileStore; objects: ObjectStore }> {
  const { s3Bucket, s3Prefix, s3Region, s3Endpoint, s3AccessKeyId, s3SecretAccessKey, filesDirectory } = options.config;
  const objects = await openObjectStore({
    directory: resolve(filesDirectory),
    s3:
      s3Bucket === ""
        ? undefined
        : {
            bucket: s3Bucket,
            prefix: s3Prefix,
            region: s3Region,
            endpoint: s3Endpoint === "" ? undefined : s3Endpoint,
            credentials:
              s3SecretAccessKey === undefined
                ? undefined
                : { accessKeyId: s3AccessKeyId, secretAccessKey: s3SecretAccessKey },
          },
  });
  return { files: new FileStore({ ...options, objects }), objects };
}
