/** Opens the store of objects as the configuration says. */
import { resolve } from "node:path";
import type { ObjectStore } from "#objects/object-store.ts";
import { openObjectStore } from "#objects/open.ts";
import type { ControlConfig } from "../config.ts";

type StoreConfig = Pick<
  ControlConfig,
  "filesDirectory" | "s3Bucket" | "s3Prefix" | "s3Region" | "s3Endpoint" | "s3AccessKeyId" | "s3SecretAccessKey"
>;

/** The bucket or the directory of the configuration. */
export const openObjects = ({ filesDirectory, ...s3 }: StoreConfig): Promise<ObjectStore> =>
  openObjectStore({
    directory: resolve(filesDirectory),
    s3:
      s3.s3Bucket === ""
        ? undefined
        : {
            bucket: s3.s3Bucket,
            prefix: s3.s3Prefix,
            region: s3.s3Region,
            endpoint: s3.s3Endpoint === "" ? undefined : s3.s3Endpoint,
            credentials:
              s3.s3SecretAccessKey === undefined
                ? undefined
                : { accessKeyId: s3.s3AccessKeyId, secretAccessKey: s3.s3SecretAccessKey },
          },
  });
